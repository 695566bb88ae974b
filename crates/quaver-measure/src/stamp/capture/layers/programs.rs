//! The BPF programs on the interfaces of a capture.

use super::super::join::Below;
use super::super::socket::TapInterface;
use super::{LayerState, XdpWish};
use crate::bpf::capture::{Attached, CapturePrograms, Records, XdpMode};
use quaver_abi::stamp::Layer;
use std::io;

/// Programs that are attached until this is dropped, or the process ends in whatever way.
pub(super) struct Programs {
    records: Records,
    /// Indices of the interfaces with the TC program.
    covered: Vec<u32>,
    _attached: Vec<Attached>,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Programs").field("covered", &self.covered).finish_non_exhaustive()
    }
}

impl Programs {
    /// Attaches as much as can be had. None where no interface has the TC program.
    pub(super) fn attach(
        interfaces: &[TapInterface],
        xdp: XdpWish,
        states: &mut Vec<LayerState>,
    ) -> Option<Self> {
        let mut say = |layer, interface: &TapInterface, state| {
            states.push(LayerState { layer, interface: interface.name.clone(), state });
        };
        let with_xdp = xdp != XdpWish::Off;
        let loaded = CapturePrograms::load(with_xdp).or_else(|_| CapturePrograms::load(false));
        let programs = match loaded.and_then(|programs| {
            let mapped = programs.records();
            mapped.map(|records| (programs, records)).map_err(|source| crate::host::trace::TraceError::Os {
                operation: "map the records of BPF".to_owned(),
                source,
            })
        }) {
            Ok(programs) => programs,
            Err(error) => {
                for interface in interfaces {
                    if with_xdp {
                        say(Layer::Xdp, interface, Err(error.to_string()));
                    }
                    say(Layer::Tc, interface, Err(error.to_string()));
                }
                return None;
            }
        };
        let (programs, records) = programs;
        let (mut attached, mut covered) = (Vec::new(), Vec::new());
        for interface in interfaces {
            let tc = attach_tc(&programs, interface);
            if let (Some(wished), true) = (mode(xdp), tc.is_ok()) {
                let outcome = if xdp == XdpWish::Harmless && interface.device {
                    Err(format!(
                        "ask for it with --layers xdp, as some drivers interrupt the link of {} when a program comes",
                        interface.name
                    ))
                } else {
                    attach_xdp(&programs, interface, wished)
                };
                say(
                    Layer::Xdp,
                    interface,
                    outcome.map(|(link, how)| {
                        attached.push(link);
                        how
                    }),
                );
            }
            say(
                Layer::Tc,
                interface,
                tc.map(|link| {
                    attached.push(link);
                    covered.push(interface.index);
                    "BPF at the ingress hook (tcx)".to_owned()
                }),
            );
        }
        (!covered.is_empty()).then_some(Self { records, covered, _attached: attached })
    }

    /// Whether packets of the interface with this index pass the TC program.
    pub(super) fn covers(&self, interface: u32) -> bool {
        self.covered.contains(&interface)
    }

    /// Hands over each record that there is.
    pub(super) fn drain(&mut self, mut put: impl FnMut(Below)) {
        self.records.drain(|record| {
            put(Below {
                kernel_ns: record.kernel_ns,
                hardware_ns: record.hardware_ns,
                xdp_ns: record.xdp_ns,
                tc_ns: record.tc_ns,
                length: record.length,
                interface: record.interface,
            });
        });
    }

    pub(super) fn lost(&self) -> u64 {
        self.records.lost()
    }
}

fn mode(wish: XdpWish) -> Option<XdpMode> {
    match wish {
        XdpWish::Off => None,
        XdpWish::Native | XdpWish::Harmless => Some(XdpMode::Native),
        XdpWish::Generic => Some(XdpMode::Generic),
    }
}

fn attach_tc(programs: &CapturePrograms, interface: &TapInterface) -> Result<Attached, String> {
    if interface.index == 0 {
        return Err("programs hang on one interface: name it in place of `any`".to_owned());
    }
    programs.attach_tc(interface.index).map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) => {
            format!("the kernel has no ingress hook that goes with its process ({e}): use Linux 6.6 or newer")
        }
        _ => refused(&e),
    })
}

fn attach_xdp(
    programs: &CapturePrograms,
    interface: &TapInterface,
    mode: XdpMode,
) -> Result<(Attached, String), String> {
    let link = programs.attach_xdp(interface.index, mode).map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            "another XDP program sits on the interface, and is left alone (ip link shows it)".to_owned()
        }
        Some(libc::EOPNOTSUPP | libc::EINVAL) if mode == XdpMode::Native => format!(
            "the driver of {} runs no XDP programs, or not as it is set now ({e}); --layers xdp-generic would stamp after \
             the kernel does",
            interface.name
        ),
        _ => refused(&e),
    })?;
    let how = match mode {
        XdpMode::Native => {
            "BPF in the driver (native XDP); packets with different stamps are not merged by GRO".to_owned()
        }
        XdpMode::Generic => "BPF in the stack (generic XDP), after the kernel's stamp".to_owned(),
    };
    Ok((link, how))
}

fn refused(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("not permitted; {}", super::super::error::CAPTURE_SETCAP)
        }
        _ => error.to_string(),
    }
}
