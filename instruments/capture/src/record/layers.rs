//! The layers below the packet socket: which there are here, and why the others are not; and their stamps of a packet.

use super::error::CaptureError;
use super::frame::{Frame, LinkKind, RingStamp};
use super::hardware::{self, SetSetting};
use super::join::Below;
use super::nic_clock::NicClocks;
use super::offset::MonotonicOffset;
use super::raw::{RawCounts, RawStamps};
use super::socket::TapInterface;
use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use quaver_host::ethtool;
use std::sync::Arc;
use std::time::Instant;

mod joiner;
#[cfg(feature = "bpf")]
mod programs;
#[cfg(not(feature = "bpf"))]
#[path = "layers/without.rs"]
mod programs;

pub use joiner::Joiner;
use joiner::Missing;
use programs::{Programs, Remover};

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

/// Whether and how the TC program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TcWish {
    /// Not at all.
    #[default]
    Off,
    /// By what goes with its process (tcx, Linux 6.6), else not.
    Linked,
    /// By what there is: tcx, else a filter, which is removed at the end and after `kill -9` by the next capture on the
    /// interface.
    On,
    /// By a filter.
    Filter,
}

/// Which layers are wanted beside the kernel's stamp and the application's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerWish {
    /// The interface's own stamp.
    pub hardware: HardwareWish,
    /// The XDP program; its stamp travels with the TC program's, so it needs `tc`.
    pub xdp: XdpWish,
    /// The TC program at the ingress hook.
    pub tc: TcWish,
    /// Bytes of the rings of packets, whose packets' records the programs shall have room for.
    pub rings_bytes: u64,
    /// Whether programs may stamp by the processor's counter, where the kernel lets them: whoever asks for it converts its
    /// readings ([`Layers::convert_cycles`]).
    pub cycles: bool,
}

impl LayerWish {
    /// Whether no layer is wanted.
    pub fn is_none(&self) -> bool {
        let Self { hardware, xdp, tc, .. } = *self;
        (hardware, xdp, tc) == (HardwareWish::Off, XdpWish::Off, TcWish::Off)
    }
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

/// The kernel's stamp is its clock's reading, cut to whole nanoseconds.
const KERNEL_BOUND_NS: u32 = 1;

/// What takes off at once what would outlive the process: for one that has to end.
#[derive(Clone, Debug)]
pub struct PutBack {
    removers: Vec<Remover>,
}

impl PutBack {
    /// Whether nothing would.
    pub fn is_empty(&self) -> bool {
        self.removers.is_empty()
    }

    /// Takes it off.
    pub fn now(&self) {
        self.removers.iter().for_each(Remover::now);
    }
}

/// The layers below, switched on. Dropping it puts everything back.
#[derive(Debug)]
pub struct Layers {
    states: Vec<LayerState>,
    /// Indices of interfaces that stamp themselves.
    hardware: Vec<u32>,
    /// Indices of others, whose drivers may hand such stamps to the XDP program.
    by_driver: Vec<u32>,
    clocks: NicClocks,
    programs: Option<Programs>,
    /// None where the capture thread has it.
    joiner: Option<Joiner>,
    missing: Arc<Missing>,
    offset: MonotonicOffset,
    cycles: Cycles,
    raw: Option<RawStamps>,
}

/// What was found of a packet before it was stamped by the capture thread ([`Layers::joiner`]).
#[derive(Debug, Default)]
pub struct Early(pub(super) Option<Below>);

/// Converts cycles that a program read.
struct Cycles(Option<Box<dyn Fn(u64) -> LayerStamp + Send>>);

impl std::fmt::Debug for Cycles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cycles").field(&self.0.is_some()).finish()
    }
}

impl Layers {
    /// Switches on what is wanted on these interfaces of the calling thread's namespace, as far as it can be had. Do this
    /// before the taps are opened, so that their first packet has all its stamps. Settings of interfaces are changed by
    /// `set`, whose they are. Programs get room for the records of all packets that `wish.rings_bytes` hold.
    ///
    /// # Errors
    /// There is no memory for these records.
    pub fn switch_on(
        interfaces: &[TapInterface],
        wish: LayerWish,
        set: &mut SetSetting<'_>,
    ) -> Result<Self, CaptureError> {
        let mut states = Vec::new();
        let (mut hardware, mut clocks) = (Vec::new(), NicClocks::new());
        let wanted = wish.hardware != HardwareWish::Off;
        for interface in interfaces.iter().filter(|interface| wanted && interface.index != 0) {
            let set = (wish.hardware == HardwareWish::On).then_some(&mut *set);
            let state = hardware::switch_on(&interface.name, set).map(|()| {
                hardware.push(interface.index);
                clocks.add(interface)
            });
            states.push(LayerState { layer: Layer::Nic, interface: interface.name.clone(), state });
        }
        let tc_wanted = wish.tc != TcWish::Off;
        let attached = match tc_wanted {
            true => Programs::attach(interfaces, wish, &mut states)?,
            false => None,
        };
        let (programs, written) = attached.unzip();
        let joiner = written.map(Joiner::new);
        let mut layers = Self {
            states,
            hardware,
            by_driver: Vec::new(),
            clocks,
            programs,
            missing: joiner.as_ref().map_or_else(Arc::default, Joiner::missing),
            joiner,
            offset: MonotonicOffset::read(),
            cycles: Cycles(None),
            raw: None,
        };
        layers.told_by_drivers(interfaces);
        Ok(layers)
    }

    /// Stamps of interfaces that come by the XDP program are told like those that the interface was asked for.
    fn told_by_drivers(&mut self, interfaces: &[TapInterface]) {
        let told = self.programs.iter().flat_map(|programs| programs.told_by_driver.clone());
        for interface in told.filter_map(|index| interfaces.iter().find(|of| of.index == index)) {
            let state =
                self.states.iter_mut().find(|of| of.layer == Layer::Nic && of.interface == interface.name);
            let Some(LayerState { state: Err(why), .. }) = state else { continue };
            if ethtool::stamping(&interface.name).is_some_and(|offer| offer.clock.is_some()) {
                let how = self.clocks.add(interface);
                self.by_driver.push(interface.index);
                why.push_str(&format!("; where its driver hands one to the XDP program: {how}"));
            }
        }
    }

    /// Converts cycles that programs read (`bpf_get_cpu_time_counter`); without it, such stamps are left out.
    pub fn convert_cycles(&mut self, convert: impl Fn(u64) -> LayerStamp + Send + 'static) {
        self.cycles = Cycles(Some(Box::new(convert)));
    }

    /// Takes raw cycles too, which were begun for the same interfaces.
    pub fn add_raw(&mut self, raw: RawStamps, interfaces: &[TapInterface]) {
        self.states.extend(interfaces.iter().map(|interface| LayerState {
            layer: Layer::Raw,
            interface: interface.name.clone(),
            state: Ok(raw.way()),
        }));
        self.raw = Some(raw);
    }

    /// What became of raw cycles; none where nobody asked for them.
    pub fn raw_counts(&self) -> Option<RawCounts> {
        self.raw.as_ref().map(RawStamps::counts)
    }

    /// What finds the records of packets, for a capture thread that takes each packet by itself: it stamps a packet
    /// after the programs have.
    pub fn joiner(&mut self) -> Option<Joiner> {
        self.joiner.take()
    }

    /// What takes programs off at once that would outlive the process, without waiting for whoever holds these layers.
    pub fn put_back(&self) -> PutBack {
        PutBack { removers: self.programs.as_ref().map_or_else(Vec::new, Programs::removers) }
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

    /// Whether stamps of this layer are CLOCK_REALTIME: those of interfaces are where all of them are compared with it.
    pub fn is_wall_clock(&self, layer: Layer) -> bool {
        let mut stamping = self.hardware.iter().chain(&self.by_driver);
        layer != Layer::Nic || stamping.all(|index| self.clocks.compares(*index))
    }

    /// Why no packet can have a stamp of this layer; none where one can.
    pub fn why_not(&self, layer: Layer) -> Option<&str> {
        let always = matches!(layer, Layer::Kernel | Layer::Application);
        if always || (layer == Layer::Nic && !self.by_driver.is_empty()) {
            return None;
        }
        let mut states = self.states.iter().filter(|of| of.layer == layer).map(|of| &of.state);
        let first = states.next().map_or(Some("it was not asked for (--layers)"), |state| {
            state.as_ref().err().map(String::as_str)
        });
        states.all(Result::is_err).then_some(first).flatten()
    }

    /// Packets for which the programs had no room; those are captured, but lack these stamps.
    pub fn lost(&self) -> u64 {
        self.missing.lost()
    }

    /// Packets that came in through an interface with the TC program, and had no record of it.
    pub fn unmatched(&self) -> u64 {
        self.missing.unmatched()
    }

    /// Compares clocks: before each block of packets, and where none is there, which is `idle`. Then there is time to
    /// throw away records that no packet asks for.
    pub fn refresh(&mut self, idle: bool) {
        self.clocks.refresh(Instant::now());
        if self.programs.is_some() {
            self.offset.narrow();
        }
        if let Some(joiner) = &mut self.joiner {
            joiner.make_room(idle);
        }
        if let Some(raw) = &mut self.raw {
            raw.make_room(idle);
        }
    }

    /// The stamps of a packet up to the packet socket.
    pub fn stamps(&mut self, frame: &Frame<'_>, link: LinkKind, early: &Early) -> PacketStamps {
        let mut stamps = PacketStamps::default();
        stamps.set(ring_layer(frame), self.ring_stamp(frame));
        if let Some(found) = self.raw.as_mut().and_then(|raw| raw.of(frame, link)) {
            stamps.set(Layer::Raw, found.stamp);
            stamps.set_raw_cycles(found.cycles);
        }
        let found = early.0.or_else(|| self.joiner.as_mut()?.below(frame, link));
        let Some(below) = found else { return stamps };
        if below.hardware_ns != 0 {
            stamps.set(Layer::Nic, self.clocks.stamp(frame.interface, below.hardware_ns as i64));
        }
        if let Some(stamp) = self.by_program(below.xdp, below.xdp_in_cycles) {
            stamps.set(Layer::Xdp, stamp);
        }
        if let Some(stamp) = self.by_program(below.tc, below.tc_in_cycles) {
            stamps.set(Layer::Tc, stamp);
        }
        stamps
    }

    fn by_program(&self, stamp: u64, in_cycles: bool) -> Option<LayerStamp> {
        match (stamp, in_cycles) {
            (0, _) => None,
            (cycles, true) => self.cycles.0.as_ref().map(|convert| convert(cycles)),
            (monotonic_ns, false) => Some(self.monotonic(monotonic_ns)),
        }
    }

    fn monotonic(&self, monotonic_ns: u64) -> LayerStamp {
        let (time_ns, bound_ns) = self.offset.realtime(monotonic_ns);
        LayerStamp { clock: StampClock::Monotonic, time_ns, bound_ns, epoch: 0 }
    }

    fn ring_stamp(&self, frame: &Frame<'_>) -> LayerStamp {
        let bound_ns = match frame.stamped_by {
            RingStamp::Hardware => return self.clocks.stamp(frame.interface, frame.time_ns),
            RingStamp::Kernel => KERNEL_BOUND_NS,
            RingStamp::Late => u32::MAX,
        };
        LayerStamp { clock: StampClock::Realtime, time_ns: frame.time_ns, bound_ns, epoch: 0 }
    }
}

/// The layer whose stamp stands in the ring.
pub fn ring_layer(frame: &Frame<'_>) -> Layer {
    match frame.stamped_by {
        RingStamp::Hardware => Layer::Nic,
        RingStamp::Kernel | RingStamp::Late => Layer::Kernel,
    }
}
