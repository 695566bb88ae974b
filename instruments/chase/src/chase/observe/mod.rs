//! A receiver that already runs, observed from outside: BPF programs stamp its sockets' packets and the return of
//! its receive calls. The process itself is not touched: no ptrace, no signal, no setting.

mod backlog;
mod blocks;
mod learned;
mod receiver;
mod standing;

use super::plan;
use super::sender::{Sender, process_of, sending_thread};
use crate::args::ChaseArgs;
use crate::first_look::stored_payload;
use backlog::{QueueState, QueueWatch};
pub use blocks::Blocks;
use learned::{Learned, ReceiverPorts};
use quaver_abi::record::{EventRecord, StampRecord};
use quaver_analysis::model::{Actor, Names};
use quaver_host::root::HostRoot;
use quaver_host::sockets::{ProcessError, ProcessIdentity, ThreadFacts, UdpSocket};
use quaver_host::symbols::{self, MemoryMap};
use quaver_host::trace::{Flow, Payload, QueueCounts, TraceSpec};
use quaver_instrument::args::TierName;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::{HostState, keep_off};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::recording::Recording;
use quaver_instrument::{rights, tier};
use quaver_store::manifest::{Manifest, Stream, Window};
use quaver_store::run::RunDir;
use quaver_store::segments::read_all;
use quaver_view::Cell;
use receiver::receivers;
use standing::Standings;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// Most ports, and threads of the receiver, that the BPF programs can tell apart. They know 64 threads; one is the sender's.
const MOST_PORTS: usize = 8;
const MOST_THREADS: usize = 63;
/// A stream may turn out to be faster than the first look told.
const ROOM: f64 = 1.5;
/// CPUs up to which all are traced.
const FEW_CPUS: usize = 8;
/// Events held at once on all CPUs together, 32 bytes each, where many CPUs are traced.
const MOST_EVENTS: usize = 1 << 24;

/// No other tier sees another process's receive calls.
const NEEDS_BPF: &str = "--pid needs the BPF tier (returns of receive calls)";

/// The process and what it receives.
#[derive(Clone)]
pub struct Observed {
    /// The process.
    pub process: ProcessIdentity,
    /// `receiver (process 4711)`.
    pub name: String,
    /// Its threads that are followed.
    pub threads: Vec<ThreadFacts>,
    learned: Learned,
    address: Option<IpAddr>,
}

/// Observes process `pid`; the run directory is left with raw segments and a manifest.
pub(super) fn measure(
    args: &ChaseArgs,
    pid: u32,
    interrupt: &Interrupt,
) -> anyhow::Result<(RunDir, Manifest)> {
    if let Some(tier @ (TierName::Tracefs | TierName::User)) = args.tier {
        return Err(failure(
            ExitCode::Usage,
            format!("{NEEDS_BPF}: remove --tier {}", format!("{tier:?}").to_lowercase()),
        ));
    }
    let root = HostRoot::system();
    let progress = Progress::timed(args.duration, args.output.quiet);
    let mut notes = Vec::new();
    let observed = look_at(pid, None, &root, &progress, interrupt, &mut notes)?;
    let (mut recording, host) = plan::begin(args, &observed.stream_words(), &notes)?;
    let traced = observed.traced_cpus(&root)?;
    let total = plan::WARM_UP + args.duration + Duration::from_secs(1);
    recording.trace_with(tier::start(Some(TierName::Bpf), &observed.trace_spec(&traced, total))?, true);
    describe(&mut recording.manifest, &observed);
    recording.save_manifest()?;
    rights::keep_to_observe();
    let standings = || Standings::read(&observed.process, &observed.threads, &root);
    let at_first = standings();
    progress.say("warming up");
    let maps = MemoryMap::of(&root, pid);
    let ended = || !observed.process.lives(&root);
    recording.keep_house(plan::WARM_UP, interrupt, ended, |_| {})?;
    let before = HostState::read(Some(pid));
    let queue = |counts| QueueState::read(&observed.process, observed.learned.port, &root, counts);
    let queue_before = queue(queue_counts(&mut recording));
    let mut watch = QueueWatch::default();
    let start_ns = quaver_clock::monotonic_ns();
    let stood = standings().since(&at_first, start_ns.unsigned_abs());
    stood.into_iter().for_each(|record| recording.records().event(record));
    recording.keep_house(args.duration, interrupt, ended, |elapsed| {
        progress.show(elapsed, format!("observing {}", observed.name));
        watch.tick(quaver_clock::monotonic_ns(), || queue(QueueCounts::default()).bytes);
    })?;
    let end_ns = quaver_clock::monotonic_ns();
    let queue_after = queue(queue_counts(&mut recording));
    let after = HostState::read(Some(pid));
    let cut_short = interrupt.requested().then(|| "interrupted by the user".to_owned()).or_else(|| {
        let seconds = (end_ns - start_ns) as f64 / 1e9;
        ended().then(|| format!("{} exited {seconds:.1} s into the measurement", observed.name))
    });
    let counts = recording.end_tracing()?;
    let facts = recording.manifest.analysis.get_or_insert_default();
    facts.circumstances = before.circumstances(&after, &host, traced);
    facts.backlog = watch.backlog(&queue_before, &queue_after, (end_ns - start_ns) as f64 / 1e9);
    facts.counts.stamps_lost = counts.stamps_lost;
    facts.counts.events_lost = counts.events_lost;
    let stacks = recording.stacks().clone();
    let window = Window { start_ns, end_ns };
    observed.conclude(&recording.run, &mut recording.manifest, window, maps, &stacks)?;
    let stamps = read_all(&recording.run.stamps_segment())?;
    let facts = recording.manifest.analysis.get_or_insert_default();
    facts.unread = watch.unread(&stamps, &queue_after, window);
    let state = observed.state(&root).filter(|_| facts.unread.is_some_and(|unread| unread.hangs()));
    let notes = recording.manifest.asked.get_mut("notes").and_then(serde_json::Value::as_array_mut);
    if let Some((notes, state)) = notes.zip(state) {
        notes.push(format!("at the end of the run {} was in state {state}", observed.name).into());
    }
    let facts = recording.manifest.analysis.get_or_insert_default();
    let silent = (!backlog::any_in(&stamps, window) && facts.unread.is_none())
        .then(|| "no packet of the stream came during the measurement".to_owned());
    recording.finish(cut_short.or(silent))
}

fn queue_counts(recording: &mut Recording) -> QueueCounts {
    recording.tracer().and_then(|tracer| tracer.queues()).unwrap_or_default()
}

/// The process, its sockets and what comes to them; on `port` alone, where one is given. Waits for packets for ten seconds.
///
/// # Errors
/// There is no such process, it has no UDP socket (there), nothing comes, or BPF cannot be used.
pub fn look_at(
    pid: u32,
    port: Option<u16>,
    root: &HostRoot,
    progress: &Progress,
    interrupt: &Interrupt,
    notes: &mut Vec<String>,
) -> anyhow::Result<Observed> {
    let process = ProcessIdentity::of(root, pid).map_err(of_process)?;
    let name = format!("{} (process {pid})", process.name(root));
    let sockets = process.udp_sockets(root).map_err(of_process)?;
    let ports: BTreeSet<u16> =
        sockets.iter().map(|socket| socket.local.port()).filter(|own| *own != 0).collect();
    let ports: BTreeSet<u16> = ports.into_iter().filter(|own| port.is_none_or(|port| port == *own)).collect();
    if ports.is_empty() {
        return Err(failure(
            ExitCode::Unsupported,
            format!(
                "{name} has no UDP socket: only receivers of UDP can be followed (not AF_XDP, DPDK, packet or TCP \
                 sockets); check which process receives (ss -uanp)"
            ),
        ));
    }
    if ports.len() > MOST_PORTS {
        return Err(failure(
            ExitCode::Unsupported,
            format!(
                "{name} has sockets on {} UDP ports, and at most {MOST_PORTS} can be followed at once",
                ports.len()
            ),
        ));
    }
    if process.uses_io_uring(root) {
        notes.push(format!(
            "{name} uses io_uring: its stamps are taken at completion in the kernel, not in the program"
        ));
    }
    let ports: Vec<u16> = ports.into_iter().collect();
    let place = ReceiverPorts { process: pid, address: only_address(&sockets, None), ports: &ports };
    let learned = learned::learn(&place, root, &name, progress, interrupt)?;
    if learned.others > 0 {
        let others = match learned.others {
            1 => "one other receiving port of the process is ignored".to_owned(),
            several => format!("{several} other receiving ports of the process are ignored"),
        };
        notes.push(format!("{others}; {} is the busiest", learned.port));
    }
    let (threads, all) = followed_threads(&process, &[], root);
    if all > threads.len() {
        notes.push(format!("following {MOST_THREADS} of its {all} threads, real-time ones first, then those that ran most often"));
    }
    let address = only_address(&sockets, Some(learned.port));
    Ok(Observed { process, name, threads, learned, address })
}

/// The threads of a process that are followed, by number, and how many it has. Those that were followed stay; then come real-time ones,
/// then those that ran most often.
fn followed_threads(
    process: &ProcessIdentity,
    before: &[ThreadFacts],
    root: &HostRoot,
) -> (Vec<ThreadFacts>, usize) {
    let mut threads = process.threads(root);
    let all = threads.len();
    if all > MOST_THREADS {
        let was_followed = |id: u32| before.iter().any(|thread| thread.id == id);
        threads.sort_by_cached_key(|thread| {
            (!was_followed(thread.id), !thread.realtime, Reverse(runs(process, thread.id, root)), thread.id)
        });
        threads.truncate(MOST_THREADS);
        threads.sort_by_key(|thread| thread.id);
    }
    (threads, all)
}

/// How often a thread was given a CPU (proc(5), `schedstat`); 0 where the kernel does not count it.
fn runs(process: &ProcessIdentity, thread: u32, root: &HostRoot) -> u64 {
    let text = root.text(&format!("proc/{}/task/{thread}/schedstat", process.pid)).unwrap_or_default();
    text.split_whitespace().nth(2).and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn of_process(error: ProcessError) -> anyhow::Error {
    let code = match error {
        ProcessError::None(_) | ProcessError::Thread { .. } => ExitCode::Usage,
        ProcessError::NotPermitted(_) | ProcessError::Unreadable { .. } => ExitCode::Unsupported,
    };
    failure(code, format!("--pid: {error}"))
}

/// The address that all sockets (on `port`, if given) are bound to, where it is one and the same.
fn only_address(sockets: &[UdpSocket], port: Option<u16>) -> Option<IpAddr> {
    let mut addresses = sockets
        .iter()
        .filter(|socket| port.is_none_or(|port| socket.local.port() == port))
        .map(|socket| socket.local.ip());
    let first = addresses.next().filter(|address| !address.is_unspecified())?;
    addresses.all(|address| address == first).then_some(first)
}

impl Observed {
    /// The same stream with the threads that its receiver has now.
    pub fn with_threads_of_now(&self, root: &HostRoot) -> Self {
        Self { threads: followed_threads(&self.process, &self.threads, root).0, ..self.clone() }
    }

    /// Whether all packets come through one socket, and so in their order.
    pub fn has_one_socket(&self, root: &HostRoot) -> bool {
        let sockets = self.process.udp_sockets(root).unwrap_or_default();
        sockets.iter().filter(|socket| socket.local.port() == self.learned.port).count() == 1
    }

    /// The stream's port.
    pub fn port(&self) -> u16 {
        self.learned.port
    }

    /// Whether the process still has a socket on the stream's port, as far as that can be read.
    pub fn has_socket(&self, root: &HostRoot) -> bool {
        let on_port = |socket: &UdpSocket| socket.local.port() == self.learned.port;
        self.process.udp_sockets(root).map_or(true, |sockets| sockets.iter().any(on_port))
    }

    /// Bytes in the queues of the stream's sockets.
    pub fn queued_bytes(&self, root: &HostRoot) -> u64 {
        QueueState::read(&self.process, self.learned.port, root, QueueCounts::default()).bytes
    }

    /// Its process's state as `ps` has it, `T (stopped)` for example.
    fn state(&self, root: &HostRoot) -> Option<String> {
        let status = root.text(&format!("proc/{}/status", self.process.pid))?;
        status.lines().find_map(|line| Some(line.strip_prefix("State:")?.trim().to_owned()))
    }

    /// What is received, for people.
    pub fn stream_words(&self) -> String {
        let Learned { port, payload, period_ns, payload_bytes, .. } = self.learned;
        let sender = self.learned.sender.as_ref().map(|sender| format!(", sent by {}", sender.words()));
        let kind = match payload {
            Payload::Ours { .. } => "a quaver source's packets",
            Payload::Rtp => "RTP",
            Payload::Opaque => "UDP without known sequence numbers",
        };
        let size =
            payload_bytes.map_or("packets of different lengths".to_owned(), |bytes| format!("{bytes} bytes"));
        format!(
            "{kind}: {size} about every {}{}, received on port {port} by {}",
            Cell::FineDuration(period_ns),
            sender.unwrap_or_default(),
            self.name
        )
    }

    /// CPUs to trace: those that the threads are bound to, or all; on a small machine all. The calling thread moves off the
    /// former, as far as there are others.
    ///
    /// # Errors
    /// This thread's CPUs cannot be read or set.
    pub fn traced_cpus(&self, root: &HostRoot) -> anyhow::Result<Vec<u16>> {
        let bound: BTreeSet<u16> = self.threads.iter().filter_map(|thread| thread.cpu).collect();
        let all_bound = self.threads.iter().all(|thread| thread.cpu.is_some());
        // Our own work stays off the receiver's CPU as far as that is known.
        keep_off(&bound)?;
        let online = root.cpu_list("sys/devices/system/cpu/online");
        if all_bound && online.len() > FEW_CPUS { Ok(bound.into_iter().collect()) } else { Ok(online) }
    }

    /// What to trace on these CPUs, with memory for `length`.
    pub fn trace_spec(&self, traced: &[u16], length: Duration) -> TraceSpec {
        let Learned { port, payload, period_ns, .. } = self.learned;
        let flow = Flow { address: self.address, ports: vec![port], payload };
        let sender = self.learned.sender.as_ref().map(|sender| sender.thread.id);
        let threads = self.threads.iter().map(|thread| thread.id).chain(sender).collect();
        let mut spec = plan::trace_spec(flow, threads, traced.to_vec(), period_ns / ROOM, length);
        spec.observed_process = Some(self.process.pid);
        spec.event_capacity = spec.event_capacity.min(MOST_EVENTS / traced.len().max(1));
        spec
    }

    /// Names what the receiver ran, while it still lives (its memory map is gone with it), and says who received and who
    /// sent, by the records of the run.
    ///
    /// # Errors
    /// The run's segments cannot be read, or its names not be written.
    pub fn conclude(
        &self,
        run: &RunDir,
        manifest: &mut Manifest,
        window: Window,
        maps: MemoryMap,
        stacks: &BTreeMap<u32, Vec<u64>>,
    ) -> anyhow::Result<()> {
        let root = HostRoot::system();
        let lives = self.process.lives(&root).then_some(self.process.pid);
        let named = symbols::name_stacks(&root, lives, maps, stacks);
        run.write_names(&Names { stack: named.stacks, ..run.read_names()? })?;
        let stamps: Vec<StampRecord> = read_all(&run.stamps_segment())?;
        let events: Vec<EventRecord> = read_all(&run.events_segment())?;
        let facts = manifest.analysis.get_or_insert_default();
        facts.window = Some(window);
        facts.blind.extend(named.unnamed);
        facts.circumstances.blind = facts.blind.clone();
        facts.receiver = who_received(&stamps, &events, &self.threads, self.process.pid);
        let find = |thread| process_of(thread, &root, learned::sends_to(self.learned.port));
        let sender = who_sent(&stamps, &events, self.learned.sender.as_ref(), find);
        for stream in &mut facts.streams {
            stream.source = sender.as_ref().map(Sender::words).or(stream.source.take());
        }
        facts.source = sender.as_ref().map(Sender::actor);
        Ok(())
    }
}

/// Puts the stream and its receiver into the manifest of a run.
pub fn describe(manifest: &mut Manifest, observed: &Observed) {
    let Learned { port, payload, payload_bytes, .. } = observed.learned;
    let any = observed.address.map_or_else(|| "any address".to_owned(), |address| address.to_string());
    let facts = manifest.analysis.get_or_insert_default();
    facts.period_ns = None;
    facts.source_on_this_host = false;
    facts.source = None;
    facts.receiver = actor(observed.threads.iter(), true);
    facts.streams = vec![Stream {
        destination: format!("{any}, port {port}"),
        source: observed.learned.sender.as_ref().map(Sender::words),
        profile: None,
        payload: stored_payload(payload),
        payload_bytes,
    }];
}

/// The receiver by what was recorded: the threads whose receive calls returned, else all.
fn who_received(
    stamps: &[StampRecord],
    events: &[EventRecord],
    threads: &[ThreadFacts],
    process: u32,
) -> Actor {
    let found = receivers(stamps, events, threads, process);
    if found.threads.is_empty() {
        return actor(threads.iter(), true);
    }
    let mut receiver =
        actor(threads.iter().filter(|thread| found.threads.contains(&thread.id)), found.blocking);
    receiver.threads = found.threads;
    receiver
}

/// The sender of this host by the whole run: that of the first look where the run bears it out. Where that look told of none, for
/// it was short, the one that is found for the run's sending thread.
fn who_sent(
    stamps: &[StampRecord],
    events: &[EventRecord],
    first_look: Option<&Sender>,
    find: impl FnOnce(u32) -> Option<Sender>,
) -> Option<Sender> {
    let thread = sending_thread(stamps, events)?;
    match first_look {
        Some(sender) => (sender.thread.id == thread).then(|| sender.clone()),
        None => find(thread),
    }
}

fn actor<'a>(threads: impl Iterator<Item = &'a ThreadFacts> + Clone, blocking: bool) -> Actor {
    let cpus: BTreeSet<Option<u16>> = threads.clone().map(|thread| thread.cpu).collect();
    Actor {
        threads: threads.clone().map(|thread| thread.id).collect(),
        cpu: cpus.first().copied().flatten().filter(|_| cpus.len() == 1),
        realtime: threads.clone().any(|thread| thread.realtime),
        blocking,
        foreign: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::record::EventKind;

    fn socket(local: &str) -> UdpSocket {
        UdpSocket { local: local.parse().unwrap(), remote: None, queued_bytes: 0, drops: 0 }
    }

    #[test]
    fn of_many_threads_those_are_followed_that_ran_most_often_and_they_stay() {
        let place = tempfile::tempdir().unwrap();
        let task = |id: u32, runs: u32| {
            let folder = place.path().join(format!("proc/7/task/{id}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("stat"), std::fs::read_to_string("/proc/self/stat").unwrap()).unwrap();
            std::fs::write(folder.join("schedstat"), format!("1 1 {runs}\n")).unwrap();
        };
        (100..200).for_each(|id| task(id, id));
        let root = HostRoot::at(place.path());
        let process = ProcessIdentity { pid: 7, started_ticks: 0 };
        let ids = |threads: &[ThreadFacts]| threads.iter().map(|thread| thread.id).collect::<Vec<_>>();
        let (first, all) = followed_threads(&process, &[], &root);
        assert_eq!((ids(&first), all), ((137..200).collect(), 100));
        task(100, 1_000_000);
        assert_eq!(ids(&followed_threads(&process, &first, &root).0), ids(&first));
        std::fs::remove_dir_all(place.path().join("proc/7/task/150")).unwrap();
        let expected: Vec<u32> = [100].into_iter().chain((137..200).filter(|id| *id != 150)).collect();
        assert_eq!(ids(&followed_threads(&process, &first, &root).0), expected);
    }

    #[test]
    fn packets_are_filtered_by_address_only_where_all_sockets_share_it() {
        let address = |text: &str| text.parse::<IpAddr>().ok();
        let one = [socket("192.0.2.1:5000"), socket("192.0.2.1:5001"), socket("0.0.0.0:5002")];
        assert_eq!(only_address(&one, None), None);
        assert_eq!(only_address(&one[..2], None), address("192.0.2.1"));
        assert_eq!(only_address(&one, Some(5001)), address("192.0.2.1"));
        assert_eq!(only_address(&one, Some(5002)), None);
        assert_eq!(only_address(&[], None), None);
        assert_eq!(only_address(&[socket("192.0.2.1:5"), socket("192.0.2.2:5")], Some(5)), None);
    }

    #[test]
    fn the_whole_run_confirms_the_sender_of_the_first_look_or_tells_of_one() {
        let kind = EventKind::Thread as u8;
        let stretch = |turn: u64| EventRecord {
            start_ns: turn * 1_000,
            end_ns: turn * 1_000 + 50,
            id: 7,
            kind,
            ..EventRecord::default()
        };
        let arrival = |turn: u64| StampRecord { receive_ns: turn * 1_000 + 20, ..StampRecord::default() };
        let (events, stamps): (Vec<_>, Vec<_>) = (1..=20).map(|turn| (stretch(turn), arrival(turn))).unzip();
        let sender = |id: u32| {
            let thread = ThreadFacts { id, realtime: false, cpu: None };
            Sender { process: 5, name: "other".to_owned(), thread }
        };
        let find = |thread| Some(sender(thread));
        assert_eq!(who_sent(&stamps, &events, Some(&sender(7)), |_| None), Some(sender(7)));
        assert_eq!(who_sent(&stamps, &events, Some(&sender(8)), find), None);
        assert_eq!(who_sent(&stamps, &events, None, find), Some(sender(7)));
        assert_eq!(who_sent(&stamps, &events, None, |_| None), None);
        assert_eq!(who_sent(&stamps, &[], None, find), None);
    }

    #[test]
    fn a_receiver_is_bound_to_a_cpu_only_if_all_its_threads_are() {
        let thread = |id, cpu, realtime| ThreadFacts { id, cpu, realtime };
        let threads = [thread(1, Some(3), false), thread(2, Some(3), true), thread(3, None, false)];
        let both = actor(threads[..2].iter(), true);
        assert_eq!((both.cpu, both.realtime, both.threads.as_slice()), (Some(3), true, &[1, 2][..]));
        assert_eq!(actor(threads.iter(), true).cpu, None);
        assert_eq!(actor([].iter(), false), Actor { foreign: true, ..Actor::default() });
    }
}
