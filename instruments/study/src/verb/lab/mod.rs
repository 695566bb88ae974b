//! Where the cells of a study are measured. A study knows nothing of its lab but this.

mod host;
mod qemu;

pub use qemu::CPUS as GUEST_CPUS;

use super::cell::{Measured, Order};
use super::settings::Settings;
use quaver_analysis::summary::ProbeCost;
use quaver_chase::args::LabKind;
use quaver_instrument::interrupt::Interrupt;
use quaver_study_analysis::StampTable;

/// Which machine boots where an arm wants other boot options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boots {
    /// This host: the study plans the reboot, ends, and goes on when it is run again.
    Host,
    /// A machine that the lab starts itself, with [`Settings::boot`] on its command line. Cells of one boot come one after
    /// the other, so that it need be started once for them.
    Own,
}

/// A lab.
pub(crate) trait Lab {
    /// Where the stream travels, to follow "made here".
    fn words(&self) -> String;

    /// CPUs that source and sink may be given, as the machine that measures numbers them.
    fn cpus(&self) -> anyhow::Result<Vec<u16>>;

    /// Who boots for boot options.
    fn boots(&self) -> Boots;

    /// Why an arm cannot be measured here, with what to do about it; none: it can.
    fn refuses(&self, settings: &Settings) -> Option<String>;

    /// What the reader has to know of every figure from here (that absolute ones mean nothing, for example).
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Measures a cell; none where the user ended it.
    fn measure(&mut self, order: &Order<'_>, interrupt: &Interrupt) -> anyhow::Result<Option<Measured>>;

    /// What tracing costs a packet; none where that is not measured here.
    fn cost(&mut self, _order: &Order<'_>, _interrupt: &Interrupt) -> anyhow::Result<Option<ProbeCost>> {
        Ok(None)
    }

    /// The paper's dummy program on the sink's CPU; none where that is not measured here.
    fn dummy(
        &mut self,
        _order: &Order<'_>,
        _turns: u64,
        _interrupt: &Interrupt,
    ) -> anyhow::Result<Option<StampTable>> {
        Ok(None)
    }
}

/// The lab of this name.
///
/// # Errors
/// Where it cannot be had here, with what is missing.
pub(crate) fn open(kind: LabKind) -> anyhow::Result<Box<dyn Lab>> {
    match kind {
        LabKind::Qemu => Ok(Box::new(qemu::QemuLab::open()?)),
        LabKind::Netns | LabKind::Loopback => Ok(Box::new(host::HostLab::new(kind))),
    }
}
