//! Checkpoints in the kernel, on a stock one: two of its own tracepoints, with the trace clock `x86-tsc`.
//!
//! `net:netif_rx_entry` and `net:netif_rx` enclose the kernel's receive stamp (`net_timestamp_check`) and nothing
//! else of what a packet meets there. What lies between them is
//!
//! ```text
//! arm              between the checkpoints                                   less `off`, it is the cost of
//! off              the rest of the first record                              (the checkpoints themselves)
//! stamping         that, and CLOCK_REALTIME read by the kernel               the kernel's stamp
//! second-cycles    that, and a record of a second instance, in raw cycles    a whole trace record
//! second-mono      that, and a record of a second instance, converted        a whole trace record
//! bpf              that, and a BPF program without a stamp                   calling a BPF program
//! bpf-ktime        that, and its reading of CLOCK_MONOTONIC                  a stamp by BPF
//! bpf-cycles       that, and its reading of the counter instead              a stamp by BPF in raw cycles
//! ```
//!
//! and `second-mono` less `second-cycles` is what conversion to nanoseconds costs in the kernel. A stock kernel
//! offers no way to keep interrupts off around its stamp; each record says whether they were off.

use super::CompareError;
#[cfg(feature = "bpf")]
use crate::bpf::cost::CostPrograms;
use quaver_host::trace::TraceError;
use quaver_host::tracefs::format::{EventFormat, Field, PageLayout};
use quaver_host::tracefs::instance::Instance;
use quaver_host::tracefs::page::{Lost, PageEvent, decode};
use quaver_host::tracefs::rings::{Ring, make_instance, open_rings};
use quaver_host::tracefs::root::{Dir, refused};
use quaver_probe::socket::set_option;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
#[cfg(not(feature = "bpf"))]
use without::CostPrograms;

#[cfg(not(feature = "bpf"))]
#[path = "cost_without.rs"]
mod without;

/// Clock of the checkpoints.
pub const TRACE_CLOCK: &str = "x86-tsc";
const ENTRY: &str = "events/net/netif_rx_entry";
const RX: &str = "events/net/netif_rx";
/// What the switch of stamping takes to reach the code of all CPUs: the kernel defers it to a worker.
const SETTLE: Duration = Duration::from_millis(30);
/// Bit of `common_flags`: interrupts were off (include/linux/trace_events.h, `TRACE_FLAG_IRQS_OFF`).
const INTERRUPTS_OFF: u64 = 1;
/// Ring of each CPU, KiB.
const RING_KB: &str = "8192";

/// What lies between the checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelArm {
    /// Nothing.
    Off,
    /// The kernel's own stamp.
    Stamping,
    /// A trace record stamped in raw cycles.
    SecondCycles,
    /// A trace record stamped in nanoseconds of CLOCK_MONOTONIC.
    SecondMono,
    /// A BPF program that stamps nothing.
    Bpf,
    /// One that reads the kernel's clock.
    BpfKtime,
    /// One that reads the counter.
    BpfCycles,
}

impl KernelArm {
    /// All.
    pub const ALL: [Self; 7] = [
        Self::Off,
        Self::Stamping,
        Self::SecondCycles,
        Self::SecondMono,
        Self::Bpf,
        Self::BpfKtime,
        Self::BpfCycles,
    ];

    /// Its name on pages and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Stamping => "stamping",
            Self::SecondCycles => "second-cycles",
            Self::SecondMono => "second-mono",
            Self::Bpf => "bpf",
            Self::BpfKtime => "bpf-ktime",
            Self::BpfCycles => "bpf-cycles",
        }
    }

    /// The BPF program that it attaches.
    const fn program(self) -> Option<&'static str> {
        match self {
            Self::Bpf => Some("bpf"),
            Self::BpfKtime => Some("bpf_ktime"),
            Self::BpfCycles => Some("bpf_cycles"),
            _ => None,
        }
    }
}

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPlan {
    /// Interface that the packets arrive at.
    pub interface: String,
    /// Bytes of each packet from its IP header on; others are left out.
    pub packet_bytes: u32,
}

/// One packet between two checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSample {
    /// Block.
    pub block: u32,
    /// Place in the block, from 0, on its CPU.
    pub position: u32,
    /// What lay between.
    pub arm: KernelArm,
    /// CPU.
    pub cpu: u16,
    /// Raw cycles of the first checkpoint.
    pub before_cycles: u64,
    /// Raw cycles between the checkpoints.
    pub between_cycles: u64,
    /// Interrupts were off.
    pub interrupts_off: bool,
}

/// What a kernel comparison leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelOutcome {
    /// Packets.
    pub samples: Vec<KernelSample>,
    /// Checkpoints without their other half.
    pub unpaired: u64,
    /// Records that the kernel's rings lost, as far as it counts them; a page of unknown losses counts one.
    pub lost: u64,
}

/// A comparison in the kernel that is set up. Dropping it removes its trace instances and lets the kernel stop
/// stamping.
#[derive(Debug)]
pub struct KernelComparison {
    // Dropped in this order: the kernel keeps an instance as long as a file below it is open.
    rings: Vec<Ring>,
    second: Instance,
    first: Instance,
    layout: PageLayout,
    checkpoints: Checkpoints,
    plan: KernelPlan,
    stamping: Option<UdpSocket>,
    programs: Result<CostPrograms, TraceError>,
    outcome: KernelOutcome,
}

impl KernelComparison {
    /// Sets the checkpoints; nothing is recorded yet.
    ///
    /// # Errors
    /// Without the rights for tracefs, or where the kernel lacks the clock or the tracepoints (not x86-64, or
    /// before Linux 3.14).
    pub fn start(plan: &KernelPlan) -> Result<Self, CompareError> {
        let (root, first, layout) = make_instance("compare in user space only (--no-kernel)")?;
        let offered = first.dir().read("trace_clock").map_err(|e| refused("reading trace_clock", e))?;
        if !offered.split_whitespace().any(|clock| clock.trim_matches(['[', ']']) == TRACE_CLOCK) {
            return Err(TraceError::NotSupported {
                operation: format!("setting checkpoints in the kernel by the trace clock {TRACE_CLOCK}"),
                remedy: format!(
                    "the kernel offers {}; compare in user space only (--no-kernel)",
                    offered.trim()
                ),
            }
            .into());
        }
        first.set("trace_clock", TRACE_CLOCK)?;
        first.set("buffer_size_kb", RING_KB)?;
        let checkpoints = Checkpoints::bind(first.dir())?;
        for event in [ENTRY, RX] {
            first.set(&format!("{event}/enable"), "1")?;
        }
        // Made after the first was switched on: its record then comes after the first one's on the same event.
        let second = Instance::create(&root)?;
        second.set("buffer_size_kb", "64")?;
        let _ = second.set("options/record-cmd", "0");
        let rings = open_rings(first.dir(), &[])?;
        Ok(Self {
            rings,
            second,
            first,
            layout,
            checkpoints,
            plan: plan.clone(),
            stamping: None,
            programs: CostPrograms::load(),
            outcome: KernelOutcome::default(),
        })
    }

    /// Whether this kernel has that arm, or why not.
    ///
    /// # Errors
    /// The reason, as a sentence without its end.
    pub fn has(&self, arm: KernelArm) -> Result<(), String> {
        match (arm.program(), &self.programs) {
            (Some(_), Err(error)) => Err(error.to_string()),
            (Some(_), Ok(programs)) if arm == KernelArm::BpfCycles && !programs.read_cycles() => {
                Err("the kernel has no bpf_get_cpu_time_counter".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Starts a block of that arm: returns when the kernel has taken the switch.
    ///
    /// # Errors
    /// When the kernel refuses a setting.
    pub fn begin(&mut self, arm: KernelArm) -> Result<(), CompareError> {
        self.second.set(&format!("{ENTRY}/enable"), "0")?;
        self.stamping = None;
        if let Ok(programs) = &mut self.programs {
            programs.attach(arm.program())?;
        }
        match arm {
            KernelArm::Off | KernelArm::Bpf | KernelArm::BpfKtime | KernelArm::BpfCycles => {}
            KernelArm::Stamping => self.stamping = Some(stamping_socket()?),
            KernelArm::SecondCycles | KernelArm::SecondMono => {
                let clock = if arm == KernelArm::SecondCycles { TRACE_CLOCK } else { "mono" };
                self.second.set("trace_clock", clock)?;
                self.second.set(&format!("{ENTRY}/enable"), "1")?;
            }
        }
        std::thread::sleep(SETTLE);
        self.first.set("tracing_on", "1")?;
        Ok(())
    }

    /// Ends the block and keeps its packets; how many there were.
    ///
    /// # Errors
    /// When the kernel's ring cannot be read.
    pub fn end(&mut self, block: u32, arm: KernelArm) -> Result<usize, CompareError> {
        self.first.set("tracing_on", "0")?;
        let before = self.outcome.samples.len();
        let mut page = vec![0; self.layout.size];
        for ring in &mut self.rings {
            let cpu = ring.cpu;
            let mut pairing = Pairing { block, arm, cpu, ..Pairing::new(&self.checkpoints, &self.plan) };
            while ring
                .read_page(&mut page)
                .map_err(|e| CompareError::os(format!("read trace pages of CPU {cpu}"), e))?
            {
                let outcome = decode(&page, &self.layout, |event| pairing.take(&event, &mut self.outcome));
                self.outcome.lost += match outcome {
                    Ok(Lost::Nothing) => 0,
                    Ok(Lost::Counted(count)) => count,
                    Ok(Lost::Uncounted) | Err(_) => 1,
                };
            }
            self.outcome.unpaired += u64::from(pairing.open.is_some());
        }
        Ok(self.outcome.samples.len() - before)
    }

    /// Ends the comparison.
    pub fn finish(mut self) -> KernelOutcome {
        std::mem::take(&mut self.outcome)
    }
}

/// A socket that asks for receive stamps: from then on the kernel stamps every packet of every namespace.
fn stamping_socket() -> Result<UdpSocket, CompareError> {
    let failed = |e| CompareError::os("open a socket that asks for receive stamps", e);
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32).map_err(failed)?;
    Ok(socket)
}

/// Whether the kernel stamps packets though no arm of ours asks for it: some other socket does (a capture, a PTP
/// daemon), and `off` is then not off. None where it cannot be told.
///
/// A datagram that came before its socket asked for stamps has an earlier one only if somebody else asked.
pub fn stamped_for_others() -> Option<bool> {
    // What was switched off a moment ago takes as long to go.
    std::thread::sleep(SETTLE);
    let receiver = UdpSocket::bind("127.0.0.1:0").ok()?;
    receiver.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let sender = UdpSocket::bind("127.0.0.1:0").ok()?;
    sender.send_to(b"q", receiver.local_addr().ok()?).ok()?;
    // Its arrival, without taking it.
    receiver.peek(&mut [0; 8]).ok()?;
    std::thread::sleep(Duration::from_millis(2));
    let asked_ns = quaver_clock::realtime_ns();
    set_option(receiver.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32).ok()?;
    Some(arrival_ns(&receiver)? < asked_ns)
}

/// Room for one control message with a time (32 bytes with its header), and to spare.
#[repr(C, align(8))]
struct ControlSpace([u8; 64]);

/// Takes a datagram; the stamp that comes with it, CLOCK_REALTIME nanoseconds.
fn arrival_ns(receiver: &UdpSocket) -> Option<i64> {
    let mut octets = [0u8; 8];
    let mut control = ControlSpace([0; 64]);
    let mut part = libc::iovec { iov_base: octets.as_mut_ptr().cast(), iov_len: octets.len() };
    // SAFETY: all-zero bytes are a valid msghdr: no name, no parts, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the message leads to `octets` and `control`, valid for writing for the lengths given.
    if unsafe { libc::recvmsg(receiver.as_raw_fd(), &raw mut message, 0) } < 0 {
        return None;
    }
    // SAFETY: the kernel filled `control` with whole messages and set msg_controllen; the macros stay within it, and
    // a message of this type holds a timespec.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message).as_ref()?;
        if (header.cmsg_level, header.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            return None;
        }
        let time = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
        Some(time.tv_sec * 1_000_000_000 + time.tv_nsec)
    }
}

/// Where the fields of both checkpoints lie in their records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    entry: Checkpoint,
    rx: Checkpoint,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Checkpoint {
    id: u16,
    flags: Field,
    name: Field,
    packet: Field,
    length: Field,
}

impl Checkpoints {
    fn bind(dir: &Dir) -> Result<Self, CompareError> {
        let read = |event: &str| {
            dir.read(&format!("{event}/format"))
                .map_err(|e| refused(&format!("reading tracefs {event}/format"), e))
        };
        let bound = Self::parse(&read(ENTRY)?, &read(RX)?);
        bound.ok_or_else(|| {
            TraceError::NotSupported {
                operation: "reading the formats of net:netif_rx_entry and net:netif_rx".to_owned(),
                remedy: "this kernel's are not understood; compare in user space only (--no-kernel)"
                    .to_owned(),
            }
            .into()
        })
    }

    /// From the kernel's `format` files of both.
    pub fn parse(entry: &str, rx: &str) -> Option<Self> {
        let one = |text: &str| {
            let format = EventFormat::parse(text)?;
            let field = |name: &str| format.field(name).cloned();
            Some(Checkpoint {
                id: format.id,
                flags: field("common_flags")?,
                name: field("name")?,
                packet: field("skbaddr")?,
                length: field("len")?,
            })
        };
        Some(Self { entry: one(entry)?, rx: one(rx)? })
    }
}

/// Finds the pairs in one CPU's records of a block.
struct Pairing<'a> {
    checkpoints: &'a Checkpoints,
    plan: &'a KernelPlan,
    block: u32,
    arm: KernelArm,
    cpu: u16,
    /// The packet at the first checkpoint and when it was there.
    open: Option<(u64, u64, bool)>,
    position: u32,
}

impl<'a> Pairing<'a> {
    fn new(checkpoints: &'a Checkpoints, plan: &'a KernelPlan) -> Self {
        Self { checkpoints, plan, block: 0, arm: KernelArm::Off, cpu: 0, open: None, position: 0 }
    }

    fn take(&mut self, event: &PageEvent<'_>, outcome: &mut KernelOutcome) {
        let Checkpoints { entry, rx } = self.checkpoints;
        let Some(checkpoint) = [entry, rx].into_iter().find(|one| one.id == event.id) else { return };
        let Some(packet) = checkpoint.packet.number(event.record) else { return };
        if event.id == entry.id {
            let name = checkpoint.name.octets(event.record).unwrap_or_default();
            let length = checkpoint.length.number(event.record);
            if name.strip_suffix(&[0]).unwrap_or(name) != self.plan.interface.as_bytes()
                || length != Some(self.plan.packet_bytes.into())
            {
                return;
            }
            let off = checkpoint.flags.number(event.record).is_some_and(|flags| flags & INTERRUPTS_OFF != 0);
            outcome.unpaired += u64::from(self.open.is_some());
            self.open = Some((packet, event.timestamp, off));
            return;
        }
        let Some((_, before_cycles, interrupts_off)) = self.open.take_if(|open| open.0 == packet) else {
            return;
        };
        outcome.samples.push(KernelSample {
            block: self.block,
            position: self.position,
            arm: self.arm,
            cpu: self.cpu,
            before_cycles,
            between_cycles: event.timestamp.saturating_sub(before_cycles),
            interrupts_off,
        });
        self.position += 1;
    }
}

#[cfg(test)]
pub(super) mod seen {
    //! For tests: pairs from records that are given.

    use super::*;

    /// Records as (time, event number, record) of one CPU.
    pub(crate) fn pair(
        checkpoints: &Checkpoints,
        plan: &KernelPlan,
        events: &[(u64, u16, Vec<u8>)],
    ) -> KernelOutcome {
        let mut outcome = KernelOutcome::default();
        let mut pairing = Pairing::new(checkpoints, plan);
        for (timestamp, id, record) in events {
            pairing.take(&PageEvent { timestamp: *timestamp, id: *id, record }, &mut outcome);
        }
        outcome.unpaired += u64::from(pairing.open.is_some());
        outcome
    }
}
