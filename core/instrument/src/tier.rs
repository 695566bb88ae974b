//! Which tier of tracing runs, and why not a better one.

use crate::args::TierName;
use quaver_host::bpf;
use quaver_host::trace::{Flow, Payload, Tier, TraceError, TraceSpec, Tracer};
use quaver_host::tracefs::{TracefsTracer, open_tracefs, remove_stale_instances};
use std::fmt::Display;
use std::net::Ipv4Addr;

/// The tracer that started, if any.
pub struct Choice {
    /// None in the user tier.
    pub tracer: Option<Box<dyn Tracer>>,
    /// Tier that runs.
    pub tier: Tier,
    /// Why not a better one.
    pub reason: Option<String>,
}

/// Starts the best tier, or the one asked for and no other.
///
/// # Errors
/// Only when a tier was asked for by name and cannot run.
pub fn start(asked: Option<TierName>, spec: &TraceSpec) -> Result<Choice, TraceError> {
    remove_leftovers();
    let begin = |tier| -> Result<Box<dyn Tracer>, TraceError> {
        let mut tracer = prepare(tier, spec)?;
        tracer.set_recording(true)?;
        Ok(tracer)
    };
    let by_name = |tier, tracer| Choice { tier, tracer, reason: Some("asked for with --tier".to_owned()) };
    match asked {
        Some(TierName::Bpf) => Ok(Choice { tier: Tier::Bpf, tracer: Some(begin(Tier::Bpf)?), reason: None }),
        Some(TierName::Tracefs) => Ok(by_name(Tier::Tracefs, Some(begin(Tier::Tracefs)?))),
        Some(TierName::User) => Ok(by_name(Tier::User, None)),
        None => {
            let (tier, tracer, reason) = best(begin(Tier::Bpf), || begin(Tier::Tracefs));
            Ok(Choice { tier, tracer, reason })
        }
    }
}

/// Removes what a killed run left behind: a tracefs instance of a process that is gone. (Namespaces and BPF programs
/// end with their process.) Without the right to look there is nothing that this user could have left.
fn remove_leftovers() {
    if let Ok((root, _)) = open_tracefs() {
        let _ = remove_stale_instances(&root);
    }
}

/// A tracer of this tier that records nothing yet.
fn prepare(tier: Tier, spec: &TraceSpec) -> Result<Box<dyn Tracer>, TraceError> {
    match tier {
        Tier::Bpf => bpf::prepare(spec),
        _ => Ok(Box::new(TracefsTracer::prepare(spec)?)),
    }
}

/// The best tier of those that run, and why not a better one.
fn best<T, E: Display>(
    bpf: Result<T, E>,
    tracefs: impl FnOnce() -> Result<T, E>,
) -> (Tier, Option<T>, Option<String>) {
    let no_bpf = match bpf {
        Ok(found) => return (Tier::Bpf, Some(found), None),
        Err(error) => error,
    };
    match tracefs() {
        Ok(found) => (Tier::Tracefs, Some(found), Some(no_bpf.to_string())),
        Err(no_tracefs) => (Tier::User, None, Some(format!("{no_bpf}; {no_tracefs}"))),
    }
}

/// What became of a trial of both tiers.
pub struct Trial {
    /// Classes of events that BPF would not see, or why it cannot run.
    pub bpf: Result<Vec<String>, TraceError>,
    /// The same of a tracefs instance.
    pub tracefs: Result<Vec<String>, TraceError>,
    /// Tier that [`start`] would choose.
    pub tier: Tier,
    /// Why not a better one, in the words of [`Choice::reason`].
    pub reason: Option<String>,
}

/// Readies each tier, the second whether or not the first can run, as [`start`] does for a stream over loopback, and lets it go. Nothing is attached or recorded.
pub fn trial() -> Trial {
    let spec = TraceSpec {
        flow: Some(Flow {
            address: Some(Ipv4Addr::LOCALHOST.into()),
            ports: vec![9],
            payload: Payload::Ours { offset: 0 },
        }),
        threads: vec![std::process::id()],
        observed_process: None,
        cpus: Vec::new(),
        stamp_capacity: 256,
        event_capacity: 256,
    };
    let blind = |tier| prepare(tier, &spec).map(|tracer| tracer.blind());
    let (bpf, tracefs) = (blind(Tier::Bpf), blind(Tier::Tracefs));
    let (tier, _, reason) = best(bpf.as_ref(), || tracefs.as_ref());
    Trial { tier, reason, bpf, tracefs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_tier_that_runs_is_taken_and_the_reasons_of_better_ones_are_kept() {
        let (tier, found, reason) = best::<_, &str>(Ok(1), || panic!("nobody asks for a worse one"));
        assert_eq!((tier, found, reason), (Tier::Bpf, Some(1), None));
        let (tier, found, reason) = best(Err("no BPF"), || Ok(2));
        assert_eq!((tier, found, reason.as_deref()), (Tier::Tracefs, Some(2), Some("no BPF")));
        let (tier, found, reason) = best::<(), _>(Err("no BPF"), || Err("no tracefs"));
        assert_eq!((tier, found, reason.as_deref()), (Tier::User, None, Some("no BPF; no tracefs")));
    }
}
