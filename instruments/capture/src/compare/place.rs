//! Where the packets come in: at an end of a lab of our own, or at an interface of this host.

use super::cores::Cpus;
use super::far::Far;
use crate::record::TapInterface;
use quaver_host::netns::{Lab, LabError};
use quaver_host::root::HostRoot;
use quaver_host::settings::JournalPlace;
use quaver_host::settings::steer::{Steered, steer};
use quaver_instrument::exit_code::{ExitCode, failure};
use std::sync::Mutex;

/// The receiver's end.
pub(super) enum ReceiverSite {
    /// Of two namespaces that were made for this.
    Lab(Box<Lab>),
    /// Here; the source is at another host.
    Far(Box<FarPlace>),
}

/// This host, for a stream from another one.
pub(super) struct FarPlace {
    pub(super) far: Far,
    /// That the stream comes in by; none where the kernel does not tell.
    interface: Option<String>,
    /// What was set for it, until it is put back.
    steered: Mutex<Option<Steered>>,
}

impl ReceiverSite {
    /// Two namespaces.
    pub(super) fn lab() -> anyhow::Result<Self> {
        let lab = Lab::create().map_err(|error| match error {
            LabError::NotPermitted { .. } => failure(
                ExitCode::Unsupported,
                "a comparison makes two network namespaces: run as root, or take the stream from another host \
                 (--from)",
            ),
            other => failure(ExitCode::Unsupported, other.to_string()),
        })?;
        Ok(Self::Lab(Box::new(lab)))
    }

    /// This host, towards `far`.
    pub(super) fn far(far: Far) -> Self {
        let interface = far.interface().and_then(name_of);
        Self::Far(Box::new(FarPlace { far, interface, steered: Mutex::new(None) }))
    }

    /// Name of the interface that packets arrive at.
    pub(super) fn interface(&self) -> Option<&str> {
        match self {
            Self::Lab(lab) => Some(&lab.sink.interface),
            Self::Far(far) => far.interface.as_deref(),
        }
    }

    /// Runs `body` where packets arrive.
    pub(super) fn within<T: Send>(&self, body: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        match self {
            Self::Lab(lab) => Ok(lab.sink.within(body)?),
            Self::Far(_) => Ok(body()),
        }
    }

    /// Lets the kernel process packets on the receiver's CPU, or where it does else. A sentence where it cannot.
    pub(super) fn share_cpu(&self, share: bool, cpus: &Cpus) -> anyhow::Result<Result<(), String>> {
        match self {
            Self::Lab(lab) => {
                // Without, packets are processed on the CPU that sent them.
                let cpu = if share { Some(cpus.capture) } else { cpus.moved() };
                lab.sink.steer_receive(cpu.as_slice())?;
                Ok(Ok(()))
            }
            Self::Far(place) => Ok(place.share_cpu(share, cpus)),
        }
    }
}

impl FarPlace {
    fn share_cpu(&self, share: bool, cpus: &Cpus) -> Result<(), String> {
        let mut held = self.steered.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(steered) = held.take() {
            let why = |error| format!("Packet steering was not restored: {error}; see quaver tune status.");
            steered.put_back().map_err(why)?;
        }
        let (Some(softirq), Some(interface)) = (cpus.softirq, self.interface.as_deref()) else {
            return if share { Err(NOT_TOGETHER.to_owned()) } else { Ok(()) };
        };
        let index = HostRoot::system().value::<u32>(&format!("/sys/class/net/{interface}/ifindex"));
        if index.is_none() || index != TapInterface::find(interface).ok().map(|found| found.index) {
            return Err(format!(
                "Packet steering of {interface} was not set: /sys does not show this network namespace; enter it \
                 with ip netns exec."
            ));
        }
        let cpu = if share { cpus.capture } else { softirq };
        let why = |error| format!("Packets of {interface} were not moved to CPU {cpu}: {error}.");
        *held = Some(steer(&JournalPlace::system(), "capture", &[interface], cpu).map_err(why)?);
        Ok(())
    }
}

const NOT_TOGETHER: &str =
    "Softirq and receiver on one CPU: not measured; --cores softirq=N enables packet steering.";

/// Name of the interface with that number in this network namespace.
fn name_of(index: u32) -> Option<String> {
    // Below /sys are the interfaces of the namespace that it was mounted in.
    let lines = std::fs::read_to_string("/proc/thread-self/net/dev").ok()?;
    let names = lines.lines().filter_map(|line| Some(line.split_once(':')?.0.trim()));
    let mut found = names.filter(|name| TapInterface::find(name).is_ok_and(|found| found.index == index));
    found.next().map(str::to_owned)
}
