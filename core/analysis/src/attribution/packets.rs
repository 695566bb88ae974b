//! Attribution of a packet run.

use super::actor::{ActorState, Life, lives};
use super::causes::{CauseKey, share};
use super::engine::{Ask, Draft, Engine, FAULTS, Queued};
use super::expected::{Expected, Schedule, catch_up_cap_ns, schedule, typical_before_app};
use super::faults::Faults;
use super::late::LatePacket;
use super::naming::Namer;
use super::outside::LoopGaps;
use super::own::OwnWork;
use super::settling::{Episode, lend_usual, return_lent, settle_catch_up, settle_displaced, settle_edges};
use super::stages::{layers, stages};
use super::steal::Steal;
use super::timeline::Timeline;
use super::{AttributionOptions, Books, EdgeCap, Piece, unexplained_note};
use crate::losses::losses;
use crate::model::{Layer, MISSING, NO_CPU, PacketRun, Unread};
use crate::series::order;
use crate::summary::{CHASE_SCHEMA, ChaseSummary, Lateness};
use quaver_arrivals::distribution::{distribution, median};

/// All that is known of a packet run.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketAnalysis {
    /// The numbers. Tier, completeness, probe cost and warnings are the caller's to fill in.
    pub summary: ChaseSummary,
    /// Late packets in the order of their reading.
    pub late: Vec<LatePacket>,
    /// Their pieces.
    pub pieces: Vec<Piece>,
    /// Most catching-up time per packet that was used, nanoseconds.
    pub catch_up_cap_ns: i64,
    /// Most entry and exit time that was used.
    pub edge_cap: EdgeCap,
}

impl PacketAnalysis {
    /// The pieces of a late packet.
    pub fn pieces_of(&self, late: &LatePacket) -> &[Piece] {
        &self.pieces[late.first_piece as usize..late.end_piece as usize]
    }
}

/// A stamp column with its typical distance from the application.
struct Way<'a> {
    before_app_ns: &'a [i64],
    typical_ns: i64,
}

fn way(run: &PacketRun, layer: Layer, slack_ns: i64) -> Option<Way<'_>> {
    let column = run.packets.column(layer)?;
    let typical_ns = typical_before_app(&run.packets, layer, slack_ns)?;
    Some(Way { before_app_ns: &column.before_app_ns, typical_ns })
}

impl Way<'_> {
    /// Expected reading of a packet, given when it passed here: its stamp plus the typical rest of the way.
    fn expected_app(&self, app_ns: i64, row: usize) -> Option<i64> {
        let before = self.before_app_ns.get(row).copied().filter(|&before| before != MISSING)?;
        Some(app_ns.saturating_sub(before).saturating_add(self.typical_ns))
    }
}

/// So many readings tell what an ordinary one is.
const MOST_READINGS: usize = 1_000_000;

struct Chase<'a> {
    run: &'a PacketRun,
    receiver: &'a [Life<'a>],
    sender: &'a [Life<'a>],
    source: Option<Way<'a>>,
    socket: Option<Way<'a>>,
    /// Where the receiver is told of a packet that has entered its queue.
    ready: Option<Way<'a>>,
    /// The way from the socket is that from its queue, not from an earlier stamp.
    in_queue: bool,
    /// Where this host first saw the packet.
    arrival: Option<Way<'a>>,
    /// The source is elsewhere, so packets may be late on arrival.
    foreign: bool,
    /// The source is on this host, and the arrival of its packets is all that tells when it sent them.
    sender_arrives: bool,
    schedule: Schedule<'a>,
    threshold_ns: i64,
    catch_up_cap_ns: i64,
    /// What page faults of the receiver take of an ordinary reading.
    usual_faults_ns: i64,
    edge_cap: EdgeCap,
}

/// What is settled after the events: what the hypervisor took, and what the receiver did itself.
struct Settlement<'a> {
    steal: Steal,
    gaps: LoopGaps,
    own: OwnWork<'a>,
}

impl Settlement<'_> {
    fn carve(&mut self, engine: &mut Engine<'_>) {
        let (causes, names) = (&mut engine.causes, engine.namer.names);
        self.steal.carve(&mut engine.drafts, causes, names);
        self.gaps.carve(&mut engine.drafts, |key| causes.intern(key, names));
    }
}

/// Names the source of every late packet of a run, and counts and measures what the summary holds.
///
/// The same input gives the same output, byte for byte.
pub fn analyze_packets(run: &PacketRun, options: &AttributionOptions) -> PacketAnalysis {
    let timeline = Timeline::new(&run.events);
    let namer = Namer::new(&timeline, &run.names, Some(&run.packets));
    let followed = |threads| -> Vec<Life<'_>> {
        let lives = lives(&run.events, threads).into_iter();
        lives.map(|life| life.with_holes(&run.circumstances.holes)).collect()
    };
    let receiver = followed(&run.receiver.threads);
    let sender = followed(run.source.as_ref().map_or(&[], |source| &source.threads));
    // A period that must be learned first leaves the widest default.
    let slack_ns = options.threshold(run.period_ns.unwrap_or(f64::MAX));
    let schedule = schedule(run, slack_ns, |period_ns| options.threshold(period_ns));
    let first_of = |layers: [Layer; 2]| layers.into_iter().find_map(|layer| way(run, layer, slack_ns));
    let queue = first_of([Layer::Enqueued, Layer::Ready]);
    let in_queue = queue.is_some();
    let socket = queue.or_else(|| first_of([Layer::KernelStamp, Layer::Receive]));
    let arrival = [Layer::Interrupt, Layer::Softirq, Layer::Receive, Layer::KernelStamp]
        .into_iter()
        .find_map(|layer| way(run, layer, slack_ns));
    let waiting = socket.as_ref().map(|way| way.before_app_ns).filter(|c| c.len() == run.packets.len());
    let mut chase = Chase {
        run,
        receiver: &receiver,
        sender: &sender,
        source: way(run, Layer::Source, slack_ns),
        foreign: run.source.is_none(),
        sender_arrives: run.source.is_some() && run.packets.column(Layer::Source).is_none(),
        catch_up_cap_ns: options
            .catch_up_cap_ns
            .unwrap_or_else(|| catch_up_cap_ns(&run.packets, &schedule.expected, waiting)),
        socket,
        ready: way(run, Layer::Ready, slack_ns),
        in_queue,
        arrival,
        threshold_ns: options.threshold(schedule.period_ns),
        usual_faults_ns: 0,
        edge_cap: options.edge_cap(&run.circumstances),
        schedule,
    };
    let faults = Faults::new(&run.events, &run.names, &receiver);
    chase.usual_faults_ns = chase.usual_faults_ns(&faults);
    let engine = || Engine::new(&namer, &run.circumstances, &faults);
    let read = &run.packets.app_ns;
    let measured = read.iter().min().copied().unwrap_or(0)..=read.iter().max().copied().unwrap_or(0);
    let fresh = || {
        let gaps = LoopGaps::new(&run.events, &run.circumstances, measured.clone());
        Settlement {
            steal: Steal::new(&run.events, gaps.stretches()),
            gaps,
            own: OwnWork::new(run, &timeline, &receiver, chase.edge_cap),
        }
    };
    let mut settlement = fresh();
    if settlement.own.must_learn() {
        chase.walk(&mut engine(), &mut settlement, &mut Books::default());
        let mut own = settlement.own;
        own.judge();
        settlement = Settlement { own, ..fresh() };
    }
    let (mut engine, mut books) = (engine(), Books::default());
    let mut late = chase.walk(&mut engine, &mut settlement, &mut books);
    let causes = engine.causes;
    let late_ns = books.late_ns;
    let (mut ranked, places) = causes.rank(late_ns, run.source.as_ref());
    let Settlement { gaps, own, .. } = settlement;
    own.tell(&mut ranked, &places);
    // The columns that follow need the memory.
    drop(own);
    drop(timeline);
    let place = |cause: &mut Option<u32>| *cause = cause.map(|cause| places[cause as usize]);
    late.iter_mut().for_each(|packet| place(&mut packet.cause));
    books.pieces.iter_mut().for_each(|piece| place(&mut piece.cause));
    let mut unexplained = books.unexplained;
    unexplained.share = share(unexplained.time_ns, late_ns);
    unexplained.gap_period_ns = gaps.period_ns();
    unexplained.note =
        unexplained_note(&run.circumstances, &unexplained, gaps.are_named(), run.receiver.foreign);
    let mut summary = chase.summary(&late, late_ns);
    summary.causes = ranked;
    summary.unexplained = unexplained;
    PacketAnalysis {
        summary,
        late,
        pieces: books.pieces,
        catch_up_cap_ns: chase.catch_up_cap_ns,
        edge_cap: chase.edge_cap,
    }
}

impl Chase<'_> {
    fn walk(
        &self,
        engine: &mut Engine<'_>,
        settlement: &mut Settlement<'_>,
        books: &mut Books,
    ) -> Vec<LatePacket> {
        let packets = &self.run.packets;
        let mut late = Vec::new();
        let mut scratch = Vec::new();
        let mut read_before = i64::MIN;
        let mut episode: Option<Episode> = None;
        for row in 0..packets.len() {
            let app_ns = packets.app_ns[row];
            let lateness = self.schedule.expected.lateness_ns(packets, row);
            let Some(lateness_ns) = lateness.filter(|&lateness| lateness > self.threshold_ns) else {
                episode = None;
                read_before = read_before.max(app_ns);
                continue;
            };
            let expected = app_ns.saturating_sub(lateness_ns);
            let queued = expected < read_before;
            let start_ns = expected.max(read_before);
            let end_ns = app_ns.max(start_ns);
            engine.drafts.clear();
            self.cut(engine, row, start_ns, end_ns);
            settle_edges(&mut engine.drafts, self.edge_cap, &mut scratch);
            settlement.carve(engine);
            let behind = episode.take().filter(|_| queued);
            let behind = self.settle_reading(engine, behind, expected, &mut scratch);
            let reader = self.reader(packets.app_cpu.get(row).copied().unwrap_or(NO_CPU), app_ns);
            settlement.own.settle(&mut engine.drafts, &mut engine.causes, reader, &mut scratch);
            books.unexplained.in_call_ns += settlement.gaps.in_calls_ns(&engine.drafts);
            books.unexplained.in_call_ns += settlement.own.in_calls_ns(&engine.drafts);
            books.unexplained.unplaced_steal_ns += settlement.steal.unplaced_ns(&engine.drafts);
            let first_piece = books.pieces.len() as u32;
            let seq = packets.seq[row];
            books.book(&engine.drafts, &mut engine.causes, seq);
            let now = Episode::next(behind, &engine.drafts, expected);
            books.lead(now.lead, &mut engine.causes);
            late.push(LatePacket {
                row: Some(row as u32),
                seq,
                start_ns,
                end_ns,
                lateness_ns,
                cause: now.lead,
                first_piece,
                end_piece: books.pieces.len() as u32,
            });
            episode = Some(now);
            read_before = end_ns;
        }
        late.extend(self.unread(engine, settlement, books, read_before));
        late
    }

    /// Gives the time of an ordinary reading to what pushed it behind itself, or to what the packet queued behind.
    fn settle_reading(
        &self,
        engine: &mut Engine<'_>,
        behind: Option<Episode>,
        expected_ns: i64,
        scratch: &mut Vec<Draft>,
    ) -> Option<Episode> {
        let Engine { drafts, causes, .. } = engine;
        lend_usual(drafts, 2 * self.usual_faults_ns, |cause| causes.id(cause) == FAULTS.id);
        settle_displaced(drafts, self.catch_up_cap_ns, behind.is_none());
        let behind = behind.map(|mut episode| {
            let budget_ns = episode.budget_ns(expected_ns, drafts, self.catch_up_cap_ns);
            if let Some(cause) = episode.lead {
                settle_catch_up(drafts, cause, budget_ns, scratch);
            }
            episode
        });
        return_lent(drafts);
        behind
    }

    /// The packet that came first of those that nobody had read when the run ended: late until then, at least. What the
    /// receiver did before its first record is not known.
    fn unread(
        &self,
        engine: &mut Engine<'_>,
        settlement: &mut Settlement<'_>,
        books: &mut Books,
        read_before: i64,
    ) -> Option<LatePacket> {
        let Unread { since_ns, until_ns, .. } = self.run.unread?;
        let packets = &self.run.packets;
        let expected = since_ns.saturating_add(self.socket.as_ref().map_or(0, |way| way.typical_ns));
        let lateness_ns = until_ns.saturating_sub(expected);
        let start_ns = expected.max(read_before);
        if lateness_ns <= self.threshold_ns || start_ns >= until_ns {
            return None;
        }
        let last = packets.len().checked_sub(1);
        let cpu = last.and_then(|row| packets.app_cpu.get(row).copied()).unwrap_or(NO_CPU);
        let life = last.and_then(|row| self.reader(cpu, packets.app_ns[row])).or(self.receiver.first());
        engine.drafts.clear();
        let ask = |from_ns, to_ns| Ask { from_ns, to_ns, shift_ns: 0, cpu };
        match life {
            None => engine.unknown(ask(start_ns, until_ns)),
            Some(life) => life.spans(start_ns, until_ns, |span| match span.state {
                ActorState::Unknown => engine.unknown(ask(span.start_ns, span.end_ns)),
                _ => engine.receiver(
                    ask(span.start_ns, span.end_ns),
                    &self.run.receiver,
                    Some(life),
                    Queued::Since(since_ns),
                ),
            }),
        }
        let mut scratch = Vec::new();
        settle_edges(&mut engine.drafts, self.edge_cap, &mut scratch);
        settlement.carve(engine);
        settlement.own.settle(&mut engine.drafts, &mut engine.causes, life, &mut scratch);
        books.unexplained.in_call_ns += settlement.own.in_calls_ns(&engine.drafts);
        books.unexplained.unplaced_steal_ns += settlement.steal.unplaced_ns(&engine.drafts);
        let first_piece = books.pieces.len() as u32;
        let seq = last.map_or(0, |row| packets.seq[row].saturating_add(1));
        let cause = books.book(&engine.drafts, &mut engine.causes, seq)?;
        books.lead(cause, &mut engine.causes);
        let end_piece = books.pieces.len() as u32;
        Some(LatePacket {
            row: None,
            seq,
            start_ns,
            end_ns: until_ns,
            lateness_ns,
            cause,
            first_piece,
            end_piece,
        })
    }

    /// Cuts one window by place. A boundary stands where the packet would have been read had the rest of its way
    /// been typical, so each place gets only its own excess.
    fn cut(&self, engine: &mut Engine<'_>, row: usize, start_ns: i64, end_ns: i64) {
        let packets = &self.run.packets;
        let app_ns = packets.app_ns[row];
        let app_cpu = packets.app_cpu.get(row).copied().unwrap_or(NO_CPU);
        let known = |cpu: Option<u16>| cpu.filter(|&cpu| cpu != NO_CPU);
        let stack_cpu = known(packets.stack_cpu.get(row).copied()).unwrap_or(app_cpu);
        let boundary = |way: Option<&Way<'_>>, low: i64| {
            way.and_then(|way| way.expected_app(app_ns, row)).unwrap_or(low).clamp(low, end_ns)
        };
        let shift = |way: Option<&Way<'_>>| way.map_or(0, |way| way.typical_ns);
        // On loopback a packet arrives within its send call, whose own stamp may be missing.
        let arrival = self.arrival.as_ref();
        let sent = if self.sender_arrives { arrival } else { self.source.as_ref() };
        let socket = self.way_into_queue(row);
        let sent_ns = if self.foreign {
            self.sent_by_other_clock(row).unwrap_or(start_ns).clamp(start_ns, end_ns)
        } else {
            boundary(sent, start_ns)
        };
        let arrived_ns = if self.foreign { boundary(arrival, sent_ns) } else { sent_ns };
        let queued_ns = boundary(socket, arrived_ns);

        let actor = self.run.source.as_ref();
        let sender = self.sender.first();
        let source_cpu = known(actor.and_then(|actor| actor.cpu)).unwrap_or(stack_cpu);
        let ask = Ask { from_ns: start_ns, to_ns: sent_ns, shift_ns: shift(sent), cpu: source_cpu };
        engine.source(ask, actor.map(|actor| (actor, sender)));
        let late = CauseKey::plain("arrival-late", "late on arrival at this host");
        let ask = Ask { from_ns: sent_ns, to_ns: arrived_ns, shift_ns: shift(arrival), cpu: stack_cpu };
        engine.stack(ask, None, Some(late));
        let ask = Ask { from_ns: arrived_ns, to_ns: queued_ns, shift_ns: shift(socket), cpu: stack_cpu };
        engine.stack(ask, actor.zip(sender), None);
        let queued = match socket {
            None => Queued::No,
            Some(way) => match way.expected_app(app_ns, row) {
                Some(read_ns) if self.in_queue && self.batched(row) => {
                    Queued::Batched(read_ns - way.typical_ns)
                }
                Some(read_ns) if self.in_queue => Queued::Since(read_ns - way.typical_ns),
                _ => Queued::Yes,
            },
        };
        let reader = self.reader(app_cpu, app_ns);
        // Before a thread began, the one that read the packet before was the receiver.
        let born_ns = reader.and_then(Life::born_ns).unwrap_or(queued_ns).clamp(queued_ns, end_ns);
        let before = row.checked_sub(1).map(|row| (packets.app_cpu.get(row).copied(), packets.app_ns[row]));
        let before = before.and_then(|(cpu, app_ns)| self.reader(cpu.unwrap_or(NO_CPU), app_ns));
        for (from_ns, to_ns, life) in [(queued_ns, born_ns, before), (born_ns, end_ns, reader)] {
            let ask = Ask { from_ns, to_ns, shift_ns: 0, cpu: app_cpu };
            engine.receiver(ask, &self.run.receiver, life, queued);
        }
    }

    /// Whether a receive call of several packets took a packet.
    fn batched(&self, row: usize) -> bool {
        let read = &self.run.packets.app_ns;
        let same = |other: Option<usize>| other.and_then(|other| read.get(other)) == read.get(row);
        same(row.checked_sub(1)) || same(row.checked_add(1))
    }

    /// How a packet came into the socket's queue. A stop between the stamps before and after that is the stack's if the packet
    /// was read after the later one: nobody was told of it until then.
    fn way_into_queue(&self, row: usize) -> Option<&Way<'_>> {
        let told = |way: &&Way<'_>| way.before_app_ns.get(row).is_some_and(|&before| before >= 0);
        self.ready.as_ref().filter(told).or(self.socket.as_ref())
    }

    /// Expected reading of a packet, given when it was sent, where schedule and sending are stamped by a clock
    /// that may drift against ours: only their difference counts.
    fn sent_by_other_clock(&self, row: usize) -> Option<i64> {
        let source = self.source.as_ref()?;
        let Expected::Schedule { before_app_ns, typical_ns, .. } = self.schedule.expected else {
            return None;
        };
        let (scheduled, sent) = (before_app_ns[row], *source.before_app_ns.get(row)?);
        let lateness_ns = self.schedule.expected.lateness_ns(&self.run.packets, row)?;
        (sent != MISSING).then(|| {
            let after_schedule = scheduled - sent;
            let typical = typical_ns - source.typical_ns;
            self.run.packets.app_ns[row] - lateness_ns + after_schedule - typical
        })
    }

    /// What page faults of the receiver take of most readings: the median from one reading to the next.
    fn usual_faults_ns(&self, faults: &Faults) -> i64 {
        let packets = &self.run.packets;
        let within = |row: usize| {
            let (from, to) = (packets.app_ns[row - 1], packets.app_ns[row]);
            let reader = self.reader(packets.app_cpu.get(row).copied().unwrap_or(NO_CPU), to)?;
            let parts = faults.within(reader.thread, from, to);
            (from < to).then(|| parts.map(|(from, to, _)| to - from).sum::<i64>())
        };
        if faults.is_empty() {
            return 0;
        }
        let mut times: Vec<i64> = (1..packets.len()).filter_map(within).take(MOST_READINGS).collect();
        median(&mut times).unwrap_or(0)
    }

    /// The receiver's thread that read a packet.
    fn reader(&self, cpu: u16, app_ns: i64) -> Option<&Life<'_>> {
        match self.receiver {
            [] => None,
            [only] => Some(only),
            several => several.iter().find(|life| life.ran_on(cpu, app_ns)).or(several.first()),
        }
    }

    fn summary(&self, late: &[LatePacket], late_ns: i64) -> ChaseSummary {
        let packets = &self.run.packets;
        let mut buffer: Vec<i64> = Vec::with_capacity(packets.len());
        buffer.extend((0..packets.len()).filter_map(|row| self.schedule.expected.lateness_ns(packets, row)));
        buffer.extend(late.last().filter(|packet| packet.row.is_none()).map(|packet| packet.lateness_ns));
        let lateness = Lateness {
            threshold_ns: self.threshold_ns,
            typical_path_ns: self.schedule.expected.typical_path_ns(),
            packets: late.len() as u64,
            time_ns: late_ns,
            distribution: distribution(&mut buffer),
        };
        let received = packets.len() as u64;
        let unread = self.run.unread;
        let read = packets.app_ns.iter().min().copied().or(unread.map(|unread| unread.since_ns));
        // A packet may have been late since before the first reading.
        let first = read.into_iter().chain(late.first().map(|packet| packet.start_ns)).min().unwrap_or(0);
        let last =
            packets.app_ns.iter().max().copied().max(unread.map(|unread| unread.until_ns)).unwrap_or(0);
        ChaseSummary {
            schema: CHASE_SCHEMA.to_string(),
            period_ns: self.schedule.period_ns,
            period_learned: self.run.period_ns.is_none(),
            pace: self.schedule.pace.clone(),
            duration_ns: last - first,
            losses: losses(&self.run.counts, &order(&packets.seq), received),
            layers: layers(packets, &mut buffer),
            stages: stages(packets, late, &mut buffer),
            lateness,
            limits: Vec::new(),
            causes: Vec::new(),
            unexplained: Default::default(),
            probe_cost: None,
            backlog: None,
            unread,
            far_source: None,
            tier: String::new(),
            tier_reason: None,
            blind: self.run.circumstances.blind.clone(),
            warnings: Vec::new(),
            rtp: None,
            complete: true,
        }
    }
}
