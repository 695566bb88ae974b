//! How often a hidden two-state model is expected to have been where, given the losses.
//!
//! Runs of packets with one fate are taken in one go: the matrix of a run is a power of the matrix of one packet, and
//! carries beside it the part that each transition has in it. Both follow the rule of products, so a run of n packets
//! costs about log2(n) products, and the whole test one pass.

use super::super::loss_pattern::LossRun;
use super::GilbertElliott;

type Row = [f64; 2];
type Matrix = [Row; 2];

/// Expected counts, by state: 0 is good and 1 is bad.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ExpectedCounts {
    /// From a state to a state.
    pub(super) transitions: Matrix,
    /// Packets received in each state.
    pub(super) received: Row,
    /// Packets lost in each state.
    pub(super) lost: Row,
    /// Natural logarithm of the probability of the losses.
    pub(super) log_likelihood: f64,
}

/// Where a transition goes from and to.
const WAYS: [(usize, usize); 4] = [(0, 0), (0, 1), (1, 0), (1, 1)];

/// What so many packets of one fate do: probabilities, and for each way the probability weighted by how often it was
/// taken. Both are divided by `exp(scale)`.
#[derive(Clone, Copy)]
struct Power {
    all: Matrix,
    ways: [Matrix; 4],
    scale: f64,
}

impl Power {
    /// One packet: a transition, then its fate with the probability `fate` of the state arrived in.
    fn one(model: &GilbertElliott, fate: Row) -> Power {
        let step = [[1.0 - model.p, model.p], [model.r, 1.0 - model.r]];
        let all =
            [[step[0][0] * fate[0], step[0][1] * fate[1]], [step[1][0] * fate[0], step[1][1] * fate[1]]];
        let mut ways = [[[0.0; 2]; 2]; 4];
        for (way, (from, to)) in ways.iter_mut().zip(WAYS) {
            way[from][to] = all[from][to];
        }
        Power { all, ways, scale: 0.0 }
    }

    /// Twice as many packets.
    fn doubled(&self) -> Power {
        let mut all = product(&self.all, &self.all);
        let largest = all.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
        all.iter_mut().flatten().for_each(|x| *x /= largest);
        let ways = self.ways.map(|way| {
            let (first, second) = (product(&way, &self.all), product(&self.all, &way));
            let mut both = [[0.0; 2]; 2];
            for (from, to) in WAYS {
                both[from][to] = (first[from][to] + second[from][to]) / largest;
            }
            both
        });
        Power { all, ways, scale: 2.0 * self.scale + largest.ln() }
    }
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    [apply(a[0], b), apply(a[1], b)]
}

fn apply(row: Row, matrix: &Matrix) -> Row {
    [row[0] * matrix[0][0] + row[1] * matrix[1][0], row[0] * matrix[0][1] + row[1] * matrix[1][1]]
}

/// Powers for 1, 2, 4 … packets of one fate, made when they are needed.
struct Powers(Vec<Power>);

impl Powers {
    fn get(&mut self, bit: usize) -> &Power {
        while self.0.len() <= bit {
            let next = self.0[self.0.len() - 1].doubled();
            self.0.push(next);
        }
        &self.0[bit]
    }
}

/// The way through the test so far: where the model may be, and that weighted by what was counted on the way.
struct Forward {
    now: Row,
    /// By the fate at the end of the transition (0 received, 1 lost), then by the way.
    ways: [[Row; 4]; 2],
    /// By the state of the first packet.
    start: [Row; 2],
    log_likelihood: f64,
}

impl Forward {
    fn pass(&mut self, fate: usize, mut packets: u64, powers: &mut Powers) {
        while packets > 0 {
            let power = powers.get(packets.trailing_zeros() as usize);
            packets &= packets - 1;
            let now = self.now;
            for row in self.ways.iter_mut().flatten().chain(self.start.iter_mut()) {
                *row = apply(*row, &power.all);
            }
            for (row, way) in self.ways[fate].iter_mut().zip(&power.ways) {
                let taken = apply(now, way);
                *row = [row[0] + taken[0], row[1] + taken[1]];
            }
            self.now = apply(now, &power.all);
            self.normalize(power.scale);
        }
    }

    fn normalize(&mut self, scale: f64) {
        let sum = (self.now[0] + self.now[1]).max(f64::MIN_POSITIVE);
        let rows = self.ways.iter_mut().flatten().chain(self.start.iter_mut());
        rows.chain(std::iter::once(&mut self.now)).flatten().for_each(|x| *x /= sum);
        self.log_likelihood += sum.ln() + scale;
    }
}

/// Expected counts under `model`, which begins in its long-term shares of the states. `sent` is at least 1.
pub(super) fn expected_counts(model: &GilbertElliott, runs: &[LossRun], sent: u64) -> ExpectedCounts {
    let loss = [model.loss_good, model.loss_bad];
    let kept = loss.map(|share| 1.0 - share);
    let mut powers = [Powers(vec![Power::one(model, kept)]), Powers(vec![Power::one(model, loss)])];
    let first_fate = usize::from(runs.first().is_some_and(|run| run.first == 0));
    let begin = [kept, loss][first_fate];
    let shares = [1.0 - model.bad_share(), model.bad_share()];
    let now = [shares[0] * begin[0], shares[1] * begin[1]];
    let start = [[now[0], 0.0], [0.0, now[1]]];
    let mut forward = Forward { now, ways: [[[0.0; 2]; 4]; 2], start, log_likelihood: 0.0 };
    forward.normalize(0.0);
    let mut next = 1;
    for run in runs {
        forward.pass(0, run.first.saturating_sub(next), &mut powers[0]);
        let end = run.last() + 1;
        forward.pass(1, end - run.first.max(next), &mut powers[1]);
        next = end.max(next);
    }
    forward.pass(0, sent - next, &mut powers[0]);
    forward.counts(first_fate)
}

impl Forward {
    fn counts(&self, first_fate: usize) -> ExpectedCounts {
        let weight = |row: Row| row[0] + row[1];
        let mut counts = ExpectedCounts { log_likelihood: self.log_likelihood, ..ExpectedCounts::default() };
        let mut by_fate = [[0.0; 2]; 2];
        for (fate, ways) in self.ways.iter().enumerate() {
            for ((from, to), row) in WAYS.into_iter().zip(ways) {
                counts.transitions[from][to] += weight(*row);
                by_fate[fate][to] += weight(*row);
            }
        }
        for (state, row) in self.start.iter().enumerate() {
            by_fate[first_fate][state] += weight(*row);
        }
        [counts.received, counts.lost] = by_fate;
        counts
    }
}
