//! Who held each CPU when: events sorted by CPU and level, so that any stretch of time can be cut into the
//! innermost intervals that cover it.
//!
//! Within one level the interval that started last holds the CPU; where it ends inside an earlier one, the
//! earlier one goes on (a *tail*). Lists hold event numbers only, 4 bytes an entry.

use quaver_abi::record::{EventKind, EventRecord};

/// What may hold a CPU, innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Nmi = 0,
    Interrupt = 1,
    Softirq = 2,
    Thread = 3,
}

impl Level {
    fn of(kind: EventKind) -> Option<Self> {
        Some(match kind {
            EventKind::Nmi => Self::Nmi,
            EventKind::Irq | EventKind::Vector => Self::Interrupt,
            EventKind::Softirq => Self::Softirq,
            EventKind::Thread => Self::Thread,
            _ => return None,
        })
    }
}

const TAIL: u32 = 1 << 31;

/// A stretch of one CPU held by one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) event: u32,
}

#[derive(Default)]
struct Cpu {
    levels: [Vec<u32>; 4],
    namers: Vec<u32>,
    idle: Vec<u32>,
}

/// The events of a run, by CPU and level.
pub(crate) struct Timeline<'a> {
    pub(crate) events: &'a [EventRecord],
    cpus: Vec<Cpu>,
    /// Interprocessor interrupts sent, all CPUs, in time order.
    pub(crate) sends: Vec<u32>,
}

pub(crate) fn start_of(event: &EventRecord) -> i64 {
    i64::try_from(event.start_ns).unwrap_or(i64::MAX)
}

pub(crate) fn end_of(event: &EventRecord) -> i64 {
    i64::try_from(event.end_ns).unwrap_or(i64::MAX)
}

/// Sorts event numbers by start, then longest first, then number. Recorded order is nearly that, which a
/// stable sort takes advantage of.
pub(crate) fn sort_by_start(events: &[EventRecord], list: &mut Vec<u32>) {
    let key = |&index: &u32| {
        let event = &events[index as usize];
        (event.start_ns, std::cmp::Reverse(event.end_ns), index)
    };
    if !list.is_sorted_by_key(key) {
        list.sort_by_key(key);
    }
    list.shrink_to_fit();
}

impl<'a> Timeline<'a> {
    /// Sorts the events. Records of unknown kind, with an end before the start or beyond the first 2³¹ are left
    /// out.
    pub(crate) fn new(events: &'a [EventRecord]) -> Self {
        let mut cpus: Vec<Cpu> = Vec::new();
        let mut sends = Vec::new();
        for (index, event) in events.iter().enumerate().take(TAIL as usize) {
            let Some(kind) = EventKind::from_repr(event.kind) else { continue };
            let (index, empty) = (index as u32, event.end_ns <= event.start_ns);
            let at = usize::from(event.cpu);
            let list = match kind {
                EventKind::IpiSend => &mut sends,
                _ if empty && kind != EventKind::TlbFlush => continue,
                _ => {
                    if at >= cpus.len() {
                        cpus.resize_with(at + 1, Cpu::default);
                    }
                    match kind {
                        EventKind::IdleState => &mut cpus[at].idle,
                        EventKind::Hrtimer
                        | EventKind::Timer
                        | EventKind::Work
                        | EventKind::CrossCall
                        | EventKind::TlbFlush => &mut cpus[at].namers,
                        _ => match Level::of(kind) {
                            Some(level) => &mut cpus[at].levels[level as usize],
                            None => continue,
                        },
                    }
                }
            };
            list.push(index);
        }
        sort_by_start(events, &mut sends);
        for cpu in &mut cpus {
            sort_by_start(events, &mut cpu.namers);
            sort_by_start(events, &mut cpu.idle);
            for level in &mut cpu.levels {
                sort_by_start(events, level);
                flatten(events, level);
            }
            flatten(events, &mut cpu.idle);
        }
        Self { events, cpus, sends }
    }

    /// Segments of a level on a CPU that touch `from..to`, cut to it.
    pub(crate) fn segments(&self, cpu: u16, level: Level, from: i64, to: i64) -> Segments<'_> {
        let list = self.cpus.get(usize::from(cpu)).map_or(&[][..], |cpu| &cpu.levels[level as usize]);
        Segments::new(self.events, list, from, to)
    }

    /// Idle states of a CPU that touch `from..to`, cut to it.
    pub(crate) fn idle_states(&self, cpu: u16, from: i64, to: i64) -> Segments<'_> {
        let list = self.cpus.get(usize::from(cpu)).map_or(&[][..], |cpu| &cpu.idle);
        Segments::new(self.events, list, from, to)
    }

    /// Events that name an enclosing one (timer callbacks, work items, cross calls, TLB flushes) and start in
    /// `from..to`.
    pub(crate) fn namers(&self, cpu: u16, from: i64, to: i64) -> impl Iterator<Item = &'a EventRecord> {
        let list = self.cpus.get(usize::from(cpu)).map_or(&[][..], |cpu| &cpu.namers);
        let events = self.events;
        let first = list.partition_point(|&index| start_of(&events[index as usize]) < from);
        list[first..]
            .iter()
            .map(move |&index| &events[index as usize])
            .take_while(move |event| start_of(event) < to)
    }

    /// The thread that held a CPU at an instant.
    pub(crate) fn thread_at(&self, cpu: u16, instant_ns: i64) -> Option<&'a EventRecord> {
        let segment = self.segments(cpu, Level::Thread, instant_ns, instant_ns.saturating_add(1)).next()?;
        Some(&self.events[segment.event as usize])
    }
}

/// Replaces a sorted list by the order in which the events hold the CPU, tails included.
fn flatten(events: &[EventRecord], list: &mut Vec<u32>) {
    let end = |index: u32| events[index as usize].end_ns;
    if list.windows(2).all(|pair| end(pair[0]) <= events[pair[1] as usize].start_ns) {
        return;
    }
    let mut flat = Vec::with_capacity(list.len() + list.len() / 8);
    let mut open: Vec<u32> = Vec::new();
    let close_until = |open: &mut Vec<u32>, flat: &mut Vec<u32>, limit: u64| {
        let mut reached = 0;
        while let Some(&top) = open.last() {
            if end(top) > limit {
                if reached > 0 && reached < limit {
                    flat.push(top | TAIL);
                }
                return;
            }
            if reached > 0 && end(top) > reached {
                flat.push(top | TAIL);
            }
            reached = reached.max(end(top));
            open.pop();
        }
    };
    for &index in list.iter() {
        close_until(&mut open, &mut flat, events[index as usize].start_ns);
        open.push(index);
        flat.push(index);
    }
    close_until(&mut open, &mut flat, u64::MAX);
    *list = flat;
}

/// Iterator over [`Segment`]s.
pub(crate) struct Segments<'a> {
    events: &'a [EventRecord],
    list: &'a [u32],
    next: usize,
    from: i64,
    to: i64,
}

impl<'a> Segments<'a> {
    fn new(events: &'a [EventRecord], list: &'a [u32], from: i64, to: i64) -> Self {
        let mut segments = Self { events, list, next: 0, from, to };
        let (mut low, mut high) = (0, list.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if segments.end(middle) <= from {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        segments.next = low;
        segments
    }

    fn start(&self, entry: usize) -> i64 {
        let index = self.list[entry];
        if index & TAIL == 0 {
            return start_of(&self.events[index as usize]);
        }
        // A tail begins where the entry before it ended; the first entry is never a tail.
        end_of(&self.events[(self.list[entry - 1] & !TAIL) as usize])
    }

    fn end(&self, entry: usize) -> i64 {
        let own = end_of(&self.events[(self.list[entry] & !TAIL) as usize]);
        if entry + 1 < self.list.len() { own.min(self.start(entry + 1)) } else { own }
    }
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        while self.next < self.list.len() {
            let entry = self.next;
            let start_ns = self.start(entry).max(self.from);
            if start_ns >= self.to {
                return None;
            }
            self.next += 1;
            let end_ns = self.end(entry).min(self.to);
            if start_ns < end_ns {
                return Some(Segment { start_ns, end_ns, event: self.list[entry] & !TAIL });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn softirq(start: u64, end: u64) -> EventRecord {
        EventRecord { start_ns: start, end_ns: end, kind: EventKind::Softirq as u8, ..EventRecord::default() }
    }

    #[test]
    fn an_outer_interval_goes_on_after_an_inner_one() {
        let events = [softirq(10, 100), softirq(20, 30), softirq(25, 28), softirq(150, 160)];
        let timeline = Timeline::new(&events);
        let got: Vec<_> =
            timeline.segments(0, Level::Softirq, 0, 1000).map(|s| (s.start_ns, s.end_ns, s.event)).collect();
        assert_eq!(got, [(10, 20, 0), (20, 25, 1), (25, 28, 2), (28, 30, 1), (30, 100, 0), (150, 160, 3)]);
        let cut: Vec<_> =
            timeline.segments(0, Level::Softirq, 29, 40).map(|s| (s.start_ns, s.end_ns, s.event)).collect();
        assert_eq!(cut, [(29, 30, 1), (30, 40, 0)]);
        assert_eq!(timeline.segments(7, Level::Softirq, 0, 1000).count(), 0);
    }

    proptest! {
        #[test]
        fn the_holder_is_the_covering_interval_that_started_last(
            intervals in prop::collection::vec((1u64..60, 0u64..30), 0..25),
            from in 0i64..80,
            length in 0i64..80,
        ) {
            let events: Vec<_> = intervals.iter().map(|&(start, length)| softirq(start, start + length)).collect();
            let timeline = Timeline::new(&events);
            let segments: Vec<_> = timeline.segments(0, Level::Softirq, from, from + length).collect();
            prop_assert!(segments.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
            for t in from..from + length {
                let holder = (0..events.len())
                    .filter(|&i| start_of(&events[i]) <= t && t < end_of(&events[i]))
                    .max_by_key(|&i| (events[i].start_ns, std::cmp::Reverse(events[i].end_ns), i));
                let found = segments.iter().find(|s| s.start_ns <= t && t < s.end_ns).map(|s| s.event as usize);
                prop_assert_eq!(found, holder, "at {}", t);
            }
        }
    }
}
