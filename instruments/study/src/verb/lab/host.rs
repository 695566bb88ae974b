//! The labs on this host: two network namespaces with a veth pair, or loopback.

use super::super::cell::{self, Measured, Order};
use super::super::settings::Settings;
use super::{Boots, Lab};
use anyhow::Context;
use quaver_analysis::summary::ProbeCost;
use quaver_chase::args::LabKind;
use quaver_clock::{Counter, CounterSupport};
use quaver_host::netns;
use quaver_instrument::host_state::allowed_cpus;
use quaver_instrument::interrupt::Interrupt;
use quaver_study_analysis::StampTable;
use std::path::Path;

/// This host.
pub(super) struct HostLab {
    kind: LabKind,
    counter: Counter,
}

impl HostLab {
    pub(super) fn new(kind: LabKind) -> Self {
        Self { kind, counter: CounterSupport::detect(Path::new("/")).counter }
    }
}

impl Lab for HostLab {
    fn words(&self) -> String {
        match self.kind {
            LabKind::Netns => "between two network namespaces".to_owned(),
            _ => "over loopback".to_owned(),
        }
    }

    fn cpus(&self) -> anyhow::Result<Vec<u16>> {
        allowed_cpus().context("reading the CPUs that this process may use")
    }

    fn boots(&self) -> Boots {
        Boots::Host
    }

    fn refuses(&self, settings: &Settings) -> Option<String> {
        if let Some(key) = settings.wants_device() {
            return Some(format!(
                "{key} needs an interface with interrupts of its own, which a veth pair and loopback have not: use --lab qemu"
            ));
        }
        let key = settings.wants_namespaces().filter(|_| self.kind == LabKind::Loopback)?;
        Some(format!("{key} needs an interface of its own: use --lab netns, as root"))
    }

    fn measure(&mut self, order: &Order<'_>, interrupt: &Interrupt) -> anyhow::Result<Option<Measured>> {
        cell::measure(order, self.ends()?.as_ref(), self.counter, interrupt)
    }

    fn cost(&mut self, order: &Order<'_>, interrupt: &Interrupt) -> anyhow::Result<Option<ProbeCost>> {
        cell::cost(order, self.ends()?.as_ref(), self.counter, interrupt)
    }

    fn dummy(
        &mut self,
        order: &Order<'_>,
        turns: u64,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<StampTable>> {
        cell::dummy(order, turns, self.counter, interrupt)
    }
}

impl HostLab {
    /// Ends of their own for each stream: nothing of one cell is left for the next.
    fn ends(&self) -> anyhow::Result<Option<netns::Lab>> {
        match self.kind {
            LabKind::Netns => Ok(Some(netns::Lab::create().map_err(cell::lab_failure)?)),
            _ => Ok(None),
        }
    }
}
