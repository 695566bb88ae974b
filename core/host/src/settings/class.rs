//! The scheduling class of a thread as a setting: `other`, `batch`, `idle`, `fifo:1`, `rr:1` (sched(7)).

use crate::root::HostRoot;
use crate::stat::Stat;
use std::fmt;
use std::io;
use std::str::FromStr;

/// How the kernel chooses when a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadClass {
    /// SCHED_* of sched(7).
    policy: i32,
    /// 1 to 99 under SCHED_FIFO and SCHED_RR, else 0.
    priority: u32,
}

const NAMES: [(&str, i32); 3] =
    [("other", libc::SCHED_OTHER), ("batch", libc::SCHED_BATCH), ("idle", libc::SCHED_IDLE)];
const REALTIME: [(&str, i32); 2] = [("fifo", libc::SCHED_FIFO), ("rr", libc::SCHED_RR)];

impl ThreadClass {
    /// Of a thread.
    ///
    /// # Errors
    /// The thread has gone, or has a class that is not set by these means (SCHED_DEADLINE, a class of BPF).
    pub fn of(root: &HostRoot, tid: u32) -> io::Result<Self> {
        let stat = Stat::read(root, &format!("proc/{tid}")).filter(|stat| !stat.is_dead());
        let stat = stat.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        let class = Self { policy: stat.policy.unwrap_or(-1), priority: stat.realtime_priority.unwrap_or(0) };
        let known = NAMES.iter().chain(&REALTIME).any(|(_, policy)| *policy == class.policy);
        if known { Ok(class) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    /// Whether ordinary threads take turns with it.
    pub fn is_ordinary(self) -> bool {
        NAMES.iter().any(|(_, policy)| *policy == self.policy)
    }

    /// Gives it to a thread of this machine. That its children begin as ordinary threads (SCHED_RESET_ON_FORK) stays as it is.
    pub(super) fn set(self, tid: u32) -> io::Result<()> {
        let tid = libc::pid_t::try_from(tid).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: the call takes a number and only reads.
        let now = unsafe { libc::sched_getscheduler(tid) };
        if now < 0 {
            return Err(io::Error::last_os_error());
        }
        let parameters = libc::sched_param { sched_priority: self.priority.cast_signed() };
        let policy = self.policy | now & libc::SCHED_RESET_ON_FORK;
        // SAFETY: the call reads the parameters, which live through it.
        let result = unsafe { libc::sched_setscheduler(tid, policy, &raw const parameters) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Policy and priority, as `/proc/TID/stat` has them.
    #[cfg(any(test, feature = "fake"))]
    pub(crate) fn numbers(self) -> (i32, u32) {
        (self.policy, self.priority)
    }
}

impl fmt::Display for ThreadClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |names: &[(&'static str, i32)]| {
            names.iter().find(|(_, policy)| *policy == self.policy).map(|(name, _)| *name)
        };
        match (name(&NAMES), name(&REALTIME)) {
            (Some(name), _) => f.write_str(name),
            (None, Some(name)) => write!(f, "{name}:{}", self.priority),
            (None, None) => write!(f, "policy {}", self.policy),
        }
    }
}

impl FromStr for ThreadClass {
    type Err = io::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || io::Error::from(io::ErrorKind::InvalidInput);
        if let Some((_, policy)) = NAMES.iter().find(|(name, _)| *name == text) {
            return Ok(Self { policy: *policy, priority: 0 });
        }
        let (name, priority) = text.split_once(':').ok_or_else(bad)?;
        let (_, policy) = REALTIME.iter().find(|(known, _)| *known == name).ok_or_else(bad)?;
        let priority =
            priority.parse().ok().filter(|priority| (1..=99).contains(priority)).ok_or_else(bad)?;
        Ok(Self { policy: *policy, priority })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_class_are_one() {
        for text in ["other", "batch", "idle", "fifo:1", "fifo:99", "rr:7"] {
            assert_eq!(text.parse::<ThreadClass>().unwrap().to_string(), text);
        }
        for text in ["", "fifo", "fifo:0", "fifo:100", "rr:-1", "other:1", "deadline", "policy 6"] {
            assert!(text.parse::<ThreadClass>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_thread_of_this_process_has_the_class_that_it_was_given() {
        let root = HostRoot::system();
        let done = std::thread::spawn(move || {
            let tid = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            let before = ThreadClass::of(&root, tid).unwrap();
            "idle".parse::<ThreadClass>().unwrap().set(tid).unwrap();
            let after = ThreadClass::of(&root, tid).unwrap();
            (before.is_ordinary(), after.to_string(), tid)
        });
        let (ordinary, after, tid) = done.join().unwrap();
        assert_eq!((ordinary, after.as_str()), (true, "idle"));
        let gone = ThreadClass::of(&HostRoot::system(), tid).unwrap_err();
        assert_eq!(gone.raw_os_error(), Some(libc::ESRCH));
    }
}
