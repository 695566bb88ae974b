//! Stretches in which the tracer's memory was full: what a thread did then is not known.

use std::collections::VecDeque;

/// More become fewer: the two oldest one, with what lies between them.
const MOST: usize = 64;

/// Between which readings events were lost.
#[derive(Debug, Default)]
pub struct Holes {
    lost: u64,
    last_ns: u64,
    holes: VecDeque<(u64, u64)>,
}

impl Holes {
    /// None yet. `lost` events were lost before.
    pub fn begin(lost: u64, now_ns: u64) -> Self {
        Self { lost, last_ns: now_ns, ..Self::default() }
    }

    /// Takes the number of events lost so far, as of a reading.
    pub fn look(&mut self, lost: u64, now_ns: u64) {
        if lost > self.lost {
            match self.holes.back_mut().filter(|(_, end_ns)| *end_ns == self.last_ns) {
                Some((_, end_ns)) => *end_ns = now_ns,
                None => self.holes.push_back((self.last_ns, now_ns)),
            }
        }
        (self.lost, self.last_ns) = (lost, now_ns);
        if self.holes.len() > MOST {
            let oldest = self.holes.pop_front();
            self.holes.front_mut().zip(oldest).into_iter().for_each(|(next, oldest)| next.0 = oldest.0);
        }
    }

    /// Those that began before an instant. An old one matters to a thread that has not run since.
    pub fn until(&self, to_ns: u64) -> Vec<(i64, i64)> {
        let before = self.holes.iter().filter(|(start, _)| *start <= to_ns);
        before.map(|(start, end)| (*start as i64, *end as i64)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_lasts_from_the_reading_before_a_loss_to_the_last_one_with_more() {
        let mut holes = Holes::begin(0, 100);
        for (lost, now_ns) in [(0, 150), (7, 200), (9, 250), (9, 300), (10, 350), (10, 400)] {
            holes.look(lost, now_ns);
        }
        assert_eq!((holes.until(1_000), holes.until(299)), (vec![(150, 250), (300, 350)], vec![(150, 250)]));
    }

    #[test]
    fn the_oldest_holes_become_one() {
        let mut holes = Holes::begin(0, 0);
        (1..=200).for_each(|turn| holes.look(turn / 2, turn * 10));
        let all = holes.until(u64::MAX);
        assert_eq!((all.len(), all[0], all[1]), (MOST, (10, 740), (750, 760)));
    }
}
