//! Two-state models of loss: Gilbert's, whose states are seen, and Gilbert and Elliott's, whose states are hidden.
//!
//! E. N. Gilbert, "Capacity of a burst-noise channel", 1960; E. O. Elliott, "Estimates of error rates for codes on
//! burst-noise channels", 1963. The hidden states are fitted by expectation and maximization (L. E. Baum et al., 1970).

mod counts;

use super::bursts::{GMIN, bursts};
use super::loss_pattern::{LossRun, lost};
use counts::{ExpectedCounts, expected_counts};
use schemars::JsonSchema;
use serde::Serialize;

/// Gilbert's model with a state that loses every packet and one that loses none: transitions are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Gilbert {
    /// Probability that a packet is lost after a received one; none where no packet follows a received one.
    pub p: Option<f64>,
    /// Probability that a packet is received after a lost one; none where no packet follows a lost one.
    pub r: Option<f64>,
    /// Mean length of the runs of lost packets, as observed. It is below 1 / r where the end of the test cut the last
    /// run off.
    pub mean_run: Option<f64>,
    /// The last packet was lost, so nobody knows how long the last run would have been.
    pub last_run_cut_off: bool,
}

impl Gilbert {
    /// Share of loss that the model settles at, p / (p + r).
    pub fn loss_share(&self) -> Option<f64> {
        let (p, r) = (self.p?, self.r?);
        (p + r > 0.0).then(|| p / (p + r))
    }
}

/// Fits Gilbert's model to the losses among `sent` packets.
pub fn gilbert(runs: &[LossRun], sent: u64) -> Gilbert {
    let lost = lost(runs);
    let last_run_cut_off = runs.last().is_some_and(|run| run.last() + 1 == sent);
    let starts_in_loss = runs.first().is_some_and(|run| run.first == 0);
    let periods = runs.len() as u64;
    let received_before_another = (sent - lost).saturating_sub(u64::from(!last_run_cut_off));
    let lost_before_another = lost - u64::from(last_run_cut_off);
    let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    Gilbert {
        p: ratio(periods - u64::from(starts_in_loss), received_before_another),
        r: ratio(periods - u64::from(last_run_cut_off), lost_before_another),
        mean_run: ratio(lost, periods),
        last_run_cut_off,
    }
}

/// Probabilities of the Gilbert-Elliott model, for each packet.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct GilbertElliott {
    /// From the good state to the bad one.
    pub p: f64,
    /// From the bad state to the good one.
    pub r: f64,
    /// Loss in the good state.
    pub loss_good: f64,
    /// Loss in the bad state, at least that in the good one.
    pub loss_bad: f64,
}

impl GilbertElliott {
    /// Part of the time that the model spends in the bad state.
    pub fn bad_share(&self) -> f64 {
        if self.p + self.r > 0.0 { self.p / (self.p + self.r) } else { 0.5 }
    }

    /// Share of loss that the model settles at.
    pub fn loss_share(&self) -> f64 {
        self.bad_share() * self.loss_bad + (1.0 - self.bad_share()) * self.loss_good
    }

    fn from_counts(counts: &ExpectedCounts) -> GilbertElliott {
        let share = |part: f64, rest: f64| {
            if part + rest > 0.0 { (part / (part + rest)).clamp(LEAST, 1.0 - LEAST) } else { 0.5 }
        };
        let [good, bad] = counts.transitions;
        GilbertElliott {
            p: share(good[1], good[0]),
            r: share(bad[0], bad[1]),
            loss_good: share(counts.lost[0], counts.received[0]),
            loss_bad: share(counts.lost[1], counts.received[1]),
        }
    }

    /// With the states named so that the bad one loses more.
    fn named(self) -> GilbertElliott {
        if self.loss_bad >= self.loss_good {
            return self;
        }
        GilbertElliott { p: self.r, r: self.p, loss_good: self.loss_bad, loss_bad: self.loss_good }
    }

    fn largest_change(&self, other: &GilbertElliott) -> f64 {
        let pairs = [
            (self.p, other.p),
            (self.r, other.r),
            (self.loss_good, other.loss_good),
            (self.loss_bad, other.loss_bad),
        ];
        pairs.iter().map(|(a, b)| (a - b).abs() / (a + b)).fold(0.0, f64::max)
    }
}

/// A Gilbert-Elliott model fitted to a test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct GilbertElliottFit {
    /// The model of greatest likelihood that was found.
    pub model: GilbertElliott,
    /// Natural logarithm of the probability of these losses under the model.
    pub log_likelihood: f64,
    /// The same where each packet is lost with the same probability, whatever happened to the others.
    pub random_log_likelihood: f64,
    /// Whether two states explain the losses better than one by the Bayesian information criterion, with its 3
    /// further parameters. If not, the model's figures mean little.
    pub two_states_found: bool,
    /// Steps taken.
    pub iterations: u32,
    /// The figures had come to rest. If not, they are the best after as many steps as were granted.
    pub converged: bool,
}

/// No probability comes nearer to 0 and 1 than this, so that no logarithm is infinite.
const LEAST: f64 = 1e-12;
/// A step that changes no figure by more than this part has come to rest.
const AT_REST: f64 = 1e-7;
/// Steps for each of the beginnings before the better one goes on.
const FIRST_STEPS: u32 = 10;
/// Bounds the time of a fit: steps times runs of loss.
const RUN_STEPS: u64 = 10_000_000;

/// Fits the Gilbert-Elliott model to the losses among `sent` packets; none where all or nothing was lost, for then
/// there is nothing to tell states by.
///
/// One step costs as much as there are runs of loss, not packets.
pub fn gilbert_elliott(runs: &[LossRun], sent: u64) -> Option<GilbertElliottFit> {
    let lost = lost(runs);
    if lost == 0 || lost >= sent {
        return None;
    }
    let most = (RUN_STEPS / runs.len() as u64).clamp(20, 500) as u32;
    let begun = beginnings(runs, sent).map(|model| climb(model, runs, sent, FIRST_STEPS));
    let best = begun.into_iter().max_by(|a, b| a.log_likelihood.total_cmp(&b.log_likelihood))?;
    let mut end = climb(best.model, runs, sent, most);
    let share = lost as f64 / sent as f64;
    let received = (sent - lost) as f64;
    end.model = end.model.named();
    end.iterations += 2 * FIRST_STEPS;
    end.random_log_likelihood = lost as f64 * share.ln() + received * (1.0 - share).ln();
    end.two_states_found = end.log_likelihood - end.random_log_likelihood > 1.5 * (sent as f64).ln();
    Some(end)
}

/// Where to begin: the bursts and gaps of RFC 3611 as states, and Gilbert's model blurred.
fn beginnings(runs: &[LossRun], sent: u64) -> [GilbertElliott; 2] {
    let inside = |share: f64| share.clamp(1e-6, 1.0 - 1e-6);
    let seen = gilbert(runs, sent);
    let share = lost(runs) as f64 / sent as f64;
    let blurred = GilbertElliott {
        p: inside(seen.p.unwrap_or(share)),
        r: inside(seen.r.unwrap_or(1.0 - share)),
        loss_good: inside(share / 10.0),
        loss_bad: 0.8,
    };
    let bursts = bursts(runs, GMIN);
    if bursts.is_empty() {
        return [blurred, GilbertElliott { p: 0.01, r: 0.1, loss_good: inside(share / 2.0), loss_bad: 0.5 }];
    }
    let bad: u64 = bursts.iter().map(|burst| burst.packets()).sum();
    let bad_lost: u64 = bursts.iter().map(|burst| burst.lost).sum();
    let good = (sent - bad).max(1) as f64;
    let by_bursts = GilbertElliott {
        p: inside(bursts.len() as f64 / good),
        r: inside(bursts.len() as f64 / bad as f64),
        loss_good: inside((lost(runs) - bad_lost) as f64 / good),
        loss_bad: inside(bad_lost as f64 / bad as f64),
    };
    [blurred, by_bursts]
}

/// Steps of expectation and maximization, each of which makes the losses more likely.
fn climb(mut model: GilbertElliott, runs: &[LossRun], sent: u64, most: u32) -> GilbertElliottFit {
    let mut counts = expected_counts(&model, runs, sent);
    let mut iterations = 0;
    let mut converged = false;
    while iterations < most && !converged {
        let next = GilbertElliott::from_counts(&counts);
        converged = next.largest_change(&model) < AT_REST;
        model = next;
        counts = expected_counts(&model, runs, sent);
        iterations += 1;
    }
    GilbertElliottFit {
        model,
        log_likelihood: counts.log_likelihood,
        random_log_likelihood: 0.0,
        two_states_found: false,
        iterations,
        converged,
    }
}

#[cfg(test)]
mod tests;
