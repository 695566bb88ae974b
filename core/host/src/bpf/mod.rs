//! Kernel tracing through BPF: the richest and cheapest tier.
//!
//! Programs on the kernel's tracepoints and one socket filter stamp each packet of the followed flow in one
//! record, and write one record for each interval of anything else that the CPUs do. All memory is arrays
//! shared by mapping: no lock, no wake-up, no system call to read. The C code (GPL-2.0) is in `c/`.
//!
//! Needs the feature `bpf`, a kernel with BTF from 5.18 on (6.3 for all layers), and `CAP_BPF` with
//! `CAP_PERFMON`.

mod btf;
#[cfg(feature = "bpf")]
mod layout;
#[cfg(feature = "bpf")]
pub mod load;
#[cfg(feature = "bpf")]
pub mod memory;
#[cfg(feature = "bpf")]
mod open_intervals;
#[cfg_attr(
    not(feature = "bpf"),
    allow(dead_code, reason = "without the feature only the names of functions are of use")
)]
pub mod programs;
#[cfg(feature = "bpf")]
pub mod sampling;
#[cfg(feature = "bpf")]
mod steal;
#[cfg(all(test, feature = "bpf"))]
mod tests;
#[cfg(feature = "bpf")]
mod tracer;

pub use btf::{KERNEL_BTF, KernelTypes};

use crate::trace::{TraceError, TraceSpec, Tracer};

/// Starts recording what `spec` asks for.
///
/// # Errors
/// [`TraceError::NotSupported`] without the feature `bpf` or without kernel BTF, [`TraceError::NotPermitted`]
/// without the capabilities, [`TraceError::Os`] for anything else, a flow without 1 to 8 ports included.
pub fn start(spec: &TraceSpec) -> Result<Box<dyn Tracer>, TraceError> {
    let mut tracer = prepare(spec)?;
    tracer.set_recording(true)?;
    Ok(tracer)
}

/// Loads the programs for what `spec` asks for. They are attached, and so cost anything, only when recording begins
/// ([`Tracer::set_recording`]).
///
/// # Errors
/// Those of [`start`].
#[cfg(feature = "bpf")]
pub fn prepare(spec: &TraceSpec) -> Result<Box<dyn Tracer>, TraceError> {
    let types = kernel_types()?;
    Ok(Box::new(tracer::BpfTracer::prepare(spec, types)?))
}

/// Loads the programs for what `spec` asks for.
///
/// # Errors
/// Always [`TraceError::NotSupported`]: this build has no BPF.
#[cfg(not(feature = "bpf"))]
pub fn prepare(_spec: &TraceSpec) -> Result<Box<dyn Tracer>, TraceError> {
    Err(TraceError::NotSupported { operation: "tracing by BPF".to_owned(), remedy: BUILD_REMEDY.to_owned() })
}

/// What to do about a build without BPF.
pub const BUILD_REMEDY: &str =
    "build with the feature `bpf` (needs clang, libelf-dev, zlib1g-dev, pkg-config and make)";
/// What to do about a kernel without BTF.
const TYPES_REMEDY: &str =
    "use a kernel built with CONFIG_DEBUG_INFO_BTF=y (the kernels of all large distributions are)";
/// What to do about a refusal for want of privilege.
pub const PRIVILEGE_REMEDY: &str =
    "run as root, or give the program the capabilities: setcap cap_bpf,cap_perfmon+ep PATH";

/// Names of this kernel's `skb_drop_reason` numbers, without the common prefix; empty without kernel BTF.
pub fn drop_reason_names() -> std::collections::BTreeMap<u32, String> {
    kernel_types().map(|types| types.drop_reasons).unwrap_or_default()
}

/// Whether the kernel lets programs read the cycle counter (`bpf_get_cpu_time_counter`): those of a capture then stamp by
/// it. None where the kernel does not describe its functions.
pub fn reads_cycle_counter() -> Option<bool> {
    kernel_types().ok().map(|types| types.functions.contains(programs::COUNTER))
}

/// What the kernel says of itself.
pub fn kernel_types() -> Result<KernelTypes, TraceError> {
    let unsupported = |why: String| TraceError::NotSupported {
        operation: format!("reading {KERNEL_BTF} ({why})"),
        remedy: TYPES_REMEDY.to_owned(),
    };
    let octets = std::fs::read(KERNEL_BTF).map_err(|error| unsupported(error.to_string()))?;
    btf::read(&octets, &[programs::CAST, programs::READ_ONLY, programs::COUNTER])
        .ok_or_else(|| unsupported("not understood".to_owned()))
}
