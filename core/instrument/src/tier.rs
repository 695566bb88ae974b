//! Which tier of tracing runs, and why not a better one.

use crate::args::TierName;
use quaver_host::bpf;
use quaver_host::trace::{Tier, TraceError, TraceSpec, Tracer};
use quaver_host::tracefs::{TracefsTracer, open_tracefs, remove_stale_instances};

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
    match asked {
        Some(TierName::Bpf) => Ok(chosen(bpf::start(spec)?, None)),
        Some(TierName::Tracefs) => {
            Ok(chosen(Box::new(TracefsTracer::start(spec)?), Some("asked for with --tier".into())))
        }
        Some(TierName::User) => {
            Ok(Choice { tracer: None, tier: Tier::User, reason: Some("asked for with --tier".into()) })
        }
        None => Ok(best(spec)),
    }
}

/// Removes what a killed run left behind: a tracefs instance of a process that is gone. (Namespaces and BPF programs
/// end with their process.) Without the right to look there is nothing that this user could have left.
fn remove_leftovers() {
    if let Ok((root, _)) = open_tracefs() {
        let _ = remove_stale_instances(&root);
    }
}

fn chosen(tracer: Box<dyn Tracer>, reason: Option<String>) -> Choice {
    Choice { tier: tracer.tier(), tracer: Some(tracer), reason }
}

fn best(spec: &TraceSpec) -> Choice {
    let no_bpf = match bpf::start(spec) {
        Ok(tracer) => return chosen(tracer, None),
        Err(error) => error,
    };
    match TracefsTracer::start(spec) {
        Ok(tracer) => chosen(Box::new(tracer), Some(no_bpf.to_string())),
        Err(no_tracefs) => {
            Choice { tracer: None, tier: Tier::User, reason: Some(format!("{no_bpf}; {no_tracefs}")) }
        }
    }
}
