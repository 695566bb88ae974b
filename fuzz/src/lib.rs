//! The checks that fuzzers run, which are those of the ordinary tests.

#[path = "../../crates/quaver-abi/tests/wire_checks/mod.rs"]
pub mod checks;

#[path = "../../crates/quaver-store/tests/pcapng_checks/mod.rs"]
pub mod captures;

#[path = "../../crates/quaver-store/tests/sync_checks/mod.rs"]
pub mod recordings;

#[path = "../../crates/quaver-trace/tests/trace_checks/mod.rs"]
pub mod traces;

#[path = "../../crates/quaver-trace/tests/epoch_checks/mod.rs"]
pub mod epochs;

#[path = "../../crates/quaver-trace/tests/import_checks/mod.rs"]
pub mod imports;

#[path = "../../crates/quaver-sim/tests/coherence_checks/mod.rs"]
pub mod coherence;

pub mod splitmix;
