//! On which way packets were lost. A stateful reflector numbers its replies from 0, so its numbers count what reached
//! it.

use super::numbers::{Numbers, Pair};
use std::collections::VecDeque;

/// What tells the directions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// The reflector's own sequence numbers.
    ReflectorSequence,
    /// The reflector's counter of received packets (Direct Measurement TLV).
    DirectMeasurement,
    /// Nothing was lost, so there is nothing to tell apart.
    NothingLost,
    /// Nothing: the reflector repeats our numbers, or answered nothing, or loses nothing that its numbers would show.
    None,
}

/// Losses by direction. Packets sent after the last one that was answered are `undecided`: nobody can say how far they
/// came. A packet overtaken by the last answered one on the way there, whose reply was then lost, counts as lost on
/// the way there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectionCounts {
    /// What the counts rest on.
    pub evidence: Evidence,
    /// Packets that did not reach the reflector; none where that is not known.
    pub forward_lost: Option<u64>,
    /// Replies that did not come back; none where that is not known.
    pub backward_lost: Option<u64>,
    /// Packets lost on a way that is not known.
    pub undecided: u64,
    /// Packets that reached the reflector more than once, as far as replies show it.
    pub forward_duplicates: u64,
    /// Replies that came back more than once.
    pub backward_duplicates: u64,
    /// The reflector's numbers up to its last reply that came; none where it repeats ours, or where they began anew.
    pub numbered: Option<Numbered>,
    /// How often the reflector's numbers began anew: nobody knows how many packets reached it in between.
    pub begun_anew: u64,
    /// Replies with a number of the reflector that does not fit those beside it.
    pub changed: u64,
}

/// Numbers that a reflector gave to its replies in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// First number: 0, but in a session that the reflector had known before.
    pub first: u64,
    /// How many there are.
    pub replies: u64,
}

/// Reflector's numbers that are told apart for one packet of ours; further ones count as copies on the way there.
const MOST_REPLIES: usize = 16;

/// Counts replies as they come. What it remembers is a list for each packet that the caller has not let go by
/// [`DirectionCounter::forget_below`]; a copy of a reply that comes after that is not seen as one, so the caller must
/// leave such replies out.
#[derive(Debug)]
pub(super) struct DirectionCounter {
    /// Number of the packet that is first in `seen`.
    first: u64,
    /// The reflector's numbers of each packet's replies, unwrapped.
    seen: VecDeque<Vec<u64>>,
    replies: u64,
    /// Packets with a reply, and pairs of numbers that differ.
    answered: u64,
    replied: u64,
    last: Option<u64>,
    /// The pair with the least number of the reflector, and the reflector's greatest number.
    least: Option<(u64, u64)>,
    most: u64,
    stateful: bool,
    numbers: Numbers,
}

impl DirectionCounter {
    pub(super) fn new() -> Self {
        Self {
            first: 0,
            seen: VecDeque::new(),
            replies: 0,
            answered: 0,
            replied: 0,
            last: None,
            least: None,
            most: 0,
            stateful: false,
            numbers: Numbers::default(),
        }
    }

    /// Takes the next reply, duplicate or late as it may be, to a packet that is not let go. Gives the reflector's
    /// number without wrapping, or the one that would fit in its place.
    pub(super) fn take(&mut self, pair: Pair) -> u64 {
        let (reflected, fits) = self.numbers.take(pair);
        self.replies += 1;
        self.last = self.last.max(Some(pair.sent));
        self.stateful |= fits && pair.reflected != pair.sent as u32;
        self.most = self.most.max(reflected);
        let found = (reflected, pair.sent);
        self.least = Some(self.least.map_or(found, |least| least.min(found)));
        let Some(place) = pair.sent.checked_sub(self.first).and_then(|place| usize::try_from(place).ok())
        else {
            return reflected;
        };
        while self.seen.len() <= place {
            self.seen.push_back(Vec::new());
        }
        let replies = &mut self.seen[place];
        self.answered += u64::from(replies.is_empty());
        if !replies.contains(&reflected) {
            self.replied += 1;
            if replies.len() < MOST_REPLIES {
                replies.push(reflected);
            }
        }
        reflected
    }

    /// Lets packets go, so that memory does not grow.
    pub(super) fn forget_below(&mut self, number: u64) {
        while self.first < number {
            self.seen.pop_front();
            self.first += 1;
        }
    }

    /// Counts so far, when `sent` packets were sent. `direct` is the reflector's count of received packets in the
    /// reply with the greatest number of ours.
    pub(super) fn counts(&self, sent: u64, direct: Option<u32>) -> DirectionCounts {
        let backward_duplicates = self.replies - self.replied;
        let forward_duplicates = self.replied - self.answered;
        let (Some(last), Some(least)) = (self.last, self.least) else {
            return DirectionCounts {
                evidence: if sent == 0 { Evidence::NothingLost } else { Evidence::None },
                forward_lost: (sent == 0).then_some(0),
                backward_lost: (sent == 0).then_some(0),
                undecided: sent,
                forward_duplicates,
                backward_duplicates,
                numbered: None,
                begun_anew: 0,
                changed: 0,
            };
        };
        let Numbers { begun_anew, changed, .. } = self.numbers;
        let considered = last + 1;
        let tail = sent.saturating_sub(considered);
        // Copies that reached the reflector up to its last reply that we know of.
        let numbered = (self.stateful && begun_anew == 0).then(|| {
            // A session begins at 0; one that was there before us begins where we first see it.
            let first = if least.0 <= least.1 + forward_duplicates { 0 } else { least.0 };
            Numbered { first, replies: self.most + 1 - first }
        });
        // Each number is given to one packet.
        let numbered = numbered.filter(|numbered| self.replied <= numbered.replies);
        let reached = if let Some(numbered) = numbered {
            Some((numbered.replies, Evidence::ReflectorSequence))
        } else {
            // Its counter begins anew with its numbers.
            direct
                .filter(|_| begun_anew == 0)
                .map(|received| (u64::from(received), Evidence::DirectMeasurement))
        };
        let (evidence, forward_lost, backward_lost, undecided) = match reached {
            _ if self.answered == sent => (Evidence::NothingLost, Some(0), Some(0), 0),
            Some((reached, evidence)) => {
                let backward = reached.saturating_sub(self.replied);
                let forward = considered.saturating_sub(reached.saturating_sub(forward_duplicates));
                (evidence, Some(forward), Some(backward), tail)
            }
            None => (Evidence::None, None, None, sent - self.answered),
        };
        DirectionCounts {
            evidence,
            forward_lost,
            backward_lost,
            undecided,
            forward_duplicates,
            backward_duplicates,
            numbered,
            begun_anew,
            changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of all replies in order of arrival.
    fn count(sent: u64, replies: &[Pair], direct: Option<u32>) -> DirectionCounts {
        let mut counter = DirectionCounter::new();
        for pair in replies {
            counter.take(*pair);
        }
        counter.counts(sent, direct)
    }

    /// A network with given fates: what the reflector and the sender see of it.
    #[derive(Clone, Copy)]
    struct Fate {
        forward_copies: u32,
        backward_lost: bool,
    }

    const FINE: Fate = Fate { forward_copies: 1, backward_lost: false };
    const FORWARD: Fate = Fate { forward_copies: 0, backward_lost: false };
    const BACKWARD: Fate = Fate { forward_copies: 1, backward_lost: true };

    fn replies(fates: &[Fate], stateful: bool, first: u32) -> Vec<Pair> {
        let mut next = first;
        let mut replies = Vec::new();
        for (sent, fate) in (0u64..).zip(fates) {
            for _ in 0..fate.forward_copies {
                let reflected = if stateful { next } else { sent as u32 };
                next = next.wrapping_add(1);
                if !fate.backward_lost {
                    replies.push(Pair { sent, reflected });
                }
            }
        }
        replies
    }

    #[test]
    fn a_stateful_reflector_tells_the_directions_apart() {
        let fates = [FINE, FORWARD, FINE, BACKWARD, BACKWARD, FORWARD, FINE, FINE];
        let counts = count(8, &replies(&fates, true, 0), None);
        assert_eq!(counts.evidence, Evidence::ReflectorSequence);
        assert_eq!((counts.forward_lost, counts.backward_lost, counts.undecided), (Some(2), Some(2), 0));
    }

    #[test]
    fn what_came_last_is_undecided() {
        let fates = [FORWARD, FINE, FORWARD, BACKWARD];
        let counts = count(4, &replies(&fates, true, 0), None);
        assert_eq!((counts.forward_lost, counts.backward_lost, counts.undecided), (Some(1), Some(0), 2));
    }

    #[test]
    fn a_stateless_reflector_tells_nothing_but_by_its_counter() {
        let fates = [FINE, FORWARD, FINE, BACKWARD, FINE];
        let pairs = replies(&fates, false, 0);
        let counts = count(5, &pairs, None);
        assert_eq!((counts.evidence, counts.forward_lost, counts.undecided), (Evidence::None, None, 2));
        let counts = count(5, &pairs, Some(4));
        assert_eq!(counts.evidence, Evidence::DirectMeasurement);
        assert_eq!((counts.forward_lost, counts.backward_lost, counts.undecided), (Some(1), Some(1), 0));
    }

    #[test]
    fn nothing_lost_needs_no_evidence() {
        let fates = [FINE, FINE, FINE];
        for stateful in [true, false] {
            let counts = count(3, &replies(&fates, stateful, 0), None);
            assert_eq!(counts.evidence, Evidence::NothingLost);
            assert_eq!((counts.forward_lost, counts.backward_lost, counts.undecided), (Some(0), Some(0), 0));
        }
        assert_eq!(count(3, &[], None).undecided, 3);
    }

    #[test]
    fn numbers_that_were_there_before_and_wrap_are_counted_from_where_we_came() {
        let fates = [FINE, FORWARD, FINE, BACKWARD, FINE, FINE];
        for first in [1000, u32::MAX - 2] {
            let counts = count(6, &replies(&fates, true, first), None);
            assert_eq!((counts.forward_lost, counts.backward_lost), (Some(1), Some(1)), "from {first}");
        }
    }

    #[test]
    fn a_reflector_that_began_anew_or_a_changed_number_makes_no_losses() {
        let fates = [[FINE; 300].as_slice(), &[FORWARD, BACKWARD], &[FINE; 300]].concat();
        let mut pairs = replies(&fates, true, 0);
        pairs[77].reflected ^= 1 << 20;
        let counts = count(602, &pairs, None);
        assert_eq!((counts.forward_lost, counts.backward_lost, counts.changed), (Some(1), Some(1), 1));
        let (before, behind) = pairs.split_at_mut(400);
        behind.iter_mut().for_each(|pair| pair.reflected -= before[399].reflected + 1);
        let counts = count(602, &pairs, None);
        assert_eq!((counts.forward_lost, counts.numbered, counts.undecided), (None, None, 2));
        assert_eq!((counts.begun_anew, counts.changed), (1, 1));
    }

    #[test]
    fn duplicates_are_no_losses() {
        let twice = Fate { forward_copies: 2, backward_lost: false };
        let fates = [FINE, twice, FORWARD, FINE, FINE];
        let mut pairs = replies(&fates, true, 0);
        pairs.insert(2, pairs[1]);
        let counts = count(5, &pairs, None);
        assert_eq!((counts.forward_duplicates, counts.backward_duplicates), (1, 1));
        assert_eq!(counts.numbered, Some(Numbered { first: 0, replies: 5 }));
        assert_eq!((counts.forward_lost, counts.backward_lost, counts.undecided), (Some(1), Some(0), 0));
    }

    #[test]
    fn order_does_not_matter() {
        let fates = [FINE, FORWARD, FINE, BACKWARD, FINE, FINE];
        let mut pairs = replies(&fates, true, 0);
        let counts = count(6, &pairs, None);
        pairs.reverse();
        assert_eq!(count(6, &pairs, None), counts);
    }

    #[test]
    fn packets_that_are_let_go_change_no_count() {
        let twice = Fate { forward_copies: 2, backward_lost: false };
        let fates: Vec<Fate> = (0..10_000)
            .map(|number| match number % 50 {
                3 => FORWARD,
                7 => BACKWARD,
                9 => twice,
                _ => FINE,
            })
            .collect();
        let mut pairs = replies(&fates, true, u32::MAX - 100);
        // Neighbours change places, and a reply comes twice, all within what is remembered.
        for at in (20..pairs.len()).step_by(90) {
            pairs.swap(at, at + 3);
            pairs[at + 1] = pairs[at - 1];
        }
        let mut counter = DirectionCounter::new();
        for pair in &pairs {
            counter.take(*pair);
            counter.forget_below(pair.sent.saturating_sub(40));
            assert!(counter.seen.len() <= 60);
        }
        let counts = counter.counts(10_000, None);
        assert_eq!(counts, count(10_000, &pairs, None));
        assert!(counts.forward_lost > Some(100) && counts.backward_lost > Some(100));
    }
}
