//! What each source cost in a run.

use crate::audit::Cost;
use quaver_analysis::summary::CauseSummary;
use quaver_instrument::exit_code::{ExitCode, failure};
use std::collections::BTreeMap;
use std::path::Path;

/// Costs by cause.
pub type Costs = BTreeMap<String, Cost>;

/// The costs in a run of `chase`, `sink` or `noise`, by cause.
pub(super) fn of_run(path: &Path) -> anyhow::Result<Costs> {
    let run = quaver_store::listing::open(path)?;
    let causes = match run.read_manifest()?.verb.as_str() {
        "chase" | "sink" => quaver_chase::digest::analyze(&run, None)?.analysis.summary.causes,
        "noise" => quaver_noise::digest::analyze(&run)?.analysis.summary.causes,
        _ => {
            let message =
                format!("{}: this kind of run has no sources; use a chase or noise run", path.display());
            return Err(failure(ExitCode::BadInput, message));
        }
    };
    Ok(by_source(&causes))
}

/// Causes of a run by their sources.
pub fn by_source(causes: &[CauseSummary]) -> Costs {
    let mut costs = Costs::new();
    for cause in causes {
        let cost = costs.entry(cause.source.clone()).or_insert(Cost { time_ns: 0, share: 0.0, worst_ns: 0 });
        cost.time_ns = cost.time_ns.saturating_add(cause.time_ns);
        cost.share += cause.share;
        cost.worst_ns = cost.worst_ns.max(cause.worst_ns);
    }
    costs
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_analysis::summary::{Remedy, SourceClass};

    fn cause(source: &str, time_ns: i64, worst_ns: i64) -> CauseSummary {
        CauseSummary {
            source: source.to_owned(),
            name: format!("{source} here"),
            class: SourceClass::NetworkIndependent,
            time_ns,
            entry_exit_ns: 0,
            catch_up_ns: 0,
            share: 0.25,
            packets: 1,
            intervals: 1,
            worst_ns,
            example_seq: 0,
            remedy: Remedy::default(),
            threads: Vec::new(),
            functions: Vec::new(),
            inferred_ns: 0,
            stable_name: None,
        }
    }

    #[test]
    fn causes_of_one_source_add_up() {
        let causes = [cause("dev-irq", 10, 7), cause("tick", 5, 5), cause("dev-irq", 30, 3)];
        let costs = by_source(&causes);
        assert_eq!(costs["dev-irq"], Cost { time_ns: 40, share: 0.5, worst_ns: 7 });
        assert_eq!(costs.len(), 2);
    }

    #[test]
    fn every_cause_that_settings_change_belongs_to_a_row() {
        // What a packet's own way costs, and what the sender or the network did, no setting of this host changes.
        // Nor what the receiver itself does and waits for.
        let elsewhere = [
            "net-rx",
            "own-packets",
            "softirq-other",
            "source-late",
            "arrival-late",
            "own-code",
            "own-call",
            "stopped",
            "traced",
            "frozen",
            "own-sleep",
            "dl-budget",
            "lock",
            "thread-end",
            "peer-wait",
            "disk",
            "kernel-wait",
            "outside",
        ];
        let rows = crate::catalogue::rows();
        for source in quaver_analysis::catalogue::sources() {
            let has = rows.iter().any(|row| row.id == source.id || row.causes.contains(&source.id));
            assert_eq!(has, !elsewhere.contains(&source.id.as_str()), "{}", source.id);
        }
    }
}
