//! What `/proc/PID/stat` tells of a process or thread (proc_pid_stat(5), whose numbers of fields are used here).

use crate::root::HostRoot;

/// A process or thread at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Name; any characters.
    pub name: String,
    /// One letter.
    pub state: char,
    /// Its parent.
    pub parent: u32,
    /// Its session; 0 where the process that leads it is not to be seen from here.
    pub session: i32,
    /// PF_* of linux/sched.h.
    pub flags: u64,
    /// Time on CPUs, in user space and in the kernel, in ticks of 10 ms.
    pub ran_ticks: u64,
    /// When it started, in ticks of 10 ms since the boot.
    pub started_ticks: u64,
    /// CPU that it ran on last.
    pub cpu: Option<u16>,
    /// Priority under SCHED_FIFO and SCHED_RR, else 0.
    pub realtime_priority: Option<u32>,
    /// SCHED_* of sched(7).
    pub policy: Option<i32>,
}

impl Stat {
    /// Of the process or thread with this directory, such as `proc/1`; none if it has gone or cannot be read.
    pub fn read(root: &HostRoot, directory: &str) -> Option<Self> {
        Self::parse(&root.text(&format!("{directory}/stat"))?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.rsplit_once(')')?;
        let name = head.split_once('(')?.1;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Self {
            name: name.to_owned(),
            state: field(3)?.chars().next()?,
            parent: field(4)?.parse().ok()?,
            session: field(6)?.parse().ok()?,
            flags: field(9)?.parse().ok()?,
            ran_ticks: field(14)?.parse::<u64>().ok()?.saturating_add(field(15)?.parse().ok()?),
            started_ticks: field(22)?.parse().ok()?,
            cpu: field(39).and_then(|cpu| cpu.parse().ok()),
            realtime_priority: field(40).and_then(|priority| priority.parse().ok()),
            policy: field(41).and_then(|policy| policy.parse().ok()),
        })
    }

    /// Whether but its remains are left, for its parent.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Whether it runs under SCHED_FIFO, SCHED_RR or SCHED_DEADLINE.
    pub fn is_realtime(&self) -> bool {
        [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE].map(Some).contains(&self.policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_and_missing_fields_are_read() {
        let text = "12 (a) b (c) S 11 10 9 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 1 0 31";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.parent), ("a) b (c", 'S', 11));
        assert_eq!((stat.session, stat.flags, stat.ran_ticks, stat.started_ticks), (9, 4_194_560, 110, 31));
        assert_eq!((stat.cpu, stat.policy, stat.is_dead(), stat.is_realtime()), (None, None, false, false));
        let whole = format!("{text} {} 3 0 1", ["0"; 16].join(" "));
        let stat = Stat::parse(&whole).unwrap();
        assert_eq!((stat.cpu, stat.policy, stat.is_realtime()), (Some(3), Some(libc::SCHED_FIFO), true));
    }

    #[test]
    fn damaged_text_is_none() {
        for text in ["", "77 (x", "77 (x)", "77 x) S 1 2", "77 (x) S 1 2"] {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
    }

    #[test]
    fn this_thread_is_seen_as_it_is() {
        let stat = Stat::read(&HostRoot::system(), "proc/thread-self").unwrap();
        assert_eq!((stat.state, stat.is_dead()), ('R', false));
        assert!(stat.cpu.is_some() && stat.started_ticks > 0 && stat.session >= 0, "{stat:?}");
    }
}
