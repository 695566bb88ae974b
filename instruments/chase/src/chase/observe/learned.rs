//! Which of a process's ports is busiest, and what its packets are: by tracing each for a moment.

use crate::chase::sender::{Sender, process_of, sending_thread};
use anyhow::Context;
use quaver_abi::record::{EventRecord, StampRecord, stamp_flags};
use quaver_host::bpf;
use quaver_host::root::HostRoot;
use quaver_host::sockets::{ProcessIdentity, UdpSocket};
use quaver_host::trace::{Flow, Payload, QueueCounts, TraceError, TraceSink, TraceSpec};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_view::Cell;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long one port is traced for one kind of payload.
const LOOK: Duration = Duration::from_millis(400);
/// Packets that tell what they are.
const ENOUGH: usize = 10;
/// How long packets may take to come at all.
const START: Duration = Duration::from_secs(10);
/// RTP numbers may skip this many packets from one to the next and still pass for a sequence.
const LONGEST_SKIP: u64 = 100;

/// What was learned.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Learned {
    /// The busiest port.
    pub(super) port: u16,
    /// Whether others receive too.
    pub(super) others: usize,
    /// Payload.
    pub(super) payload: Payload,
    /// Median time between packets, nanoseconds.
    pub(super) period_ns: f64,
    /// Length of the payload in bytes, where it is constant.
    pub(super) payload_bytes: Option<u32>,
    /// Who sends it, where it is certainly a process of this host.
    pub(super) sender: Option<Sender>,
}

/// Where to look.
pub(super) struct ReceiverPorts<'a> {
    /// The process.
    pub(super) process: u32,
    /// The only local address, where there is but one.
    pub(super) address: Option<IpAddr>,
    /// Its ports.
    pub(super) ports: &'a [u16],
}

#[derive(Default)]
struct Records {
    stamps: Vec<StampRecord>,
    events: Vec<EventRecord>,
}

impl TraceSink for Records {
    fn stamp(&mut self, record: StampRecord) {
        self.stamps.push(record);
    }
    fn event(&mut self, record: EventRecord) {
        self.events.push(record);
    }
}

/// Packets of one port during a moment: those that the process received. Where it received none of them, since so many
/// had queued up before, those that entered its queue. And how many other processes received.
fn glimpse(
    place: &ReceiverPorts<'_>,
    port: u16,
    payload: Payload,
) -> anyhow::Result<(Vec<StampRecord>, usize)> {
    let spec = TraceSpec {
        flow: Some(Flow { address: place.address, ports: vec![port], payload }),
        threads: Vec::new(),
        observed_process: Some(place.process),
        cpus: vec![0],
        stamp_capacity: 1 << 16,
        event_capacity: 256,
    };
    let tracer = bpf::start(&spec).context(super::NEEDS_BPF)?;
    std::thread::sleep(LOOK);
    let queues = tracer.queues().unwrap_or_default();
    let mut records = Records::default();
    tracer.finish(&mut records)?;
    let elsewhere = records.stamps.iter().filter(|stamp| stamp.flags & stamp_flags::ELSEWHERE != 0).count();
    Ok((of_process(records.stamps, queues), elsewhere))
}

/// The process of this host that sends to a port, where that is certain.
fn sender(place: &ReceiverPorts<'_>, port: u16, root: &HostRoot) -> Result<Option<Sender>, TraceError> {
    let spec = TraceSpec {
        flow: Some(Flow { address: place.address, ports: vec![port], payload: Payload::Opaque }),
        threads: Vec::new(),
        observed_process: Some(place.process),
        cpus: root.cpu_list("sys/devices/system/cpu/online"),
        stamp_capacity: 1 << 12,
        event_capacity: 1 << 14,
    };
    let tracer = bpf::start(&spec)?;
    std::thread::sleep(LOOK / 4);
    let Records { mut stamps, events } = {
        let mut records = Records::default();
        tracer.finish(&mut records)?;
        records
    };
    // Where a CPU's memory was full, later arrivals fell on nobody.
    let known_until =
        |cpu: u16| events.iter().filter(|event| event.cpu == cpu).map(|event| event.end_ns).max();
    stamps.retain(|stamp| known_until(stamp.cpu).is_some_and(|end_ns| stamp.receive_ns <= end_ns));
    Ok(sending_thread(&stamps, &events).and_then(|thread| process_of(thread, root, sends_to(port))))
}

/// Whether a socket can send to a port.
pub(super) fn sends_to(port: u16) -> impl Fn(&UdpSocket) -> bool {
    move |socket| socket.remote.is_none_or(|remote| remote.port() == port)
}

fn of_process(mut stamps: Vec<StampRecord>, queues: QueueCounts) -> Vec<StampRecord> {
    if stamps.iter().any(|stamp| stamp.user_ns != 0) || queues.waiting < ENOUGH as u64 {
        stamps.retain(|stamp| stamp.user_ns != 0);
    } else {
        let gone = stamp_flags::DROPPED | stamp_flags::ELSEWHERE;
        stamps.retain(|stamp| stamp.ready_ns != 0 && stamp.flags & gone == 0);
    }
    stamps
}

/// Finds the busiest port and what its packets are; waits for packets for ten seconds.
pub(super) fn learn(
    place: &ReceiverPorts<'_>,
    root: &HostRoot,
    name: &str,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<Learned> {
    let start = Instant::now();
    // Slow streams show a few packets in each look.
    let mut elsewhere = 0;
    let mut seen: Vec<(u16, Vec<StampRecord>)> = place.ports.iter().map(|port| (*port, Vec::new())).collect();
    loop {
        for (port, stamps) in &mut seen {
            progress.say(format!("learning the stream of {name} on port {port}"));
            let (of_process, of_others) = glimpse(place, *port, Payload::Rtp)?;
            stamps.extend(of_process);
            elsewhere += of_others;
            if interrupt.requested() {
                return Err(failure(ExitCode::Interrupted, "ended before anything was measured"));
            }
        }
        seen.sort_by_key(|(_, stamps)| usize::MAX - stamps.len());
        let most = seen.first().map_or(0, |(_, stamps)| stamps.len());
        if most >= ENOUGH || most >= 2 && start.elapsed() > START / 2 {
            break;
        }
        let lives = ProcessIdentity::of(root, place.process).is_ok_and(|process| process.lives(root));
        if !lives {
            return Err(failure(ExitCode::Peer, format!("{name} ended before its stream was known")));
        }
        if start.elapsed() > START {
            return Err(failure(
                ExitCode::Peer,
                nothing_received(place, name, held_bytes(place, root), elsewhere),
            ));
        }
    }
    let others = seen[1..].iter().filter(|(_, stamps)| !stamps.is_empty()).count();
    let (port, stamps) = seen.swap_remove(0);
    let payload = if is_rtp(&stamps) {
        Payload::Rtp
    } else {
        let (again, _) = glimpse(place, port, Payload::Ours { offset: 0 })?;
        let ours = again.iter().filter(|stamp| stamp.flags & stamp_flags::OURS != 0).count();
        if ours > 0 && ours * 4 >= again.len() * 3 { Payload::Ours { offset: 0 } } else { Payload::Opaque }
    };
    Ok(Learned {
        port,
        others,
        payload,
        period_ns: period_ns(&stamps),
        payload_bytes: constant_bytes(&stamps),
        sender: sender(place, port, root)?,
    })
}

/// Length of the payload, where all packets have the same one. A packet that no program saw come in has none.
fn constant_bytes(stamps: &[StampRecord]) -> Option<u32> {
    let came_in = |stamp: &&StampRecord| stamp.receive_ns.max(stamp.enqueued_ns) != 0;
    let mut known = stamps.iter().filter(came_in).map(|stamp| stamp.payload_bytes);
    let first = known.next()?;
    known.all(|bytes| bytes == first).then_some(first)
}

/// Memory of the packets that wait in the process's sockets on these ports.
fn held_bytes(place: &ReceiverPorts<'_>, root: &HostRoot) -> u64 {
    let sockets = ProcessIdentity::of(root, place.process).and_then(|process| process.udp_sockets(root));
    let of_ports = |socket: &&UdpSocket| place.ports.contains(&socket.local.port());
    sockets.unwrap_or_default().iter().filter(of_ports).map(|socket| socket.queued_bytes).sum()
}

/// Why nothing could be learned: nothing comes, nobody reads it, or other processes read it.
fn nothing_received(place: &ReceiverPorts<'_>, name: &str, held_bytes: u64, elsewhere: usize) -> String {
    let ports: Vec<String> = place.ports.iter().map(u16::to_string).collect();
    let (seconds, ports) = (START.as_secs(), ports.join(", "));
    if held_bytes > 0 {
        let (held, process) = (Cell::Bytes(held_bytes), place.process);
        return format!(
            "{name} read no packet within {seconds} s on its UDP port {ports}, although {held} of them wait there: it is \
             stopped, stuck or does not get a CPU; see what it does (ps -L -o tid,stat,psr,wchan:32,comm -p {process})"
        );
    }
    if elsewhere > 0 {
        let read = Cell::Count(elsewhere as u64);
        return format!(
            "{name} received no packets within {seconds} s on its UDP port {ports}, but other processes received {read} there: \
             they share its socket or its port (SO_REUSEPORT); find them (ss -ulpn) and observe the one that receives"
        );
    }
    format!(
        "{name} received no packets within {seconds} s on its UDP port {ports}: see that its sender sends, and that the \
         process receives by recv, recvfrom, recvmsg or recvmmsg (AF_XDP, DPDK and packet sockets cannot be followed)"
    )
}

/// Whether three quarters of the packets have RTP headers whose numbers ascend.
fn is_rtp(stamps: &[StampRecord]) -> bool {
    let steps = stamps.windows(2).filter(|pair| {
        let rtp = pair.iter().all(|stamp| stamp.flags & stamp_flags::RTP != 0);
        rtp && (1..=LONGEST_SKIP).contains(&(pair[1].key.wrapping_sub(pair[0].key) & 0xffff))
    });
    let pairs = stamps.len().saturating_sub(1);
    pairs > 0 && steps.count() * 4 >= pairs * 3
}

/// Median time between neighbours: the pauses between looks do not count.
fn period_ns(stamps: &[StampRecord]) -> f64 {
    /// Shortest period that memory is planned for.
    const SHORTEST_NS: u64 = 500;
    let entered = |stamp: &StampRecord| stamp.receive_ns.max(stamp.ready_ns);
    let mut gaps: Vec<u64> =
        stamps.windows(2).map(|pair| entered(&pair[1]).saturating_sub(entered(&pair[0]))).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied().unwrap_or(1_000_000_000).max(SHORTEST_NS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(keys: impl IntoIterator<Item = u16>, flags: u32) -> Vec<StampRecord> {
        let stamp = |(n, key): (u64, u16)| StampRecord {
            key: key.into(),
            flags,
            receive_ns: (n + 1) * 1_000_000,
            user_ns: (n + 1) * 1_000_000 + 5,
            ..StampRecord::default()
        };
        (0..).zip(keys).map(stamp).collect()
    }

    #[test]
    fn rtp_is_told_from_what_only_looks_like_it() {
        let ascending = (65_500u32..65_600).map(|number| number as u16);
        assert!(is_rtp(&stamps(ascending.clone(), stamp_flags::RTP)), "also over the wrap");
        assert!(!is_rtp(&stamps(ascending, 0)), "no header");
        let wild = (0u16..100).map(|number| number.wrapping_mul(40_503));
        assert!(!is_rtp(&stamps(wild, stamp_flags::RTP)));
        assert!(!is_rtp(&stamps([5], stamp_flags::RTP)), "one packet proves nothing");
    }

    #[test]
    fn packets_behind_a_backlog_tell_what_they_are_although_none_of_them_was_received() {
        let waiting = |waiting| QueueCounts { came: 20, taken: 9, waiting };
        let mut seen = stamps(0..20, 0);
        for stamp in &mut seen {
            (stamp.ready_ns, stamp.user_ns) = (stamp.receive_ns, 0);
        }
        seen[3].ready_ns = 0;
        seen[4].flags = stamp_flags::DROPPED;
        assert_eq!(of_process(seen.clone(), waiting(9_000)).len(), 18);
        assert!(of_process(seen.clone(), waiting(1)).is_empty(), "another process's");
        seen[7].user_ns = 1;
        assert_eq!(of_process(seen.clone(), waiting(9_000)), [seen[7]]);
    }

    #[test]
    fn a_full_socket_that_nobody_reads_is_told_from_a_silent_sender() {
        let place = ReceiverPorts { process: 4_711, address: None, ports: &[5_004] };
        let said = |held| nothing_received(&place, "studio (process 4711)", held, 0);
        assert!(
            said(0)
                .contains("received no packets within 10 s on its UDP port 5004: see that its sender sends")
        );
        let stuck = said(212_992);
        assert!(stuck.contains("read no packet") && stuck.contains("wchan:32,comm -p 4711"), "{stuck}");
        let shared = nothing_received(&place, "studio (process 4711)", 0, 900);
        assert!(shared.contains("but other processes received 900 there"), "{shared}");
    }

    #[test]
    fn a_length_is_constant_where_all_packets_that_were_seen_to_come_in_have_it() {
        let mut seen = stamps(0..20, 0);
        seen.iter_mut().for_each(|stamp| stamp.payload_bytes = 300);
        // As recording begins, the queue's program is there before the others.
        (seen[0].receive_ns, seen[0].ready_ns, seen[0].payload_bytes) = (0, 1_000_000, 0);
        assert_eq!(constant_bytes(&seen), Some(300));
        seen[9].payload_bytes = 299;
        assert_eq!(constant_bytes(&seen), None);
        assert_eq!(constant_bytes(&seen[..1]), None, "nothing is known of it");
    }

    #[test]
    fn the_period_is_that_within_a_look() {
        let mut seen = stamps(0..20, 0);
        for stamp in &mut seen[10..] {
            stamp.receive_ns += 900_000_000;
        }
        assert_eq!(period_ns(&seen), 1e6);
        assert_eq!(period_ns(&seen[..1]), 1e9);
    }
}
