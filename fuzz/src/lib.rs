//! The checks that fuzzers run, which are those of the ordinary tests.

#[path = "../../core/abi/tests/wire_checks/mod.rs"]
pub mod checks;

#[path = "../../instruments/capture/pcapng/tests/pcapng_checks/mod.rs"]
pub mod captures;

#[path = "../../instruments/sync/store/tests/sync_checks/mod.rs"]
pub mod recordings;

#[path = "../../simulator/trace/tests/trace_checks/mod.rs"]
pub mod traces;

#[path = "../../simulator/trace/tests/epoch_checks/mod.rs"]
pub mod epochs;

#[path = "../../simulator/trace/tests/import_checks/mod.rs"]
pub mod imports;

#[path = "../../simulator/sim/tests/coherence_checks/mod.rs"]
pub mod coherence;

#[cfg(feature = "program")]
#[path = "../../quaver/tests/input_checks/mod.rs"]
pub mod inputs;

pub mod splitmix;
pub mod twin;
