//! Ways to stamp a packet beside each other, in user space and in the kernel, those that a host lacks with the reason.

use super::arms::Overheads;
use super::kernel::KernelSummary;
use super::model::{CompareFacts, Context, PatternFacts};
use quaver_analysis::rounds::Interval;
use schemars::JsonSchema;
use serde::Serialize;

/// Where a way stamps, how, and the arm that measures it.
const WAYS: [(Context, &str, &str); 8] = [
    (Context::User, "clock_gettime (vDSO)", "inline-clock"),
    (Context::User, "raw cycles, converter thread", "threaded"),
    (Context::Kernel, "SO_TIMESTAMPNS (the kernel's own stamp)", "stamping"),
    (Context::Kernel, "BPF, bpf_ktime_get_ns", "bpf-ktime"),
    (Context::Kernel, "BPF, raw cycles", "bpf-cycles"),
    (Context::Kernel, "trace ring, raw cycles", "second-cycles"),
    (Context::Module, "module, the kernel's clock", "module-clock"),
    (Context::Module, "module, raw cycles", "module-raw"),
];
const UNKNOWN: &str = "not measured";

/// A way to stamp: what it takes, or why it took no part.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Way {
    /// `user` or `kernel`.
    pub place: &'static str,
    /// How it stamps.
    pub what: &'static str,
    /// The arm.
    pub arm: &'static str,
    /// Trimmed mean on the packet's way, the checkpoints taken off, nanoseconds. None where that is no result.
    pub ns: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<Interval>,
    /// Trimmed variance, checkpoints included, ns².
    pub variance_ns2: Option<f64>,
    /// Conversion elsewhere, nanoseconds a stamp; 0 where nothing is left to convert, none where it is not measured.
    pub later_ns: Option<f64>,
    /// Why there is no figure.
    pub absent: Option<String>,
}

/// Of one pattern. `user`: arms there, with what each converts later; `kernel`: between tracepoints, and by our module.
pub(super) fn ways(
    facts: &CompareFacts,
    pattern: &PatternFacts,
    user: &[(&Overheads, f64)],
    kernel: [Option<&KernelSummary>; 2],
) -> Vec<Way> {
    let in_kernel = |summary: Option<&KernelSummary>, name: &str| -> Option<Overheads> {
        summary?.arms.iter().find(|arm| arm.name == name && arm.overhead.count > 0).cloned()
    };
    let of = |(context, what, arm): (Context, &'static str, &'static str)| {
        let (found, later_ns) = match context {
            Context::User => {
                let found = user.iter().find(|(one, _)| one.name == arm && one.overhead.count > 0);
                (found.map(|(one, _)| (*one).clone()), found.map(|(_, later_ns)| *later_ns))
            }
            // Between tracepoints raw cycles are never converted.
            Context::Kernel => {
                let converts = !["bpf-cycles", "second-cycles"].contains(&arm);
                (in_kernel(kernel[0], arm), converts.then_some(0.0))
            }
            Context::Module => {
                let known = pattern.module_arms.iter().find(|one| one.name == arm);
                (in_kernel(kernel[1], arm), known.map(|one| one.resolve_ns + one.converter_ns))
            }
        };
        let refused = found.as_ref().and_then(|found| found.refused.map(str::to_owned));
        let reason = || facts.absent.get(arm).cloned().unwrap_or_else(|| UNKNOWN.to_owned());
        let result = found.as_ref().filter(|_| refused.is_none());
        Way {
            place: if context == Context::User { "user" } else { "kernel" },
            what,
            arm,
            ns: result.map(|found| found.overhead.trimmed_mean_ns),
            interval: result.and_then(|found| found.trimmed_mean_interval),
            variance_ns2: found.as_ref().map(|found| found.overhead.trimmed_variance_ns2),
            later_ns: later_ns.filter(|_| found.is_some()),
            absent: if found.is_some() { refused } else { Some(reason()) },
        }
    };
    WAYS.map(of).into()
}
