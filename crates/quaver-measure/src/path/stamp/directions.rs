//! On which way packets were lost. A stateful reflector numbers its replies from 0, so its numbers count what reached
//! it.

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
}

/// One reply: our number, unwrapped, and the reflector's, as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) sent: u64,
    pub(super) reflected: u32,
}

/// Counts from all replies in order of arrival, duplicates and late ones included. `direct` is the reflector's count
/// of received packets in the reply with the greatest number of ours.
pub(super) fn count(sent: u64, replies: &[Pair], direct: Option<u32>) -> DirectionCounts {
    let mut ours: Vec<u64> = replies.iter().map(|pair| pair.sent).collect();
    let mut both: Vec<(u64, u64)> =
        unwrapped(replies).zip(&ours).map(|(reflected, sent)| (reflected, *sent)).collect();
    ours.sort_unstable();
    ours.dedup();
    both.sort_unstable();
    both.dedup();
    let answered = ours.len() as u64;
    let replied = both.len() as u64;
    let backward_duplicates = replies.len() as u64 - replied;
    let forward_duplicates = replied - answered;
    let Some(last) = ours.last() else {
        return DirectionCounts {
            evidence: if sent == 0 { Evidence::NothingLost } else { Evidence::None },
            forward_lost: (sent == 0).then_some(0),
            backward_lost: (sent == 0).then_some(0),
            undecided: sent,
            forward_duplicates,
            backward_duplicates,
        };
    };
    let considered = last + 1;
    let tail = sent.saturating_sub(considered);
    let stateful = both.iter().any(|(reflected, sent)| *reflected as u32 != *sent as u32);
    // Copies that reached the reflector up to its last reply that we know of.
    let reached = if stateful {
        let (least, most) = (both[0], both[both.len() - 1]);
        // A session begins at 0; one that was there before us begins where we first see it.
        let base = if least.0 <= least.1 + forward_duplicates { 0 } else { least.0 };
        Some((most.0 + 1 - base, Evidence::ReflectorSequence))
    } else {
        direct.map(|received| (u64::from(received), Evidence::DirectMeasurement))
    };
    let (evidence, forward_lost, backward_lost, undecided) = match reached {
        _ if answered == sent => (Evidence::NothingLost, Some(0), Some(0), 0),
        Some((reached, evidence)) => {
            let backward = reached.saturating_sub(replied);
            let forward = considered.saturating_sub(reached.saturating_sub(forward_duplicates));
            (evidence, Some(forward), Some(backward), tail)
        }
        None => (Evidence::None, None, None, sent - answered),
    };
    DirectionCounts {
        evidence,
        forward_lost,
        backward_lost,
        undecided,
        forward_duplicates,
        backward_duplicates,
    }
}

/// The reflector's numbers without wrapping, each taken as the one nearest to the one before.
fn unwrapped(replies: &[Pair]) -> impl Iterator<Item = u64> + '_ {
    // Far from zero, so that a first reply that was overtaken is no problem; taken off again at the end.
    const ROOM: u64 = 1 << 32;
    let first = replies.first().map_or(0, |pair| pair.reflected);
    let mut near = ROOM + u64::from(first);
    replies.iter().map(move |pair| {
        let ahead = pair.reflected.wrapping_sub(near as u32).cast_signed();
        near = near.saturating_add_signed(i64::from(ahead));
        near.saturating_sub(ROOM)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network with given fates: what the reflector and the sender see of it.
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
    fn duplicates_are_no_losses() {
        let twice = Fate { forward_copies: 2, backward_lost: false };
        let fates = [FINE, twice, FORWARD, FINE, FINE];
        let mut pairs = replies(&fates, true, 0);
        pairs.insert(2, pairs[1]);
        let counts = count(5, &pairs, None);
        assert_eq!((counts.forward_duplicates, counts.backward_duplicates), (1, 1));
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
}
