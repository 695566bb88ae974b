//! The packet socket: bound to one interface or to all, stamping, with its ring, filter and counts.

use super::error::CaptureError;
use super::filter::Filter;
use super::frame::LinkKind;
use super::ring::{HandOver, Progress, RingMemory};
use quaver_host::ifreq;
use quaver_host::interface::InterfaceFacts;
use quaver_host::route;
use quaver_probe::socket::{numbers, set_option};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The name that stands for all interfaces.
pub const ANY: &str = "any";
/// Most bytes kept of a packet unless asked otherwise, as tcpdump has it.
pub const MOST_SNAP_BYTES: u32 = 262_144;
/// Bytes of the smallest pages that there are; the kernel wants whole ones.
const SMALLEST_PAGE_BYTES: usize = 4096;
/// ARP type of a tunnel without link headers.
const ARP_NONE: u16 = 0xfffe;
const ARP_ETHER: u16 = 1;
const ARP_LOOPBACK: u16 = 772;

/// Which packets are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// Those that come and those that go; on loopback, where each packet does both, those that come.
    #[default]
    Both,
    /// Those that come.
    In,
    /// Those that go.
    Out,
}

/// What to capture, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapOptions {
    /// Name of the interface, or [`ANY`].
    pub interface: String,
    /// Most bytes kept of a packet, 1 to [`MOST_SNAP_BYTES`].
    pub snap_length: u32,
    /// See packets to other machines too.
    pub promiscuous: bool,
    /// Which packets are wanted.
    pub wanted: Wanted,
    /// Filter in the language of tcpdump.
    pub filter: Option<String>,
    /// Bytes of a block of the ring: a power of two of at least a page.
    pub block_bytes: usize,
    /// Blocks of the ring, at least 2.
    pub blocks: usize,
    /// After this the kernel hands over a block that is not full; whole milliseconds.
    pub block_timeout: Duration,
    /// Have each packet handed over at once, in a block of its own, so that its stamp of the application is its own.
    /// `block_bytes` has to hold a packet then ([`Self::packet_bytes`]), and the block timeout means nothing.
    pub immediate: bool,
}

impl TapOptions {
    /// Usual options: 64 MiB of ring in blocks of 1 MiB, handed over after 10 ms.
    ///
    /// A block is what the kernel hands over at once. A large one costs few wake-ups at a high rate; the timeout bounds
    /// how long a packet waits for one at a low rate, and so how late the application's stamp is.
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            snap_length: MOST_SNAP_BYTES,
            promiscuous: true,
            wanted: Wanted::Both,
            filter: None,
            block_bytes: 1 << 20,
            blocks: 64,
            block_timeout: Duration::from_millis(10),
            immediate: false,
        }
    }

    /// Bytes of a block that holds one packet of this many bytes, with what the kernel puts before it: a power of two
    /// within a page, else whole pages.
    pub fn packet_bytes(snap_length: u32) -> usize {
        /// Header, address, link header and room for a tag (net/packet/af_packet.c).
        const BEFORE_BYTES: usize = 112;
        let bytes = snap_length as usize + BEFORE_BYTES;
        if bytes <= SMALLEST_PAGE_BYTES {
            bytes.next_power_of_two()
        } else {
            bytes.next_multiple_of(SMALLEST_PAGE_BYTES)
        }
    }
}

/// By what the kernel chooses the ring of a packet, where an interface has several (PACKET_FANOUT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
#[repr(u32)]
pub enum Fanout {
    /// The CPU that processes it: each ring is in order of time
    #[default]
    Cpu = libc::PACKET_FANOUT_CPU,
    /// Its flow: both directions come to the same ring
    Hash = libc::PACKET_FANOUT_HASH,
    /// Each ring in turn
    Lb = libc::PACKET_FANOUT_LB,
    /// The interface's receive queue
    Qm = libc::PACKET_FANOUT_QM,
}

/// PACKET_FANOUT_FLAG_UNIQUEID: the kernel chooses a number that no group has.
const FANOUT_NEW_GROUP: u32 = 0x2000;

/// An interface as far as a capture needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapInterface {
    /// Name.
    pub name: String,
    /// Index; 0 for all.
    pub index: u32,
    /// What packets begin with.
    pub link: LinkKind,
    /// Whether it is the loopback.
    pub loopback: bool,
    /// Hardware address, where it has one of 6 bytes.
    pub mac: Option<[u8; 6]>,
    /// Whether a device on a bus is behind it, whose link may go down for a moment when programs or stamps are set.
    pub device: bool,
}

impl TapInterface {
    /// Looks the interface up in the namespace of the calling thread.
    ///
    /// # Errors
    /// [`CaptureError::NoInterface`] if there is none of that name.
    pub fn find(name: &str) -> Result<Self, CaptureError> {
        if name == ANY {
            let name = name.to_owned();
            let (index, link) = (0, LinkKind::Cooked);
            return Ok(Self { name, index, link, loopback: false, mac: None, device: false });
        }
        let index = route::interface_index(name).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO | libc::EINVAL) => {
                let there = InterfaceFacts::names_here().join(", ");
                CaptureError::NoInterface { name: name.to_owned(), there }
            }
            _ => CaptureError::os(format!("look up interface {name}"), e),
        })?;
        let (kind, address) =
            hardware(name).map_err(|e| CaptureError::os(format!("look at interface {name}"), e))?;
        let link = match kind {
            ARP_ETHER | ARP_LOOPBACK => LinkKind::Ethernet,
            ARP_NONE => LinkKind::RawIp,
            _ => LinkKind::Cooked,
        };
        let mac = (kind == ARP_ETHER).then_some(address);
        let device = super::hardware::on_a_bus(name);
        Ok(Self { name: name.to_owned(), index, link, loopback: kind == ARP_LOOPBACK, mac, device })
    }
}

/// ARP type and address of an interface.
fn hardware(name: &str) -> io::Result<(u16, [u8; 6])> {
    let given =
        libc::__c_anonymous_ifr_ifru { ifru_hwaddr: libc::sockaddr { sa_family: 0, sa_data: [0; 14] } };
    // SAFETY: the kernel follows no pointer; it writes an address into the request.
    let answer = unsafe { ifreq::ask(name, libc::SIOCGIFHWADDR, given) }?;
    // SAFETY: the request was answered, so an address is what it holds.
    let address = unsafe { answer.ifru_hwaddr };
    let mut octets = [0; 6];
    for (to, from) in octets.iter_mut().zip(address.sa_data) {
        *to = from as u8;
    }
    Ok((address.sa_family, octets))
}

/// What the packet socket counted since it was opened. A packet is counted once it has passed the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStatistics {
    /// Packets that passed the filter, dropped ones among them.
    pub seen: u64,
    /// Packets dropped because no block was free.
    pub dropped: u64,
    /// Times that no block was free.
    pub freezes: u64,
}

impl std::iter::Sum for RingStatistics {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, of| Self {
            seen: sum.seen + of.seen,
            dropped: sum.dropped + of.dropped,
            freezes: sum.freezes + of.freezes,
        })
    }
}

/// A packet socket with its ring.
#[derive(Debug)]
pub struct Tap {
    socket: OwnedFd,
    pub(super) memory: Arc<RingMemory>,
    interface: TapInterface,
    filter: Option<Filter>,
    notes: Vec<String>,
    promiscuous: bool,
    /// The ring takes no outgoing packets.
    incoming: bool,
    snap_length: u32,
    block_timeout: Duration,
    counted: Mutex<RingStatistics>,
}

impl Tap {
    /// Opens the socket and has the kernel clear its ring, which takes the longest of all. No packet comes in before
    /// [`Self::begin`].
    ///
    /// # Errors
    /// When a right is missing, there is no such interface, the filter does not compile, or the system refuses.
    pub fn prepare(options: &TapOptions) -> Result<Self, CaptureError> {
        check(options)?;
        let interface = TapInterface::find(&options.interface)?;
        let filter = match &options.filter {
            Some(text) => {
                Some(Filter::for_interface(text, &interface.name, interface.link, options.snap_length)?)
            }
            None => None,
        };
        let mut notes = Vec::new();
        let socket = open_socket(interface.link)?;
        let failed = |what: &str| failed(what, &interface.name);
        if let Err(e) = set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32) {
            notes.push(format!(
                "the kernel does not stamp packets as they come ({e}): its stamp is taken when the packet reaches the \
                 socket, later by an unknown time"
            ));
        }
        let incoming = options.wanted == Wanted::In || (interface.loopback && options.wanted == Wanted::Both);
        if incoming {
            packet_option(&socket, libc::PACKET_IGNORE_OUTGOING, &1i32)
                .map_err(failed("leave out what is sent"))?;
        }
        attach(&socket, &[], filter.as_ref(), options.snap_length).map_err(failed("attach the filter"))?;
        let memory = ring(&socket, options, interface.link).map_err(|e| CaptureError::Os {
            operation: format!(
                "make a ring of {} blocks of {} bytes for the capture on {}",
                options.blocks, options.block_bytes, interface.name
            ),
            source: e,
        })?;
        let promiscuous = options.promiscuous && interface.index != 0 && !interface.loopback;
        Ok(Self {
            socket,
            memory: Arc::new(memory),
            interface,
            filter,
            notes,
            promiscuous,
            incoming,
            snap_length: options.snap_length,
            block_timeout: options.block_timeout,
            counted: Mutex::default(),
        })
    }

    /// Begins to receive. Nothing that passed before the filter was in force comes in. With `hardware_stamps` the interface's
    /// own stamp stands in place of the kernel's; the interface must have been told to stamp.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(&self, hardware_stamps: bool) -> Result<(), CaptureError> {
        let TapInterface { name, index, .. } = &self.interface;
        let failed = |what: &str| failed(what, name);
        if hardware_stamps && *index != 0 {
            packet_option(&self.socket, libc::PACKET_TIMESTAMP, &libc::SOF_TIMESTAMPING_RAW_HARDWARE)
                .map_err(failed("ask for hardware stamps"))?;
        }
        if self.promiscuous {
            promiscuous(&self.socket, *index).map_err(failed("see packets to other machines"))?;
        }
        bind(&self.socket, *index).map_err(failed("bind the packet socket"))
    }

    /// Begins to receive with several taps of one interface, prepared alike: the kernel gives each packet to one of them. Nothing
    /// comes in before all are in the group, so that no packet comes twice.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin_group(taps: &[Self], by: Fanout, hardware_stamps: bool) -> Result<(), CaptureError> {
        let mut group = (by as u32 | FANOUT_NEW_GROUP) << 16;
        for tap in taps {
            let failed = |what: &str| failed(what, &tap.interface.name);
            tap.shut()?;
            tap.begin(hardware_stamps)?;
            packet_option(&tap.socket, libc::PACKET_FANOUT, &group)
                .map_err(failed("share the packets among several rings"))?;
            let [given] = numbers::<1>(tap.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT)
                .map_err(failed("ask for the group of the rings"))?;
            group = given;
        }
        for tap in taps {
            // In a fanout group, kernels up to at least 6.18 ignore PACKET_IGNORE_OUTGOING.
            let before: &[_] = if tap.incoming { &LEAVE_OUT_SENT } else { &[] };
            attach(&tap.socket, before, tap.filter.as_ref(), tap.snap_length)
                .map_err(failed("attach the filter", &tap.interface.name))?;
        }
        Ok(())
    }

    /// Prepares, and begins.
    #[cfg(test)]
    pub fn open(options: &TapOptions) -> Result<Self, CaptureError> {
        let tap = Self::prepare(options)?;
        tap.begin(false)?;
        Ok(tap)
    }

    /// The interface.
    pub fn interface(&self) -> &TapInterface {
        &self.interface
    }

    /// The filter.
    pub fn filter(&self) -> Option<&Filter> {
        self.filter.as_ref()
    }

    /// What did not go as it should, in sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// After this the kernel hands over a block that is not full.
    pub fn block_timeout(&self) -> Duration {
        self.block_timeout
    }

    /// Blocks of the ring.
    pub fn blocks(&self) -> usize {
        self.memory.blocks()
    }

    /// How far the block of this number is, counted on over all rounds.
    pub fn progress(&self, block: usize) -> Progress {
        self.memory.progress(block)
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// What the system says.
    pub fn statistics(&self) -> Result<RingStatistics, CaptureError> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        // Reading sets the kernel's counters to 0.
        // Only blocks freeze: else the third stays 0.
        let [seen, dropped, freezes] =
            numbers::<3>(self.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS).map_err(|e| {
                CaptureError::os(format!("read the counts of the capture on {}", self.interface.name), e)
            })?;
        counted.seen += u64::from(seen);
        counted.dropped += u64::from(dropped);
        counted.freezes += u64::from(freezes);
        Ok(*counted)
    }

    /// Lets nothing more in. What is in the ring stays there.
    ///
    /// # Errors
    /// What the system says.
    pub fn shut(&self) -> Result<(), CaptureError> {
        let nothing = [RETURN_NOTHING];
        attach_program(&self.socket, &nothing)
            .map_err(|e| CaptureError::os(format!("end the capture on {}", self.interface.name), e))
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn check(options: &TapOptions) -> Result<(), CaptureError> {
    let refused = |why: String| Err(CaptureError::Options(why));
    if !(1..=MOST_SNAP_BYTES).contains(&options.snap_length) {
        return refused(format!(
            "snap length {} is out of range: choose 1 to {MOST_SNAP_BYTES}",
            options.snap_length
        ));
    }
    let page = SMALLEST_PAGE_BYTES;
    if options.immediate {
        let bytes = TapOptions::packet_bytes(options.snap_length);
        return match options.block_bytes == bytes && options.blocks >= 2 {
            true => Ok(()),
            false => refused(format!("a ring of packets needs at least 2 frames of {bytes} bytes each")),
        };
    }
    if !options.block_bytes.is_power_of_two() || options.block_bytes < page || options.blocks < 2 {
        return refused(format!(
            "a ring of {} blocks of {} bytes cannot be made: choose at least 2 of a power of two from {page} on",
            options.blocks, options.block_bytes
        ));
    }
    Ok(())
}

fn failed(what: &str, interface: &str) -> impl FnOnce(io::Error) -> CaptureError + use<> {
    let operation = format!("{what} for the capture on {interface}");
    move |e| CaptureError::os(operation, e)
}

/// Of no protocol, so that nothing comes in before the filter and the ring are there.
fn open_socket(link: LinkKind) -> Result<OwnedFd, CaptureError> {
    let kind = if link == LinkKind::Cooked { libc::SOCK_DGRAM } else { libc::SOCK_RAW };
    // SAFETY: takes no pointers.
    let socket = unsafe { libc::socket(libc::AF_PACKET, kind | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(CaptureError::os("open a packet socket to capture", io::Error::last_os_error()));
    }
    // SAFETY: the descriptor was made just now and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

fn packet_option<T: Copy>(socket: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    set_option(socket.as_fd(), libc::SOL_PACKET, option, value)
}

/// Instruction of classic BPF: return a constant.
const RETURN: u16 = 0x06;
const RETURN_NOTHING: libc::sock_filter = libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: 0 };

/// Goes on with the next instruction but for packets that are sent, which are left out: load the packet's kind, compare, return.
const LEAVE_OUT_SENT: [libc::sock_filter; 3] = [
    libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32 },
    libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: libc::PACKET_OUTGOING as u32 },
    RETURN_NOTHING,
];

/// The kernel keeps as many bytes as the filter returns, so there is always one. `before` runs first.
fn attach(
    socket: &OwnedFd,
    before: &[libc::sock_filter],
    filter: Option<&Filter>,
    snap_length: u32,
) -> io::Result<()> {
    let all = [libc::sock_filter { k: snap_length, ..RETURN_NOTHING }];
    let program = match filter {
        Some(filter) if !filter.runs_here() => &filter.program[..],
        _ => &all,
    };
    attach_program(socket, &[before, program].concat())
}

fn attach_program(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // The kernel copies the program, and does not write to it.
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn ring(socket: &OwnedFd, options: &TapOptions, link: LinkKind) -> io::Result<RingMemory> {
    let number = |value: usize| u32::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL));
    if options.immediate {
        /// libc's `TPACKET_V2`.
        const VERSION: i32 = 1;
        packet_option(socket, libc::PACKET_VERSION, &VERSION)?;
        let block_bytes = options.block_bytes.max(SMALLEST_PAGE_BYTES);
        let blocks = (options.blocks * options.block_bytes).div_ceil(block_bytes);
        let frames = blocks * (block_bytes / options.block_bytes);
        let request = libc::tpacket_req {
            tp_block_size: number(block_bytes)?,
            tp_block_nr: number(blocks)?,
            tp_frame_size: number(options.block_bytes)?,
            tp_frame_nr: number(frames)?,
        };
        packet_option(socket, libc::PACKET_RX_RING, &request)?;
        return RingMemory::map(socket.as_fd(), options.block_bytes, frames, link, HandOver::Packets);
    }
    /// libc's `TPACKET_V3`.
    const VERSION: i32 = 2;
    /// The smallest that the kernel takes; packets of this version are as long as they are.
    const FRAME_BYTES: usize = 2048;
    packet_option(socket, libc::PACKET_VERSION, &VERSION)?;
    let frames = options.block_bytes / FRAME_BYTES * options.blocks;
    let request = libc::tpacket_req3 {
        tp_block_size: number(options.block_bytes)?,
        tp_block_nr: number(options.blocks)?,
        tp_frame_size: number(FRAME_BYTES)?,
        tp_frame_nr: number(frames)?,
        tp_retire_blk_tov: number(options.block_timeout.as_millis().clamp(1, 60_000) as usize)?,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    packet_option(socket, libc::PACKET_RX_RING, &request)?;
    RingMemory::map(socket.as_fd(), options.block_bytes, options.blocks, link, HandOver::Blocks)
}

fn promiscuous(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index.cast_signed(),
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    packet_option(socket, libc::PACKET_ADD_MEMBERSHIP, &request)
}

fn bind(socket: &OwnedFd, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let octets = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is valid for reading `octets`.
    let outcome = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), octets) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
