//! The decision core: from a packet's arrival number to its fate, without any I/O or clock.

use super::packet::WrongClock;
use super::random::Stream;
use super::script::{Corrupt, Delay, Duplicate, GilbertElliott, Queue, Rule, Select};

/// What becomes of a packet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fate {
    /// It vanishes, by the rule at this place.
    pub dropped_by: Option<usize>,
    /// It leaves right after so many later packets have left; 0 at once.
    pub later: u32,
    /// It leaves so long after it arrived, at the earliest.
    pub delay_ns: u64,
    /// It leaves no sooner than those before it that were told the same.
    pub keep_order: bool,
    /// Further copies, in the order in which they were asked for.
    pub copies: Vec<Again>,
    /// Bits that are flipped, counted from the most significant bit of the datagram's first byte; each once.
    pub flips: Vec<usize>,
    /// What its time of sending is written over by.
    pub clock: Option<WrongClock>,
}

/// One further copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Again {
    /// It leaves so long after the first, at the earliest.
    pub after_ns: u64,
    /// It waits until so many later packets have left.
    pub later: u32,
}

/// A rule with its random numbers and what it remembers.
#[derive(Debug, Clone)]
struct Applied {
    rule: Rule,
    selects: Stream,
    changes: Stream,
    delays: Stream,
    flips: Stream,
    bad: bool,
    queue_ns: u64,
}

/// Bits that a rule may draw for one packet without the draws of two packets falling together.
const MOST_RANDOM_BITS: u64 = 1 << 20;

impl Applied {
    fn new(rule: Rule, seed: u64, direction: u64, place: u64) -> Self {
        let stream = |purpose| Stream::derived(seed, &[direction, place, purpose]);
        Self {
            rule,
            selects: stream(0),
            changes: stream(1),
            delays: stream(2),
            flips: stream(3),
            bad: false,
            queue_ns: 0,
        }
    }

    /// Whether the rule is for this packet. To be asked for each packet, for a chain moves on with each.
    fn selects(&mut self, number: u64) -> bool {
        match &self.rule.select {
            Select::All => true,
            Select::Probability(chance) => self.selects.fraction(number) < *chance,
            Select::Packets(ranges) => ranges.iter().any(|range| range.contains(&number)),
            Select::GilbertElliott(GilbertElliott { p, r, good, bad }) => {
                let change = if self.bad { *r } else { *p };
                if number > 0 && self.changes.fraction(number) < change {
                    self.bad = !self.bad;
                }
                self.selects.fraction(number) < if self.bad { *bad } else { *good }
            }
        }
    }

    /// Works on the queue, which the other traffic fills whether or not a packet of ours is there.
    fn queue(&mut self, number: u64) {
        if let Some(Delay::Queue(Queue { drain, load, shape, most })) = self.rule.delay {
            // Pareto: the least burst is mean * (shape - 1) / shape.
            let least = load * drain.ns() as f64 * (shape - 1.0) / shape;
            let burst = least * (1.0 - self.delays.fraction(number)).powf(-shape.recip());
            let filled = (self.queue_ns + burst as u64).min(most.ns());
            self.queue_ns = if number == 0 { filled } else { filled.saturating_sub(drain.ns()) };
        }
    }

    fn delay_ns(&self, number: u64) -> u64 {
        match self.rule.delay {
            None => 0,
            Some(Delay::Constant(span)) => span.ns(),
            Some(Delay::Uniform(least, most)) => {
                least.ns() + self.delays.below(number, (most.ns() - least.ns()).saturating_add(1))
            }
            Some(Delay::Queue(_)) => self.queue_ns,
        }
    }

    fn flips(&self, number: u64, length: usize) -> Vec<usize> {
        let Some(Corrupt { field, bits, random }) = &self.rule.corrupt else { return Vec::new() };
        let range = field.range(length);
        let width = 8 * range.len() as u64;
        let drawn = (0..u64::from(*random))
            .map(|draw| self.flips.below(number.wrapping_mul(MOST_RANDOM_BITS).wrapping_add(draw), width));
        let wanted = bits.iter().map(|bit| u64::from(*bit)).chain(drawn);
        let mut flips: Vec<usize> =
            wanted.filter(|bit| *bit < width).map(|bit| 8 * range.start + bit as usize).collect();
        flips.sort_unstable();
        flips.dedup();
        flips
    }

    fn add_to(&self, fate: &mut Fate, number: u64, length: usize) {
        fate.later += self.rule.hold.map_or(0, |hold| hold.later);
        fate.delay_ns = fate.delay_ns.saturating_add(self.delay_ns(number));
        fate.keep_order |= self.rule.keep_order && self.rule.delay.is_some();
        if let Some(Duplicate { copies, spacing, later }) = self.rule.duplicate {
            let again = |copy| Again { after_ns: spacing.ns().saturating_mul(copy), later };
            fate.copies.extend((1..=u64::from(copies)).map(again));
        }
        for flip in self.flips(number, length) {
            // Two rules that flip the same bit leave it as it was.
            match fate.flips.iter().position(|known| *known == flip) {
                Some(place) => drop(fate.flips.remove(place)),
                None => fate.flips.push(flip),
            }
        }
        fate.clock = self.rule.clock.map(WrongClock::from).or(fate.clock);
    }
}

/// Decides on the packets of one direction of one flow, one after the other.
#[derive(Debug, Clone)]
pub struct Decider {
    rules: Vec<Applied>,
    next: u64,
}

impl Decider {
    /// Decides by these rules. `direction` keeps the random numbers of two directions with the same seed apart.
    pub fn new(rules: &[Rule], seed: u64, direction: u64) -> Self {
        let rules = rules.iter().cloned().zip(0..);
        Self {
            rules: rules.map(|(rule, place)| Applied::new(rule, seed, direction, place)).collect(),
            next: 0,
        }
    }

    /// The arrival number and the fate of the next packet, which is so many bytes long.
    pub fn next(&mut self, length: usize) -> (u64, Fate) {
        let number = self.next;
        self.next += 1;
        let mut fate = Fate::default();
        for (place, applied) in self.rules.iter_mut().enumerate() {
            applied.queue(number);
            // Rules behind one that drops are still asked, so that what they remember does not depend on it.
            if !applied.selects(number) || fate.dropped_by.is_some() {
                continue;
            }
            if applied.rule.drop {
                fate = Fate { dropped_by: Some(place), ..Fate::default() };
            } else {
                applied.add_to(&mut fate, number, length);
            }
        }
        (number, fate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::packet::Field;
    use crate::relay::script::Span;

    fn fates(rules: &[Rule], seed: u64, count: usize) -> Vec<Fate> {
        let mut decider = Decider::new(rules, seed, 0);
        (0..count).map(|_| decider.next(80).1).collect()
    }

    fn dropped(fates: &[Fate]) -> Vec<usize> {
        let places = fates.iter().enumerate().filter(|(_, fate)| fate.dropped_by.is_some());
        places.map(|(place, _)| place).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_fates_and_another_gives_others() {
        let rules = [
            Rule::chance(0.1).dropped(),
            Rule::chance(0.3).delayed(Delay::Uniform(Span::from_ns(5), Span::from_ns(9))),
            Rule::chance(0.2).corrupted(Field::Payload, 3),
        ];
        assert_eq!(fates(&rules, 1, 500), fates(&rules, 1, 500));
        assert_ne!(fates(&rules, 1, 500), fates(&rules, 2, 500));
        let mut other_direction = Decider::new(&rules, 1, 1);
        assert_ne!(fates(&rules, 1, 500), (0..500).map(|_| other_direction.next(80).1).collect::<Vec<_>>());
    }

    #[test]
    fn a_rule_added_behind_does_not_change_those_before_it() {
        let first = Rule::chance(0.2).dropped();
        let both = [first.clone(), Rule::chance(0.5).dropped()];
        let by_first: Vec<usize> = fates(&both, 9, 300)
            .iter()
            .enumerate()
            .filter(|(_, fate)| fate.dropped_by == Some(0))
            .map(|(place, _)| place)
            .collect();
        assert_eq!(by_first, dropped(&fates(&[first], 9, 300)));
    }

    #[test]
    fn listed_packets_and_no_others_are_dropped() {
        assert_eq!(dropped(&fates(&[Rule::packets([0, 3, 7, 8]).dropped()], 1, 10)), vec![0, 3, 7, 8]);
    }

    #[test]
    fn exact_drops_of_a_seed() {
        // From a second implementation, in Python.
        let expected = vec![4, 13, 23, 25, 42, 45, 50];
        assert_eq!(dropped(&fates(&[Rule::chance(0.1).dropped()], 42, 60)), expected);
    }

    #[test]
    fn rates_are_those_asked_for() {
        let share = |rule| dropped(&fates(&[rule], 3, 100_000)).len() as f64 / 100_000.0;
        assert!((share(Rule::chance(0.01)) - 0.0).abs() < 1e-9, "a rule that drops nothing");
        assert!((share(Rule::chance(0.01).dropped()) - 0.01).abs() < 0.001);
        assert!((share(Rule::chance(0.5).dropped()) - 0.5).abs() < 0.005);
        assert_eq!(dropped(&fates(&[Rule::chance(1.0).dropped()], 3, 50)).len(), 50);
        assert_eq!(dropped(&fates(&[Rule::chance(0.0).dropped()], 3, 50)).len(), 0);
    }

    #[test]
    fn a_gilbert_chain_drops_in_bursts_of_the_expected_length() {
        let chain = GilbertElliott { p: 0.01, r: 0.25, good: 0.0, bad: 1.0 };
        let places = dropped(&fates(&[Rule::on(Select::GilbertElliott(chain)).dropped()], 5, 200_000));
        let bursts = 1 + places.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        let mean = places.len() as f64 / bursts as f64;
        assert!((mean - 4.0).abs() < 0.2, "{mean}");
        assert!((places.len() as f64 / 200_000.0 - 0.01 / 0.26).abs() < 0.003, "{}", places.len());
    }

    #[test]
    fn a_chain_that_always_changes_alternates_from_good() {
        let chain = GilbertElliott { p: 1.0, r: 1.0, good: 0.0, bad: 1.0 };
        assert_eq!(
            dropped(&fates(&[Rule::on(Select::GilbertElliott(chain)).dropped()], 5, 6)),
            vec![1, 3, 5]
        );
    }

    #[test]
    fn holds_delays_and_copies_of_several_rules_add_up() {
        let rules = [
            Rule::packets([1]).held(2).delayed(Delay::Constant(Span::from_ns(10))),
            Rule::packets([1]).held(1).delayed(Delay::Constant(Span::from_ns(5))).copied(2),
        ];
        let fate = &fates(&rules, 0, 2)[1];
        assert_eq!((fate.later, fate.delay_ns, fate.keep_order), (3, 15, false));
        assert_eq!(fate.copies, vec![Again { after_ns: 0, later: 0 }; 2]);
    }

    #[test]
    fn flips_fall_into_their_field_and_cancel_out() {
        let all = fates(&[Rule::on(Select::All).corrupted(Field::Sequence, 4)], 11, 200);
        assert!(all.iter().all(|fate| (1..=4).contains(&fate.flips.len())));
        assert!(all.iter().flat_map(|fate| &fate.flips).all(|bit| (64..96).contains(bit)));
        let listed = Corrupt { field: Field::Tag, bits: vec![0, 63, 64], random: 0 };
        let rule = Rule { corrupt: Some(listed), ..Rule::default() };
        assert_eq!(fates(std::slice::from_ref(&rule), 0, 1)[0].flips, vec![96, 159]);
        assert_eq!(fates(&[rule.clone(), rule], 0, 1)[0].flips, Vec::<usize>::new());
    }

    #[test]
    fn uniform_delays_reach_both_ends() {
        let delay = Delay::Uniform(Span::from_ns(3), Span::from_ns(6));
        let all = fates(&[Rule::on(Select::All).delayed(delay)], 2, 200);
        let least = all.iter().map(|fate| fate.delay_ns).min();
        let most = all.iter().map(|fate| fate.delay_ns).max();
        assert_eq!((least, most), (Some(3), Some(6)));
    }

    #[test]
    fn a_queue_is_busy_but_does_not_grow_without_end() {
        let queue = Queue {
            drain: Span::from_ns(1_000_000),
            load: 0.9,
            shape: 1.5,
            most: Span::from_ns(500_000_000),
        };
        let all = fates(&[Rule::on(Select::All).delayed(Delay::Queue(queue))], 4, 20_000);
        assert!(all.iter().all(|fate| fate.keep_order && fate.delay_ns <= 500_000_000));
        let idle = all.iter().filter(|fate| fate.delay_ns == 0).count();
        assert!((400..6_000).contains(&idle), "{idle} of 20000 found the queue empty");
        // Nobody overtakes: the queue drains by no more than a period between two packets.
        assert!(all.windows(2).all(|pair| pair[1].delay_ns + 1_000_000 >= pair[0].delay_ns));
    }
}
