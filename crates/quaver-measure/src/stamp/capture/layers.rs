//! The layers below the packet socket: which there are here, and why the others are not; and their stamps of a packet.

use super::frame::{Frame, LinkKind, PacketKind, RingStamp};
use super::hardware::{HardwareStamping, PutBack};
use super::join::{Below, JoinTable};
use super::nic_clock::NicClocks;
use super::offset::MonotonicOffset;
use super::socket::TapInterface;
use crate::clock::realtime_ns;
use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use std::time::{Duration, Instant};

#[cfg(feature = "bpf")]
mod programs;
#[cfg(not(feature = "bpf"))]
#[path = "layers/without.rs"]
mod programs;

use programs::Programs;

/// Whether the interface's own stamps are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HardwareWish {
    /// No.
    #[default]
    Off,
    /// If they are switched on already.
    AsItIs,
    /// Yes, switched on while the capture runs.
    On,
}

/// Whether and where the XDP program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpWish {
    /// Not at all.
    #[default]
    Off,
    /// As `Native`, but not on a device, whose link may go down for a moment when a program is attached.
    Harmless,
    /// In the driver, before the kernel has made a packet buffer.
    Native,
    /// In the stack: on any interface, but after the kernel's own stamp, and slow.
    Generic,
}

/// Which layers are wanted beside the kernel's stamp and the application's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerWish {
    /// The interface's own stamp.
    pub hardware: HardwareWish,
    /// The XDP program; its stamp travels with the TC program's, so it needs `tc`.
    pub xdp: XdpWish,
    /// The TC program at the ingress hook.
    pub tc: bool,
}

/// A layer on an interface: there, with what it is; or not, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerState {
    /// The layer.
    pub layer: Layer,
    /// The interface.
    pub interface: String,
    /// How it stamps, or why it does not.
    pub state: Result<String, String>,
}

/// Longest wait for the TC program to come to a packet that the socket has seen already; it runs right after.
const TC_WAIT: Duration = Duration::from_micros(500);
/// Age of a packet beyond which its record cannot be on the way any more.
const ON_THE_WAY_NS: i64 = 2_000_000;
/// The kernel's stamp is its clock's reading, cut to whole nanoseconds.
const KERNEL_BOUND_NS: u32 = 1;

/// The layers below, switched on. Dropping it puts everything back.
#[derive(Debug)]
pub struct Layers {
    states: Vec<LayerState>,
    hardware: Vec<HardwareStamping>,
    clocks: NicClocks,
    programs: Option<Programs>,
    table: JoinTable,
    offset: MonotonicOffset,
    /// Packets that ought to have a record of TC and have none.
    unmatched: u64,
    /// Whether the wait of this block is used up.
    waited: bool,
}

impl Layers {
    /// Switches on what is wanted on these interfaces of the calling thread's namespace, as far as it can be had. Do this
    /// before the taps are opened, so that their first packet has all its stamps.
    pub fn switch_on(interfaces: &[TapInterface], wish: LayerWish) -> Self {
        let mut states = Vec::new();
        let (mut hardware, mut clocks) = (Vec::new(), NicClocks::new());
        let wanted = wish.hardware != HardwareWish::Off;
        for interface in interfaces.iter().filter(|interface| wanted && interface.index != 0) {
            let may_set = wish.hardware == HardwareWish::On;
            let state = HardwareStamping::switch_on(&interface.name, may_set).map(|stamping| {
                hardware.push(stamping);
                clocks.add(interface)
            });
            states.push(LayerState { layer: Layer::Nic, interface: interface.name.clone(), state });
        }
        let programs = wish.tc.then(|| Programs::attach(interfaces, wish.xdp, &mut states)).flatten();
        Self {
            states,
            hardware,
            clocks,
            programs,
            table: JoinTable::new(),
            offset: MonotonicOffset::read(),
            unmatched: 0,
            waited: false,
        }
    }

    /// What puts interfaces' settings back at once, without waiting for whoever holds these layers.
    pub fn put_back(&self) -> PutBack {
        PutBack::of(&self.hardware)
    }

    /// Every layer that was asked for.
    pub fn states(&self) -> &[LayerState] {
        &self.states
    }

    /// Whether hardware stamps have to be asked for at the packet socket, in place of the kernel's: the interface takes
    /// them, and no TC program brings both.
    pub fn hardware_at_socket(&self) -> bool {
        !self.hardware.is_empty() && self.programs.is_none()
    }

    /// Packets for which the programs had no room; those are captured, but lack these stamps.
    pub fn lost(&self) -> u64 {
        self.programs.as_ref().map_or(0, Programs::lost)
    }

    /// Packets that came in through an interface with the TC program, and had no record of it.
    pub fn unmatched(&self) -> u64 {
        self.unmatched
    }

    /// Takes what the programs have written: before each block of packets.
    pub fn refresh(&mut self) {
        self.waited = false;
        self.clocks.refresh(Instant::now());
        if let Some(programs) = &mut self.programs {
            self.offset.narrow();
            programs.drain(|record| self.table.put(record));
        }
    }

    /// The stamps of a packet up to the packet socket.
    pub fn stamps(&mut self, frame: &Frame<'_>, link: LinkKind) -> PacketStamps {
        let mut stamps = PacketStamps::default();
        stamps.set(ring_layer(frame), self.ring_stamp(frame));
        if frame.stamped_by != RingStamp::Kernel || frame.kind == PacketKind::Outgoing {
            return stamps;
        }
        let Some(below) = self.below(frame, link) else { return stamps };
        if below.hardware_ns != 0 {
            stamps.set(Layer::Nic, self.clocks.stamp(frame.interface, below.hardware_ns as i64));
        }
        for (layer, monotonic_ns) in [(Layer::Xdp, below.xdp_ns), (Layer::Tc, below.tc_ns)] {
            if monotonic_ns != 0 {
                let (time_ns, bound_ns) = self.offset.realtime(monotonic_ns);
                stamps.set(layer, LayerStamp { clock: StampClock::Monotonic, time_ns, bound_ns });
            }
        }
        stamps
    }

    fn ring_stamp(&self, frame: &Frame<'_>) -> LayerStamp {
        let bound_ns = match frame.stamped_by {
            RingStamp::Hardware => return self.clocks.stamp(frame.interface, frame.time_ns),
            RingStamp::Kernel => KERNEL_BOUND_NS,
            RingStamp::Late => u32::MAX,
        };
        LayerStamp { clock: StampClock::Realtime, time_ns: frame.time_ns, bound_ns }
    }

    fn below(&mut self, frame: &Frame<'_>, link: LinkKind) -> Option<Below> {
        let programs = self.programs.as_mut().filter(|programs| programs.covers(frame.interface))?;
        let key = frame.time_ns as u64;
        // A cooked packet has lost its link header, and with it what the TC program counted.
        let length = (link != LinkKind::Cooked).then_some(frame.kernel_length);
        if let Some(below) = self.table.take(key, frame.interface, length) {
            return Some(below);
        }
        programs.drain(|record| self.table.put(record));
        let give_up = Instant::now() + TC_WAIT;
        loop {
            if let Some(below) = self.table.take(key, frame.interface, length) {
                return Some(below);
            }
            let young = realtime_ns().saturating_sub(frame.time_ns) < ON_THE_WAY_NS;
            if !young || self.waited || Instant::now() > give_up {
                self.waited |= young;
                self.unmatched += 1;
                return None;
            }
            std::hint::spin_loop();
            programs.drain(|record| self.table.put(record));
        }
    }
}

/// The layer whose stamp stands in the ring.
pub fn ring_layer(frame: &Frame<'_>) -> Layer {
    match frame.stamped_by {
        RingStamp::Hardware => Layer::Nic,
        RingStamp::Kernel | RingStamp::Late => Layer::Kernel,
    }
}
