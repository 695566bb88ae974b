//! Kernel events through tracefs: the tier below BPF.
//!
//! A private instance records tracepoints into per-CPU rings; their binary pages are read without blocking,
//! decoded ([`page`]), understood by the kernel's own formats ([`mod@format`], [`events`]) and paired into intervals
//! ([`assemble`]; what has no other half is accounted for in [`unpaired`]). Packets cannot be followed here: no tracepoint shows a payload or a port, so a packet layer could
//! only be joined by order, which is wrong as soon as another stream or a loss comes in between. That tier needs BPF.

pub mod assemble;
pub mod events;
pub mod format;
pub mod instance;
pub mod page;
pub mod rings;
pub mod root;
pub mod survey;
pub mod timeline;
pub mod tracer;
pub mod unpaired;

pub use instance::{remove_stale_instances, stale_instances};
pub use root::{Dir, Reached, open_tracefs};
pub use survey::{Survey, probe};
pub use tracer::TracefsTracer;
pub use unpaired::Unpaired;
