//! Limits of what a stream may suffer in ten seconds (`--breach`). Where one is crossed, the files around it are kept.

use crate::args::breach::BreachLimits;
use crate::view::flows::ends;
use quaver_capture_analysis::flows::{CaptureFigures, RecentFigures};
use quaver_view::Cell;

/// Breaches that are told one by one.
const MOST_TOLD: usize = 100;

/// What crosses a limit.
fn crossed(limits: &BreachLimits, recent: &RecentFigures) -> Option<String> {
    if limits.loss_share.is_some_and(|most| recent.loss_share > most) {
        return Some(format!("{} lost", Cell::Share(recent.loss_share)));
    }
    let pdv_ns = recent.worst_pdv_p99_ns.map(|ns| i64::try_from(ns).unwrap_or(i64::MAX));
    if let Some(pdv_ns) = pdv_ns.filter(|pdv_ns| limits.pdv_ns.is_some_and(|most_ns| *pdv_ns > most_ns)) {
        return Some(format!("PDV p99 {}", Cell::Duration(pdv_ns)));
    }
    if limits.interarrival_ns.is_some_and(|most_ns| recent.interarrival_ns > most_ns as f64) {
        return Some(format!("interarrival jitter {}", Cell::FineDuration(recent.interarrival_ns)));
    }
    let mos = recent.mos.filter(|mos| limits.least_mos.is_some_and(|least| *mos < least))?;
    Some(format!("MOS {mos:.2}"))
}

/// Breaches so far.
#[derive(Debug)]
pub(super) struct Breaches {
    limits: BreachLimits,
    goes_on: bool,
    pub(super) notes: Vec<String>,
}

impl Breaches {
    pub(super) fn new(limits: BreachLimits) -> Self {
        Self { limits, goes_on: false, notes: Vec::new() }
    }

    /// Looks at the flows; `keep` keeps the files where a breach begins, and says whether it could.
    pub(super) fn look(&mut self, figures: &CaptureFigures, keep: impl FnOnce() -> bool) {
        let crossed =
            figures.flows.iter().find_map(|flow| Some((flow, crossed(&self.limits, flow.recent.as_ref()?)?)));
        let begins = crossed.is_some() && !self.goes_on;
        self.goes_on = crossed.is_some();
        let Some((flow, what)) = crossed.filter(|_| begins) else { return };
        let files = if keep() { "the files around it are kept" } else { "no more files are kept" };
        if self.notes.len() < MOST_TOLD {
            let at_ns = figures.last_ns.and_then(|ns| u64::try_from(ns).ok()).unwrap_or_default();
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(at_ns);
            let time = humantime::format_rfc3339_millis(time);
            self.notes.push(format!("breach at {time}: {what} in 10 s, {}; {files}", ends(&flow.key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::breach::limits;

    #[test]
    fn each_limit_is_crossed_by_more_and_not_by_as_much() {
        let recent = RecentFigures {
            packets: 500,
            lost: 5,
            loss_share: 0.01,
            worst_pdv_p99_ns: Some(20_000_000),
            interarrival_ns: 5e6,
            mos: Some(3.6),
        };
        assert_eq!(crossed(&limits("loss=1%,pdv=20ms,interarrival=5ms,mos=3.6").unwrap(), &recent), None);
        for (text, what) in [
            ("loss=0.9%", "1.0 % lost"),
            ("pdv=19ms", "PDV p99 20.0 ms"),
            ("interarrival=4ms", "interarrival jitter 5.00 ms"),
            ("mos=3.7", "MOS 3.60"),
        ] {
            let found = crossed(&limits(text).unwrap(), &recent).unwrap();
            assert_eq!(found.replace('\u{a0}', " "), what);
        }
    }
}
