//! Whether a reflector's numbers go on from reply to reply.
//!
//! A reflector that counts gives each packet that reaches it the next number. So between two replies its number grows by
//! no more than ours, but for copies, and falls only where ours does. One reply that breaks this was changed on its way.
//! Several in a row count from another beginning: the reflector was restarted, or our packets reach it from another port.

/// Numbers that each packet of ours may take, if all of its copies reach the reflector.
const COPIES: i64 = 4;
/// Numbers that packets which overtook each other on both ways may be off by.
const OVERTAKEN: i64 = 16;
/// So many replies in a row begin the numbers anew.
const ENOUGH: u32 = 3;

/// Far from zero, so that a first reply that was overtaken is no problem; taken off again where numbers are given.
const ROOM: u64 = 1 << 32;

/// One reply: our number, unwrapped, and the reflector's, as on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) sent: u64,
    pub(super) reflected: u32,
}

/// Our number of a packet, and the reflector's of its reply without wrapping.
#[derive(Clone, Copy, Debug)]
struct Place {
    sent: u64,
    reflected: u64,
}

impl Place {
    /// Whether the numbers of `next` may follow.
    fn goes_on(self, next: Self) -> bool {
        let ours = next.sent.cast_signed().saturating_sub(self.sent.cast_signed()).saturating_mul(COPIES);
        let theirs = next.reflected.cast_signed().saturating_sub(self.reflected.cast_signed());
        (ours.min(0) - OVERTAKEN..=ours.max(0) + OVERTAKEN).contains(&theirs)
    }

    /// The place of a pair whose number lies nearest.
    fn nearest(self, pair: Pair) -> Self {
        let ahead = pair.reflected.wrapping_sub(self.reflected as u32).cast_signed();
        Self { sent: pair.sent, reflected: self.reflected.saturating_add_signed(i64::from(ahead)) }
    }

    /// Where the reply to a packet has its place if nothing was lost since.
    fn following(self, sent: u64) -> Self {
        let reflected = match sent.checked_sub(self.sent) {
            Some(1..) => self.reflected + 1,
            _ => self.reflected.saturating_sub(self.sent - sent),
        };
        Self { sent, reflected }
    }
}

/// The numbers of a session.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    last: Option<Place>,
    /// The last reply that did not fit, as it came, and how many in a row fit each other.
    other: Option<(Place, u32)>,
    /// What is added to numbers that began anew, so that they go on.
    shift: u32,
    /// Replies that did not fit, but those that began anew.
    pub(super) changed: u64,
    /// How often the numbers began anew.
    pub(super) begun_anew: u64,
}

impl Numbers {
    /// The reflector's number of the next reply without wrapping. One that does not fit is given the number that would.
    /// Also whether it was that of the reply.
    pub(super) fn take(&mut self, pair: Pair) -> (u64, bool) {
        let shifted = Pair { reflected: pair.reflected.wrapping_add(self.shift), ..pair };
        let begin = Place { sent: pair.sent, reflected: ROOM + u64::from(pair.reflected) };
        let last = *self.last.get_or_insert(begin);
        let here = last.nearest(shifted);
        let fits = last.goes_on(here);
        let place = if fits { here } else { last.following(pair.sent) };
        if fits {
            self.other = None;
        } else {
            self.misfit(here, place);
        }
        self.last = Some(place);
        (place.reflected.saturating_sub(ROOM), fits)
    }

    fn misfit(&mut self, here: Place, place: Place) {
        self.changed += 1;
        let row = match self.other {
            Some((before, row)) if before.goes_on(here) => row + 1,
            _ => 1,
        };
        self.other = Some((here, row));
        if row == ENOUGH {
            self.shift =
                self.shift.wrapping_add((place.reflected as u32).wrapping_sub(here.reflected as u32));
            self.changed -= u64::from(ENOUGH);
            self.begun_anew += 1;
            self.other = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers given to these, how many were changed, and how often they began anew.
    fn taken(pairs: impl IntoIterator<Item = (u64, u32)>) -> (Vec<u64>, u64, u64) {
        let mut numbers = Numbers::default();
        let given = pairs.into_iter().map(|(sent, reflected)| numbers.take(Pair { sent, reflected }).0);
        (given.collect(), numbers.changed, numbers.begun_anew)
    }

    #[test]
    fn losses_copies_wraps_and_order_are_no_misfits() {
        let pairs =
            [(0, u32::MAX - 1), (1, u32::MAX), (900, 0), (1_700, 800), (40, 801), (1_701, 804), (1_702, 803)];
        let before = u64::from(u32::MAX) - 1;
        let wanted: Vec<u64> = [0, 1, 2, 802, 803, 806, 805].map(|after| before + after).to_vec();
        assert_eq!(taken(pairs), (wanted, 0, 0));
        // Ten replies held back by a second, and a first one that was overtaken.
        let held = (0..10).map(|number| (1_000 + number, 1_000 + number as u32));
        let held = held.chain((0..10).map(|number| (number, number as u32))).chain([(1_011, 1_011)]);
        assert_eq!((taken(held).1, taken([(1, 1), (0, 0), (2, 2)])), (0, (vec![1, 0, 2], 0, 0)));
    }

    #[test]
    fn a_number_that_was_changed_is_given_the_one_that_fits() {
        let mut pairs: Vec<(u64, u32)> = (0..500).map(|number| (number, number as u32)).collect();
        (pairs[77].1, pairs[300].1, pairs[301].1) = (77 ^ 1 << 20, 300 ^ 1 << 31, 2);
        let (given, changed, begun_anew) = taken(pairs);
        assert!(given.iter().copied().eq(0..500));
        assert_eq!((changed, begun_anew), (3, 0));
    }

    #[test]
    fn numbers_that_begin_anew_go_on_after_those_before() {
        let pairs = (0..900).map(|number| (number, number as u32));
        let pairs = pairs.chain((900..1_500).map(|number| (number, number as u32 - 900)));
        let (given, changed, begun_anew) = taken(pairs);
        assert!(given.iter().copied().eq(0..1_500));
        assert_eq!((changed, begun_anew), (0, 1));
    }
}
