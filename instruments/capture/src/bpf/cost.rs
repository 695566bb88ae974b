//! Programs between the kernel's checkpoints of a comparison: what a stamp by BPF takes.

use super::counter_is_shown;
use libbpf_rs::{Link, Object, ObjectBuilder};
use quaver_host::bpf::load::{Aligned, failed, one_at_a_time};
use quaver_host::trace::TraceError;

static COST_OBJECT: &Aligned<[u8]> =
    &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/capture_cost.bpf.o")));
/// The program that needs the counter.
const CYCLES: &str = "bpf_cycles";

/// The programs in the kernel, at most one of them attached.
pub(crate) struct CostPrograms {
    attached: Option<Link>,
    object: Object,
}

impl std::fmt::Debug for CostPrograms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CostPrograms").field("attached", &self.attached.is_some()).finish_non_exhaustive()
    }
}

impl CostPrograms {
    /// Loads them; that which reads the counter only where the kernel shows that it lets programs do so.
    pub(crate) fn load() -> Result<Self, TraceError> {
        one_at_a_time(|| {
            let mut open = ObjectBuilder::default()
                .open_memory(&COST_OBJECT.0)
                .map_err(|error| failed("opening the BPF programs that stamp", &error))?;
            for mut program in open.progs_mut().filter(|program| program.name() == CYCLES) {
                program.set_autoload(counter_is_shown());
            }
            let object =
                open.load().map_err(|error| failed("loading the BPF programs that stamp", &error))?;
            Ok(Self { attached: None, object })
        })
    }

    /// Whether there is one that reads the counter.
    pub(crate) fn read_cycles(&self) -> bool {
        counter_is_shown()
    }

    /// Attaches the program of that name in place of the one before; none for nothing.
    pub(crate) fn attach(&mut self, name: Option<&str>) -> Result<(), TraceError> {
        self.attached = None;
        let Some(name) = name else { return Ok(()) };
        let program = self.object.progs_mut().find(|program| program.name() == name);
        let link = program.map(|program| program.attach()).transpose();
        self.attached = link.map_err(|error| failed("attaching a BPF program that stamps", &error))?;
        Ok(())
    }
}
