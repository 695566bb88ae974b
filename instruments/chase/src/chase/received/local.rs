//! Who sends a stream that comes to our sink, where that is a process of this host.
//!
//! It is certain where a process holds the socket with the sender's address, or where the process of the thread in whose time
//! the packets arrived has a socket with the sender's port. Without such a socket that process sends them, or carries them for
//! another, as a tunnel does.

use crate::chase::sender::{Sender, process_of, sending_thread};
use quaver_abi::record::{EventKind, EventRecord, StampRecord};
use quaver_host::root::HostRoot;
use quaver_host::sockets::{ThreadFacts, UdpSocket, holders};
use quaver_store::run::RunDir;
use quaver_store::segments::open_if_any;
use std::net::{SocketAddr, UdpSocket as Socket};

/// Index of the loopback interface in each network namespace (linux/net_namespace.h).
const LOOPBACK: u32 = 1;
/// Threads beside the sink's that are named to the tracer, at most.
const MOST_THREADS: usize = 63;

/// A process that holds the sender's socket, as it was before the run.
#[derive(Debug)]
struct Holder {
    pid: u32,
    name: String,
    threads: Vec<ThreadFacts>,
    same_clock: bool,
}

impl Holder {
    fn sender(&self, thread: &ThreadFacts) -> Sender {
        Sender { process: self.pid, name: self.name.clone(), thread: thread.clone() }
    }
}

/// The processes of this host that may send from an address.
#[derive(Debug)]
pub(super) struct LocalSenders {
    from: SocketAddr,
    holders: Vec<Holder>,
}

/// Who sends, by all that is known.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The sending thread, where it is certain.
    pub(super) sender: Option<Sender>,
    /// Whether its CLOCK_MONOTONIC is ours: a container may have another (time_namespaces(7)).
    pub(super) same_clock: bool,
    /// `, sent by source (process 4711)`; empty where nobody is known.
    pub(super) words: String,
}

impl LocalSenders {
    /// Looks for them. Packets to `to` came by `interface`.
    pub(super) fn of(from: SocketAddr, to: SocketAddr, interface: Option<u32>, root: &HostRoot) -> Self {
        // A group's packets come back by the interface that they went out by.
        let comes_back = || to.ip().is_multicast() && Socket::bind((from.ip(), 0)).is_ok();
        let own = std::process::id();
        let found =
            if interface == Some(LOOPBACK) || comes_back() { holders(root, from) } else { Vec::new() };
        let others = found.into_iter().filter(|process| process.pid != own);
        let holders = others.map(|process| Holder {
            pid: process.pid,
            name: process.name(root),
            threads: process.threads(root),
            same_clock: has_same_clock(process.pid, root),
        });
        Self { from, holders: holders.collect() }
    }

    /// Their threads, as far as they can be told to the tracer.
    pub(super) fn threads(&self) -> Vec<u32> {
        let all = self.holders.iter().flat_map(|holder| &holder.threads);
        all.map(|thread| thread.id).take(MOST_THREADS).collect()
    }

    /// Who sends by the socket alone, for before anything is recorded.
    pub(super) fn known(&self) -> Known {
        let words: Vec<String> =
            self.holders.iter().map(|holder| format!("{} (process {})", holder.name, holder.pid)).collect();
        let only = match &self.holders[..] {
            [holder] if holder.threads.len() == 1 => Some(holder),
            _ => None,
        };
        let words = match &words[..] {
            [] => String::new(),
            [one] => format!(", sent by {one}"),
            several => format!(", sent by one of {}", several.join(", ")),
        };
        Known {
            sender: only.and_then(|holder| Some(holder.sender(holder.threads.first()?))),
            same_clock: only.is_some_and(|holder| holder.same_clock),
            words,
        }
    }

    /// Who sent, by the records of the run too.
    pub(super) fn conclude(&self, run: &RunDir, root: &HostRoot) -> anyhow::Result<Known> {
        Ok(self.by_thread(recorded_thread(run)?, root))
    }

    fn by_thread(&self, thread: Option<u32>, root: &HostRoot) -> Known {
        let Some(thread) = thread else { return self.known() };
        let of_holder = self.holders.iter().find_map(|holder| {
            let facts = holder.threads.iter().find(|facts| facts.id == thread)?;
            Some((holder.sender(facts), holder.same_clock))
        });
        let of_port = || {
            let sender = process_of(thread, root, |socket| socket.local.port() == self.from.port())?;
            let same_clock = has_same_clock(sender.process, root);
            Some((sender, same_clock))
        };
        if let Some((sender, same_clock)) = of_holder.or_else(of_port) {
            let words = format!(", sent by {}", sender.words());
            return Known { sender: Some(sender), same_clock, words };
        }
        if !self.holders.is_empty() {
            return self.known();
        }
        let any = |_: &UdpSocket| true;
        let inferred = process_of(thread, root, any).filter(|sender| sender.process != std::process::id());
        let words = |sender: Sender| format!(", sent or carried by {}", sender.words());
        Known { words: inferred.map(words).unwrap_or_default(), ..Known::default() }
    }
}

fn has_same_clock(process: u32, root: &HostRoot) -> bool {
    let namespace = |process: &str| root.link_name(&format!("proc/{process}/ns/time"));
    namespace(&process.to_string()) == namespace("thread-self")
}

/// The thread in whose time nearly all packets arrived.
fn recorded_thread(run: &RunDir) -> anyhow::Result<Option<u32>> {
    let Some(stamps) = open_if_any::<StampRecord>(&run.stamps_segment())? else { return Ok(None) };
    let Some(events) = open_if_any::<EventRecord>(&run.events_segment())? else { return Ok(None) };
    let stamps: Vec<StampRecord> = stamps.collect::<Result<_, _>>()?;
    let is_thread = |event: &EventRecord| event.kind == EventKind::Thread as u8;
    let events =
        events.filter(|event| event.as_ref().map_or(true, is_thread)).collect::<Result<Vec<_>, _>>()?;
    Ok(sending_thread(&stamps, &events))
}
