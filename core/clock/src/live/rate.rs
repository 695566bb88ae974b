//! How fast the counter runs against CLOCK_MONOTONIC: every rate that the anchors of the last ten seconds allow.

use std::collections::VecDeque;

/// Anchors older than this do not count, nanoseconds.
const SPAN_NS: i64 = 10_000_000_000;
/// Most anchors kept: where they come faster than each 100 ms, the span is shorter.
const MOST: usize = 101;

/// An anchor: CLOCK_MONOTONIC at a reading lies within `half_ns` of `ns`.
#[derive(Clone, Copy, Debug)]
struct Tie {
    cycles: u64,
    ns: i64,
    half_ns: i64,
}

/// A rate and how wrong it may be, nanoseconds a cycle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate {
    pub(crate) ns_per_cycle: f64,
    pub(crate) error: f64,
}

impl Rate {
    fn between(least: f64, most: f64) -> Option<Self> {
        (least <= most).then(|| Self { ns_per_cycle: (least + most) / 2.0, error: (most - least) / 2.0 })
    }
}

/// A line through the last anchor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) cycles: u64,
    pub(crate) ns: i64,
    pub(crate) half_ns: i64,
    /// Its error includes what may change unseen until the next anchor.
    pub(crate) rate: Rate,
}

impl Line {
    /// A line through no anchor: of any prediction, the bound is years.
    pub(crate) fn unknown(rate: Rate) -> Self {
        Self { cycles: 0, ns: 0, half_ns: 1 << 60, rate }
    }

    /// Prediction and its bound.
    pub(crate) fn at(&self, cycles: u64) -> (i64, u64) {
        let delta = cycles.wrapping_sub(self.cycles).cast_signed() as f64;
        let ns = self.ns.saturating_add((delta * self.rate.ns_per_cycle).round() as i64);
        (ns, self.half_ns.unsigned_abs() + 1 + (delta.abs() * self.rate.error).ceil() as u64)
    }
}

/// Anchors through which one straight line goes.
///
/// Each pair of anchors bounds the slope from both sides by its brackets; what all pairs allow is narrower than each, and
/// wide brackets do no harm beside narrow ones. Where no slope is left, the rate has changed within the window, and the
/// older half of it goes.
#[derive(Debug)]
pub(crate) struct RateWindow {
    ties: VecDeque<Tie>,
    /// What is known without the anchors: from before the last change.
    prior: Option<Rate>,
    rate: Rate,
}

impl RateWindow {
    /// A window without anchors.
    pub(crate) fn new(prior: Rate) -> Self {
        Self { ties: VecDeque::with_capacity(MOST + 1), prior: Some(prior), rate: prior }
    }

    /// The rate.
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// Time that the anchors of the window span, nanoseconds.
    pub(crate) fn span_ns(&self) -> i64 {
        self.ties.back().zip(self.ties.front()).map_or(0, |(last, first)| last.ns - first.ns)
    }

    /// Takes another anchor in, later than all others.
    pub(crate) fn push(&mut self, cycles: u64, ns: i64, half_ns: i64) {
        self.ties.push_back(Tie { cycles, ns, half_ns });
        while self.ties.len() > MOST || self.span_ns() > SPAN_NS {
            self.ties.pop_front();
        }
        loop {
            let pairs = self.pairs();
            let prior = self
                .prior
                .map_or((f64::MIN, f64::MAX), |p| (p.ns_per_cycle - p.error, p.ns_per_cycle + p.error));
            if let Some(rate) = Rate::between(pairs.0.max(prior.0), pairs.1.min(prior.1)) {
                self.rate = rate;
                return;
            }
            self.prior = None;
            if let Some(rate) = Rate::between(pairs.0, pairs.1) {
                self.rate = rate;
                return;
            }
            // Two anchors always allow a rate, so this comes to an end.
            self.ties.drain(..self.ties.len().div_ceil(2).min(self.ties.len() - 2).max(1));
        }
    }

    /// Least and most that all pairs allow.
    fn pairs(&self) -> (f64, f64) {
        let (mut least, mut most) = (f64::MIN, f64::MAX);
        for (at, from) in self.ties.iter().enumerate() {
            for to in self.ties.range(at + 1..) {
                let cycles = (to.cycles - from.cycles) as f64;
                let (ns, slack) = (to.ns - from.ns, to.half_ns + from.half_ns);
                least = least.max((ns - slack) as f64 / cycles);
                most = most.min((ns + slack) as f64 / cycles);
            }
        }
        (least, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIOR: Rate = Rate { ns_per_cycle: 0.4, error: 0.4 };

    /// Anchors each 100 ms of a counter that runs at 1/0.4 GHz; each off by what `error` says.
    fn fed(anchors: u64, rate: impl Fn(u64) -> f64, error: impl Fn(u64) -> (i64, i64)) -> RateWindow {
        let mut window = RateWindow::new(PRIOR);
        let mut ns = 0.0;
        for at in 0..anchors {
            let (off_ns, half_ns) = error(at);
            window.push(at * 250_000_000, ns as i64 + off_ns, half_ns);
            ns += 250e6 * rate(at);
        }
        window
    }

    #[test]
    fn true_rate_is_among_those_allowed_and_ten_seconds_make_it_sharp() {
        let window = fed(300, |_| 0.4, |at| ((at as i64 * 7) % 23 - 11, 12));
        let rate = window.rate();
        assert!((rate.ns_per_cycle - 0.4).abs() <= rate.error);
        assert!(rate.error / 0.4 < 2.5e-9, "{rate:?}");
        assert!((9_890_000_000..=SPAN_NS).contains(&window.span_ns()), "{}", window.span_ns());
    }

    #[test]
    fn a_wide_bracket_does_no_harm() {
        let narrow = fed(50, |_| 0.4, |_| (0, 12)).rate();
        let mixed = fed(50, |_| 0.4, |at| if at % 5 == 3 { (900, 1_000) } else { (0, 12) }).rate();
        assert!((mixed.ns_per_cycle - 0.4).abs() <= mixed.error);
        assert!(mixed.error <= narrow.error * 1.5, "{mixed:?} {narrow:?}");
    }

    #[test]
    fn what_was_before_a_change_is_dropped() {
        let window = fed(60, |at| if at < 30 { 0.4 } else { 0.4 * (1.0 + 3e-6) }, |_| (0, 12));
        assert!((window.rate().ns_per_cycle / 0.4 - 1.0 - 3e-6).abs() < 1e-7, "{:?}", window.rate());
        assert!(window.span_ns() <= 3_100_000_000);
    }

    #[test]
    fn a_prior_that_is_contradicted_goes() {
        let mut window = RateWindow::new(Rate { ns_per_cycle: 0.5, error: 1e-6 });
        window.push(0, 0, 10);
        assert_eq!(window.rate().ns_per_cycle, 0.5);
        window.push(250_000_000, 100_000_000, 10);
        assert!((window.rate().ns_per_cycle - 0.4).abs() <= window.rate().error);
    }
}
