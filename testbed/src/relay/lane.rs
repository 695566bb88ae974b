//! One direction of one flow: what arrives, what waits, what leaves. Told the time, so it needs neither clock nor I/O.

use super::fate::{Again, Decider, Fate};
use super::log::{Class, Departure, Record, Release, Story};
use super::packet::{self, Kind, Protocol};
use super::script::{Script, Sentinels};
use quaver_arrivals::path::direction::Direction;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

/// A datagram to send now.
#[derive(Debug)]
pub struct Leaving {
    /// Its bytes.
    pub octets: Rc<[u8]>,
    /// Place of its record, for [`Lane::failed`].
    pub place: usize,
}

/// One copy of a datagram that has yet to leave.
#[derive(Debug)]
struct Waiting {
    octets: Rc<[u8]>,
    place: usize,
    /// Arrival number; none for what is not counted.
    number: Option<u64>,
    copy: u32,
    /// Copies that follow it.
    again: Vec<Again>,
    due_ns: u64,
    released: Release,
}

/// A waiting datagram in the order of its time. Equal times: in the order of arrival here.
#[derive(Debug)]
struct Timed {
    key: (u64, u64),
    waiting: Waiting,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// A datagram on hold.
#[derive(Debug)]
struct HeldDatagram {
    /// Later packets that have yet to leave.
    later: u32,
    waiting: Waiting,
}

/// One direction of one flow.
#[derive(Debug)]
pub struct Lane {
    flow: u32,
    direction: Direction,
    protocol: Protocol,
    sentinels: Sentinels,
    release_after_ns: u64,
    decider: Decider,
    /// Leave at once, in this order, before all that is timed.
    ready: VecDeque<Waiting>,
    timed: BinaryHeap<Reverse<Timed>>,
    /// In the order of arrival.
    held: VecDeque<HeldDatagram>,
    story: Story,
    queued: u64,
    left: u64,
    last_arrival_ns: u64,
    last_ordered_ns: u64,
    first_sent_ns: Option<i64>,
}

impl Lane {
    /// A lane by the script's rules for its direction.
    pub fn new(script: &Script, flow: u32, direction: Direction) -> Self {
        let (rules, place) = match direction {
            Direction::Up => (&script.up, 0),
            Direction::Down => (&script.down, 1),
        };
        Self {
            flow,
            direction,
            protocol: script.protocol,
            sentinels: script.sentinels,
            release_after_ns: script.release_after.ns(),
            decider: Decider::new(rules, script.seed, place),
            ready: VecDeque::new(),
            timed: BinaryHeap::new(),
            held: VecDeque::new(),
            story: Story::default(),
            queued: 0,
            left: 0,
            last_arrival_ns: 0,
            last_ordered_ns: 0,
            first_sent_ns: None,
        }
    }

    /// Takes a datagram in. `now_ns` is since the relay's start, `utc_ns` the same instant by the wall clock.
    pub fn arrive(&mut self, octets: &[u8], now_ns: u64, utc_ns: i64) {
        self.last_arrival_ns = now_ns;
        match packet::kind(self.protocol, octets, utc_ns) {
            Kind::Test(_) => self.test_packet(octets, Class::Test, now_ns),
            Kind::Sentinel if self.sentinels == Sentinels::Impaired => {
                self.test_packet(octets, Class::Sentinel, now_ns);
            }
            Kind::Sentinel => {
                let mut due_ns = now_ns;
                if self.sentinels == Sentinels::Last {
                    self.let_go(Release::Sentinel, now_ns);
                    due_ns = self.timed.iter().map(|Reverse(timed)| timed.key.0).fold(now_ns, u64::max);
                }
                self.untouched(octets, Class::Sentinel, now_ns, due_ns);
            }
            Kind::Other => self.untouched(octets, Class::Other, now_ns, now_ns),
        }
    }

    fn record(
        &mut self,
        octets: &[u8],
        class: Class,
        number: Option<u64>,
        fate: &Fate,
        now_ns: u64,
    ) -> usize {
        let dropped = fate.dropped_by.is_some();
        self.story.push(Record {
            flow: self.flow,
            direction: self.direction,
            class,
            number,
            sequence: packet::sequence(self.protocol, octets).filter(|_| class != Class::Other),
            octets: octets.len(),
            arrived_ns: now_ns,
            dropped_by: fate.dropped_by,
            flipped: fate.flips.clone(),
            restamped: fate.clock.is_some(),
            left: Vec::new(),
            waiting: if dropped { 0 } else { 1 + fate.copies.len() as u32 },
        })
    }

    fn untouched(&mut self, octets: &[u8], class: Class, now_ns: u64, due_ns: u64) {
        let place = self.record(octets, class, None, &Fate::default(), now_ns);
        let (octets, released) = (octets.into(), Release::Due);
        self.at_its_time(Waiting {
            octets,
            place,
            number: None,
            copy: 0,
            again: Vec::new(),
            due_ns,
            released,
        });
    }

    fn test_packet(&mut self, octets: &[u8], class: Class, now_ns: u64) {
        let (number, fate) = self.decider.next(octets.len());
        let place = self.record(octets, class, Some(number), &fate, now_ns);
        let mut octets = octets.to_vec();
        if let Some(clock) = &fate.clock {
            packet::restamp(&mut octets, clock, number, &mut self.first_sent_ns);
        }
        fate.flips.iter().for_each(|bit| packet::flip(&mut octets, *bit));
        if fate.dropped_by.is_some() {
            return;
        }
        let mut due_ns = now_ns.saturating_add(fate.delay_ns);
        if fate.keep_order {
            due_ns = due_ns.max(self.last_ordered_ns);
            self.last_ordered_ns = due_ns;
        }
        let (octets, number, released) = (octets.into(), Some(number), Release::Due);
        let waiting = Waiting { octets, place, number, copy: 0, again: fate.copies, due_ns, released };
        self.hold_or_queue(waiting, fate.later);
    }

    fn hold_or_queue(&mut self, waiting: Waiting, later: u32) {
        if later > 0 {
            self.held.push_back(HeldDatagram { later, waiting });
        } else {
            self.at_its_time(waiting);
        }
    }

    fn at_its_time(&mut self, waiting: Waiting) {
        self.queued += 1;
        self.timed.push(Reverse(Timed { key: (waiting.due_ns, self.queued), waiting }));
    }

    /// Lets a datagram that was on hold go, or makes it wait for its time.
    fn release(&mut self, mut waiting: Waiting, released: Release, now_ns: u64) {
        waiting.released = released;
        if waiting.due_ns <= now_ns { self.ready.push_back(waiting) } else { self.at_its_time(waiting) }
    }

    /// Lets all go that is on hold, in the order of arrival.
    fn let_go(&mut self, released: Release, now_ns: u64) {
        for held in std::mem::take(&mut self.held) {
            self.release(held.waiting, released, now_ns);
        }
    }

    /// The next datagram that leaves now; to be called until there is none.
    pub fn leave(&mut self, now_ns: u64) -> Option<Leaving> {
        if !self.held.is_empty() && now_ns >= self.last_arrival_ns.saturating_add(self.release_after_ns) {
            self.let_go(Release::TimeOut, now_ns);
        }
        let waiting = match self.ready.pop_front() {
            Some(waiting) => waiting,
            None if self.timed.peek()?.0.key.0 <= now_ns => self.timed.pop()?.0.waiting,
            None => return None,
        };
        if let Some(due_ns) = self.must_wait(&waiting, now_ns) {
            self.let_go(Release::Sentinel, now_ns);
            self.at_its_time(Waiting { due_ns, ..waiting });
            return self.leave(now_ns);
        }
        let Waiting { octets, place, number, copy, again, released, .. } = waiting;
        let departure = Departure {
            order: self.left,
            at_ns: now_ns,
            copy,
            sequence: packet::sequence(self.protocol, &octets),
            released,
            failed: false,
        };
        self.left += 1;
        let record = self.story.at(place);
        record.left.push(departure);
        record.waiting -= 1;
        if let (Some(number), 0) = (number, copy) {
            self.follow_up(&octets, place, number, &again, now_ns);
            self.passed(number, now_ns);
        }
        Some(Leaving { octets, place })
    }

    /// Until when a sentinel that is to be the last has to wait: copies are made as packets leave, which they may do after it came.
    fn must_wait(&mut self, waiting: &Waiting, now_ns: u64) -> Option<u64> {
        if self.sentinels != Sentinels::Last || self.story.at(waiting.place).class != Class::Sentinel {
            return None;
        }
        let timed = self.timed.iter().filter(|Reverse(timed)| timed.waiting.number.is_some());
        let held = self.held.iter().map(|held| held.waiting.due_ns);
        timed.map(|Reverse(timed)| timed.key.0).chain(held).max().map(|due_ns| due_ns.max(now_ns))
    }

    /// Makes the copies of a packet that just left, before what it lets go.
    fn follow_up(&mut self, octets: &Rc<[u8]>, place: usize, number: u64, again: &[Again], now_ns: u64) {
        for (Again { after_ns, later }, copy) in again.iter().zip(1..) {
            let due_ns = now_ns.saturating_add(*after_ns);
            let (octets, released, again) = (Rc::clone(octets), Release::Due, Vec::new());
            let waiting = Waiting { octets, place, number: Some(number), copy, again, due_ns, released };
            match (*after_ns, *later) {
                // Copies of one packet come in turn, before what was let go and waits here.
                (0, 0) => self.ready.insert((copy as usize - 1).min(self.ready.len()), waiting),
                _ => self.hold_or_queue(waiting, *later),
            }
        }
    }

    /// Counts a packet that left for all that wait for later ones.
    fn passed(&mut self, number: u64, now_ns: u64) {
        for held in self.held.iter_mut().filter(|held| held.waiting.number < Some(number)) {
            held.later -= 1;
        }
        while let Some(place) = self.held.iter().position(|held| held.later == 0) {
            if let Some(held) = self.held.remove(place) {
                self.release(held.waiting, Release::Passed, now_ns);
            }
        }
    }

    /// When [`Self::leave`] must be called again, if nothing arrives before.
    pub fn next_ns(&self) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(0);
        }
        let timed = self.timed.peek().map(|Reverse(timed)| timed.key.0);
        let time_out = self.last_arrival_ns.saturating_add(self.release_after_ns);
        let held = (!self.held.is_empty()).then_some(time_out);
        [timed, held].into_iter().flatten().min()
    }

    /// Notes that the system refused to send what just left.
    pub fn failed(&mut self, leaving: &Leaving) {
        if let Some(departure) = self.story.at(leaving.place).left.last_mut() {
            departure.failed = true;
        }
    }

    /// The oldest record whose story has ended, or in any case when `at_end`.
    pub fn take_record(&mut self, at_end: bool) -> Option<Record> {
        self.story.take(at_end)
    }
}

#[cfg(test)]
mod tests;
