//! How much lateness was injected under each name, and how sure that is: differences between blocks with and
//! without injection, and their spread by bootstrap.

use std::collections::BTreeMap;

/// Time by name, nanoseconds.
pub(super) type Sums = BTreeMap<String, i64>;

/// Times that the sample is drawn again.
const RESAMPLES: usize = 2_000;
/// Ends of the interval that is reported.
const LEVELS: [f64; 2] = [0.025, 0.975];

/// Signs that are thrown to learn what chance does to a sum of differences.
const FLIPS: u32 = 9_999;
/// A gain that chance alone makes in so many of all runs is none.
const CHANCE: f64 = 0.001;

/// Injected interrupts stretch what else has the CPU: where others compute, their time grows by the part that the injection takes.
/// So a wrong name's gain counts above this part of its time without injection.
const STRETCHED: f64 = 0.25;

/// One pair in so many is left out where a trimmed sample is asked for.
const TRIM_ONE_IN: usize = 20;

/// Late time in pairs of blocks with and without injection.
pub(super) struct Sample {
    names: Vec<String>,
    /// A row a block, a column a name; row `n` of both is a pair.
    with: Vec<Vec<i64>>,
    without: Vec<Vec<i64>>,
}

/// Parts of the injected lateness.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(super) struct Shares {
    /// Went to a right name.
    pub(super) right: f64,
    /// Went to that wrong name that got most.
    pub(super) wrong: f64,
}

/// Lower end for the right names, upper end for the worst wrong one: 2.5 % of resamples are beyond each.
pub(super) type Bounds = Shares;

impl Sample {
    /// From sums of each block.
    pub(super) fn new(with: &[Sums], without: &[Sums]) -> Self {
        assert_eq!(with.len(), without.len(), "pairs have two ends");
        let names: Vec<String> = with
            .iter()
            .chain(without)
            .flat_map(|sums| sums.keys())
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .cloned()
            .collect();
        let rows = |all: &[Sums]| -> Vec<Vec<i64>> {
            let row = |sums: &Sums| names.iter().map(|name| sums.get(name).copied().unwrap_or(0)).collect();
            all.iter().map(row).collect()
        };
        Self { with: rows(with), without: rows(without), names }
    }

    /// Without the one in [`TRIM_ONE_IN`] pairs whose late time as a whole lies farthest from the median: a host that stops
    /// the machine for 40 ms once makes such. Which are left out depends on how late packets were and not on what was
    /// named, so a wrong name cannot fall out by being wrong.
    pub(super) fn trimmed(&self) -> Self {
        let total = |row: &Vec<i64>| row.iter().sum::<i64>();
        let gains: Vec<i64> =
            self.with.iter().zip(&self.without).map(|(on, off)| total(on) - total(off)).collect();
        let kept = middle(&gains);
        let rows = |all: &[Vec<i64>]| kept.iter().map(|&row| all[row].clone()).collect();
        Self { names: self.names.clone(), with: rows(&self.with), without: rows(&self.without) }
    }

    /// Sums with injection, without it, and the difference where it is above 0.
    pub(super) fn totals(&self) -> [Sums; 3] {
        let total = |rows: &[Vec<i64>]| -> Vec<i64> {
            (0..self.names.len()).map(|name| rows.iter().map(|row| row[name]).sum()).collect()
        };
        let (with, without) = (total(&self.with), total(&self.without));
        let injected = with.iter().zip(&without).map(|(with, without)| (with - without).max(0)).collect();
        [with, without, injected].map(|sums: Vec<i64>| self.names.iter().cloned().zip(sums).collect())
    }

    /// The injected lateness, without the wrong names whose difference is one that chance makes of what they have in blocks
    /// without injection too, and without what is [`STRETCHED`].
    pub(super) fn beyond_chance(&self, is_right: &dyn Fn(&str) -> bool) -> Sums {
        let [_, without_ns, injected_ns] = self.totals();
        let differences = |name: usize| -> Vec<i64> {
            self.with.iter().zip(&self.without).map(|(on, off)| on[name] - off[name]).collect()
        };
        let counts = |at: usize, name: &str, gain_ns: i64| {
            let is_more = gain_ns as f64 > STRETCHED * without_ns[name] as f64;
            is_right(name) || is_more && sign_flip_p_value(&differences(at)) <= CHANCE
        };
        let gains = injected_ns.into_iter().enumerate();
        gains.filter(|(at, (name, gain_ns))| counts(*at, name, *gain_ns)).map(|(_, gain)| gain).collect()
    }

    /// Spread of the shares: whole pairs are drawn with replacement, the shares
    /// computed again. None where there is too little to draw from.
    pub(super) fn bounds(
        &self,
        is_right: &dyn Fn(&str) -> bool,
        is_name: &dyn Fn(&str) -> bool,
    ) -> Option<Bounds> {
        if self.with.len() < 4 {
            return None;
        }
        let right: Vec<bool> = self.names.iter().map(|name| is_right(name)).collect();
        let named: Vec<bool> = self.names.iter().map(|name| is_name(name)).collect();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let (mut rights, mut wrongs) = (Vec::with_capacity(RESAMPLES), Vec::with_capacity(RESAMPLES));
        for _ in 0..RESAMPLES {
            let mut differences = vec![0_i64; self.names.len()];
            let mut add = |row: &[i64], sign: i64| {
                differences.iter_mut().zip(row).for_each(|(sum, time)| *sum += sign * time);
            };
            for _ in 0..self.with.len() {
                let drawn = random.below(self.with.len());
                add(&self.with[drawn], 1);
                add(&self.without[drawn], -1);
            }
            let shares = shares(&differences, &right, &named);
            rights.push(shares.right);
            wrongs.push(shares.wrong);
        }
        rights.sort_by(f64::total_cmp);
        wrongs.sort_by(f64::total_cmp);
        let at = |level: f64| ((RESAMPLES - 1) as f64 * level).round() as usize;
        Some(Bounds { right: rights[at(LEVELS[0])], wrong: wrongs[at(LEVELS[1])] })
    }
}

/// Two-sided p-value of the sum of differences under random signs.
pub(super) fn sign_flip_p_value(differences: &[i64]) -> f64 {
    let observed = differences.iter().sum::<i64>().abs();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut as_extreme = 1;
    for _ in 0..FLIPS {
        let flipped: i64 = differences.iter().map(|d| if random.coin() { *d } else { -d }).sum();
        as_extreme += u32::from(flipped.abs() >= observed);
    }
    f64::from(as_extreme) / f64::from(FLIPS + 1)
}

/// Indices, in order, of all but the one in [`TRIM_ONE_IN`] values that are farthest from the median.
fn middle(values: &[i64]) -> Vec<usize> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by_key(|&index| (values[index] - median).abs());
    order.truncate(values.len() - values.len() / TRIM_ONE_IN);
    order.sort_unstable();
    order
}

/// Shares of the injected lateness: only names that gained count, so that chance losses of one name make up for
/// nothing.
fn shares(differences: &[i64], right: &[bool], named: &[bool]) -> Shares {
    let gained = |index: usize| differences[index].max(0);
    let total: i64 = (0..differences.len()).map(gained).sum();
    let share = |time: i64| if total > 0 { time as f64 / total as f64 } else { 0.0 };
    let right_ns = (0..differences.len()).filter(|&index| right[index]).map(gained).sum();
    let wrong_ns = (0..differences.len()).filter(|&index| !right[index] && named[index]).map(gained).max();
    Shares { right: share(right_ns), wrong: share(wrong_ns.unwrap_or(0)) }
}

/// The same of sums by name.
pub(super) fn shares_of(
    injected: &Sums,
    is_right: &dyn Fn(&str) -> bool,
    is_name: &dyn Fn(&str) -> bool,
) -> Shares {
    let times: Vec<i64> = injected.values().copied().collect();
    let right: Vec<bool> = injected.keys().map(|name| is_right(name)).collect();
    let named: Vec<bool> = injected.keys().map(|name| is_name(name)).collect();
    shares(&times, &right, &named)
}

/// xorshift64 (Marsaglia 2003): plenty for drawing blocks and throwing coins.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    pub(super) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(times: &[(&str, i64)]) -> Sums {
        times.iter().map(|(name, time)| ((*name).to_owned(), *time)).collect()
    }

    #[test]
    fn losses_of_one_name_make_up_for_nothing() {
        let sample = Sample::new(&[sums(&[("a", 90), ("b", 10), ("c", 0)])], &[sums(&[("c", 50)])]);
        let [with, without, injected] = sample.totals();
        assert_eq!((with["a"], without["c"], injected["c"]), (90, 50, 0));
        let shares = shares_of(&injected, &|name| name == "a", &|_| true);
        assert_eq!(shares, Shares { right: 0.9, wrong: 0.1 });
        assert_eq!(sample.bounds(&|name| name == "a", &|_| true), None, "one pair has no spread");
    }

    #[test]
    fn trimming_looks_at_the_whole_and_not_at_names() {
        let mut with = vec![sums(&[("a", 90), ("b", 10)]); 40];
        // The host stops twice; and one block is wholly misnamed, which must stay.
        with[3] = sums(&[("a", 90), ("b", 10), ("c", 40_000)]);
        with[8] = sums(&[("b", 100)]);
        let mut without = vec![sums(&[("c", 1)]); 40];
        without[20] = sums(&[("c", 30_000)]);
        let [with_ns, without_ns, _] = Sample::new(&with, &without).trimmed().totals();
        assert_eq!((with_ns["a"], with_ns["b"], with_ns["c"]), (37 * 90, 37 * 10 + 100, 0));
        assert_eq!(without_ns["c"], 38);
        assert_eq!(middle(&[5; 19]).len(), 19);
        assert!(middle(&[]).is_empty());
    }

    #[test]
    fn equal_pairs_have_no_spread_and_one_bad_block_does() {
        let pair = || sums(&[("a", 95), ("b", 5)]);
        let nothing = vec![Sums::new(); 50];
        let mut with = vec![pair(); 50];
        let even = Sample::new(&with, &nothing).bounds(&|name| name == "a", &|_| true).unwrap();
        assert_eq!(even, Shares { right: 0.95, wrong: 0.05 });
        with[7] = sums(&[("b", 1_000)]);
        let odd = Sample::new(&with, &nothing).bounds(&|name| name == "a", &|_| true).unwrap();
        // Without the bad block 95 %; drawn three times 4275 of 7500.
        assert!(odd.right < 0.7 && odd.wrong > 0.3, "{odd:?}");
    }
}
