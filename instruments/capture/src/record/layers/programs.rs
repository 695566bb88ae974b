//! The BPF programs on the interfaces of a capture.

use super::super::error::CaptureError;
use super::super::join::Below;
use super::super::socket::TapInterface;
use super::{LayerState, LayerWish, TcWish, XdpWish};
pub(super) use crate::bpf::Remover;
use crate::bpf::{Attached, CapturePrograms, Records, TC_IN_CYCLES, XDP_IN_CYCLES, XdpMode};
use quaver_abi::stamp::Layer;
use quaver_host::trace::TraceError;
use std::io;

/// What the programs write.
pub(crate) struct Written {
    records: Records,
    /// Indices of the interfaces with the TC program.
    covered: Vec<u32>,
}

impl std::fmt::Debug for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Written").field("covered", &self.covered).finish_non_exhaustive()
    }
}

impl Written {
    /// Whether packets of the interface with this index pass the TC program.
    pub(crate) fn covers(&self, interface: u32) -> bool {
        self.covered.contains(&interface)
    }

    /// Hands over records, at most so many; how many they were.
    pub(crate) fn drain(&mut self, most: usize, mut put: impl FnMut(Below)) -> usize {
        self.records.drain(most, |record| {
            put(Below {
                kernel_ns: record.kernel_ns,
                hardware_ns: record.hardware_ns,
                xdp: record.xdp,
                xdp_in_cycles: record.flags & XDP_IN_CYCLES != 0,
                tc: record.tc,
                tc_in_cycles: record.flags & TC_IN_CYCLES != 0,
                length: record.length,
                interface: record.interface,
            });
        })
    }

    /// Whether half of the room for records or more is taken.
    pub(crate) fn is_half_full(&self) -> bool {
        self.records.is_half_full()
    }

    /// Records for which there was no room.
    pub(crate) fn lost(&self) -> u64 {
        self.records.lost()
    }
}

/// Programs that are attached until this is dropped, or the process ends in whatever way.
#[derive(Debug)]
pub(super) struct Programs {
    attached: Vec<Attached>,
    /// Indices of interfaces whose drivers tell the XDP program of packets.
    pub(super) told_by_driver: Vec<u32>,
}

impl Programs {
    /// Attaches as much as can be had. None where no interface has the TC program.
    ///
    /// # Errors
    /// There is no memory for the records: that is no lack of the machine, and whoever asked can give more.
    pub(super) fn attach(
        interfaces: &[TapInterface],
        wish: LayerWish,
        states: &mut Vec<LayerState>,
    ) -> Result<Option<(Self, Written)>, CaptureError> {
        let mut say = |layer, interface: &TapInterface, state| {
            states.push(LayerState { layer, interface: interface.name.clone(), state });
        };
        let LayerWish { xdp, tc, rings_bytes, cycles, .. } = wish;
        let with_xdp = xdp != XdpWish::Off;
        let loaded = CapturePrograms::load(with_xdp, rings_bytes, cycles)
            .or_else(|_| CapturePrograms::load(false, rings_bytes, cycles));
        let programs = match loaded.and_then(|programs| {
            let mapped = programs.records();
            mapped
                .map(|records| (programs, records))
                .map_err(|source| TraceError::Os { operation: "map the records of BPF".to_owned(), source })
        }) {
            Ok(programs) => programs,
            Err(TraceError::Os { operation, source }) if source.kind() == io::ErrorKind::OutOfMemory => {
                return Err(CaptureError::Os { operation, source });
            }
            Err(error) => {
                for interface in interfaces {
                    if with_xdp {
                        say(Layer::Xdp, interface, Err(error.to_string()));
                    }
                    say(Layer::Tc, interface, Err(error.to_string()));
                }
                return Ok(None);
            }
        };
        let (programs, records) = programs;
        let (mut attached, mut covered, mut told_by_driver) = (Vec::new(), Vec::new(), Vec::new());
        for interface in interfaces {
            let tc = attach_tc(&programs, interface, tc);
            if let (Some(wished), true) = (mode(xdp), tc.is_ok()) {
                let outcome = if xdp == XdpWish::Harmless && interface.device {
                    Err(format!(
                        "ask for it with --layers xdp, as some drivers interrupt the link of {} when a program comes",
                        interface.name
                    ))
                } else {
                    attach_xdp(&programs, interface, wished, cycles)
                };
                say(
                    Layer::Xdp,
                    interface,
                    outcome.map(|(link, how, told)| {
                        attached.push(link);
                        told_by_driver.extend(told.then_some(interface.index));
                        how
                    }),
                );
            }
            say(
                Layer::Tc,
                interface,
                tc.map(|(link, how)| {
                    attached.push(link);
                    covered.push(interface.index);
                    how
                }),
            );
        }
        let written = Written { records, covered };
        Ok((!written.covered.is_empty()).then_some((Self { attached, told_by_driver }, written)))
    }

    /// What takes filters from the interfaces at once.
    pub(super) fn removers(&self) -> Vec<Remover> {
        let remover = |attached: &Attached| match attached {
            Attached::Link { .. } => None,
            Attached::Filter(filter) => Some(filter.remover()),
        };
        self.attached.iter().filter_map(remover).collect()
    }
}

fn mode(wish: XdpWish) -> Option<XdpMode> {
    match wish {
        XdpWish::Off => None,
        XdpWish::Native | XdpWish::Harmless => Some(XdpMode::Native),
        XdpWish::Generic => Some(XdpMode::Generic),
    }
}

/// By a link where the kernel has one and it is not to be a filter.
fn attach_tc(
    programs: &CapturePrograms,
    interface: &TapInterface,
    wish: TcWish,
) -> Result<(Attached, String), String> {
    if interface.index == 0 {
        return Err("programs hang on one interface: name it in place of `any`".to_owned());
    }
    let linked = match wish {
        TcWish::Filter => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        _ => programs.attach_tc(interface.index),
    };
    match linked.map_err(|e| (e.raw_os_error(), e)) {
        Ok(link) => Ok((link, "BPF at the ingress hook (tcx)".to_owned())),
        Err((Some(libc::EINVAL | libc::EOPNOTSUPP), e)) if wish == TcWish::Linked => Err(format!(
            "the kernel has no ingress hook that goes with its process ({e}): use Linux 6.6 or newer, or leave out --user"
        )),
        Err((Some(libc::EINVAL | libc::EOPNOTSUPP), _)) => filter(programs, interface),
        Err((_, e)) => Err(refused(&e)),
    }
}

fn filter(programs: &CapturePrograms, interface: &TapInterface) -> Result<(Attached, String), String> {
    let how = || {
        "BPF at the ingress hook (a filter at clsact; should this be killed, the next capture here removes it)"
            .to_owned()
    };
    programs.attach_clsact(interface.index).map(|filter| (filter, how())).map_err(|e| match e.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOENT) => {
            format!("the kernel has no ingress hook for programs ({e}): it lacks CONFIG_NET_CLS_ACT or CONFIG_NET_CLS_BPF")
        }
        _ => refused(&e),
    })
}

fn attach_xdp(
    programs: &CapturePrograms,
    interface: &TapInterface,
    mode: XdpMode,
    cycles: bool,
) -> Result<(Attached, String, bool), String> {
    // Else the program that knows no device: older kernels, and drivers that tell programs nothing.
    if mode == XdpMode::Native
        && let Ok(link) = CapturePrograms::attach_device_xdp(interface.index, cycles)
    {
        let how = "BPF in the driver (native XDP), with what the driver tells of the packet; packets with different stamps \
                   are not merged by GRO";
        return Ok((link, how.to_owned(), true));
    }
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
    Ok((link, how, false))
}

fn refused(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("not permitted; {}", super::super::error::CAPTURE_SETCAP)
        }
        _ => error.to_string(),
    }
}
