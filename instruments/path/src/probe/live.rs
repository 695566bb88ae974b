//! What is shown while a test runs: a line of rolling figures, JSON lines or the live view, in constant memory.

use crate::facts::{FollowedDrift, RollingFigures};
use crate::tui::{LiveView, Totals, View, Way as ViewWay};
use quaver_abi::wire::jitlat::{FLAG_INVALID, Singleton};
use quaver_arrivals::path::arrival::{Arrival, Numbering};
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::following::{Follower, Following};
use quaver_arrivals::path::rolling::{Figures, Rolling, RollingCounts, WINDOW};
use quaver_instrument::progress::Progress as Line;
use quaver_instrument::results::to_stdout;
use quaver_path_flow::{FlowSchedule, Received, Transport};
use quaver_path_record::stamp::SenderOptions;
use quaver_path_record::{ClientOptions, Directions, Progress};
use quaver_view::Cell;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Time between two lines.
const INTERVAL: Duration = Duration::from_secs(1);

/// Quantiles that are told.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// The live view is given new figures this often at most; packets come in batches of about a tenth of a second.
const TOTALS_EVERY: Duration = Duration::from_millis(90);

/// One direction, as it goes.
struct Way {
    direction: Direction,
    /// Figures at once, without what is known of the clocks' drift by then.
    rolling: Rolling,
    /// Figures of the end, from packets that were held back until more was known of the drift.
    settled: Rolling,
    follower: Follower,
    /// Highest number that came.
    highest: u64,
    /// When the live view was given figures.
    told: Option<Instant>,
    /// When its flow began.
    start: Instant,
    /// Its flow has ended; what was under way may still come.
    over: bool,
}

impl Way {
    fn new(direction: Direction) -> Self {
        Self {
            direction,
            rolling: Rolling::new(WINDOW),
            settled: Rolling::new(WINDOW),
            follower: Follower::default(),
            highest: 0,
            told: None,
            start: Instant::now(),
            over: false,
        }
    }

    /// Takes a packet in. Gives its delay without the drift.
    fn take(&mut self, arrival: &Arrival) -> i64 {
        let settled = &mut self.settled;
        self.follower.push(arrival, |arrival| settled.push(arrival));
        let corrected = self.follower.corrected(arrival);
        self.rolling.push(&corrected);
        corrected.delay_ns()
    }

    /// The figures once all is over.
    fn finish(&mut self, sent: Option<u64>) -> RollingFigures {
        let settled = &mut self.settled;
        self.follower.finish(|arrival| settled.push(arrival));
        settled.finish(sent);
        let interarrival_ns = settled.interarrival_jitter_ns();
        match settled.total() {
            Some(figures) => RollingFigures {
                followed: self.follower.found().map(followed),
                ..stored(self.direction, figures, interarrival_ns)
            },
            None => nothing_arrived(self.direction, sent.unwrap_or(0)),
        }
    }

    /// Gives the live view the figures so far, unless it has just got some.
    fn tell(&mut self, view: Option<&LiveView>) {
        let Some(view) = view.filter(|_| self.told.is_none_or(|told| told.elapsed() >= TOTALS_EVERY)) else {
            return;
        };
        self.told = Some(Instant::now());
        let (interarrival_ns, numbers) =
            (self.rolling.interarrival_jitter_ns(), self.highest.saturating_add(1));
        // Reckoned before the view is held up.
        let totals = self.rolling.total().and_then(|figures| Totals::of(figures, numbers, interarrival_ns));
        view.update(|view, _| {
            if let Some(way) = view.way(self.direction) {
                way.totals = totals;
            }
        });
    }
}

/// What the live view shows of a test before it begins.
pub(super) fn view(options: &ClientOptions, length: Option<Duration>) -> View {
    let directions: &[Direction] = match options.directions {
        Directions::Up => &[Direction::Up],
        Directions::Down => &[Direction::Down],
        Directions::Both | Directions::AtOnce => &[Direction::Up, Direction::Down],
    };
    let period_ns = options.schedule.mean_period_ns();
    let way = |direction: &Direction| {
        // What is received there is told at the end, but for tests that keep no packets.
        let live = *direction == Direction::Down || options.rolling;
        ViewWay::new(*direction, live, period_ns, length)
    };
    let protocol = if options.legacy { "Jitlat's protocol" } else { "Quaver's protocol" };
    let transport = if options.transport == Transport::Udp { "UDP" } else { "TCP" };
    let schedule = if matches!(options.schedule, FlowSchedule::Periodic { .. }) { "" } else { "about " };
    let period = Cell::Duration(period_ns.cast_signed());
    let what = format!("{protocol}, {transport}, {} bytes every {schedule}{period}", options.packet_bytes);
    View::new(options.server.to_string(), what, directions.iter().map(way).collect())
}

/// What the live view shows of a session with a STAMP reflector before it begins.
pub(super) fn stamp_view(options: &SenderOptions, length: Option<Duration>) -> View {
    let way = |direction| ViewWay::new(direction, true, options.period_ns, length);
    let size = options.packet_bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
    let what = format!("STAMP{size} every {}", Cell::Duration(options.period_ns.cast_signed()));
    View::new(options.target.to_string(), what, vec![way(Direction::Up), way(Direction::Down)])
}

/// Follows a test.
pub(super) struct Live {
    ways: Vec<Way>,
    start: Instant,
    next: Instant,
    json_lines: bool,
    line: Line,
    words: String,
    length: Option<Duration>,
    view: Option<LiveView>,
    numbering: Numbering,
    /// Why a line could not be written.
    pub(super) failed: Option<anyhow::Error>,
}

impl Live {
    /// Follows a test that lasts about so long in each direction. With a view there is no line.
    pub(super) fn new(
        json_lines: bool,
        quiet: bool,
        length: Option<Duration>,
        view: Option<LiveView>,
        numbering: Numbering,
    ) -> Self {
        let start = Instant::now();
        let line = Line::timed(length.unwrap_or(INTERVAL), quiet || view.is_some());
        Self {
            ways: Vec::new(),
            start,
            next: start + INTERVAL,
            json_lines,
            line,
            words: "connecting".to_owned(),
            length,
            view,
            numbering,
            failed: None,
        }
    }

    /// Takes in what happened.
    pub(super) fn hear(&mut self, progress: Progress<'_>) {
        if let Some(view) = &self.view {
            view.update(|view, now| view.hear(&progress, now));
        }
        match progress {
            Progress::Connected { server, .. } => self.words = format!("connected to {server}"),
            Progress::Probe(probe) => self.words = format!("round trip {}", Cell::Duration(probe.rtt_ns())),
            Progress::Queued { place } => {
                self.words = format!("the server is busy; queue position {place}");
            }
            Progress::Started { direction, .. } => {
                self.words = format!("{}: begun", direction.name());
                self.start = Instant::now();
                self.ways.push(Way::new(direction));
            }
            Progress::Samples { direction, samples } => self.take(direction, samples),
            Progress::Ended { direction } => {
                self.words = format!("{}: getting results", direction.name());
                if let Some(way) = self.ways.iter_mut().rfind(|way| way.direction == direction) {
                    (way.told, way.over) = (None, true);
                    way.tell(self.view.as_ref());
                }
            }
        }
        if Instant::now() >= self.next {
            self.next += INTERVAL;
            self.tell();
        }
        match self.length {
            Some(_) => self.line.show(self.start.elapsed(), self.words.clone()),
            None => self.line.say(self.words.clone()),
        }
    }

    fn take(&mut self, direction: Direction, samples: &[Received]) {
        let Some(way) = self.ways.iter_mut().rfind(|way| way.direction == direction) else { return };
        let mut first_copies = Vec::new();
        let sound = |sample: &&Singleton| sample.flags & FLAG_INVALID == 0;
        for sample in samples.iter().map(|received| &received.singleton).filter(sound) {
            let number = self.numbering.unwrap(sample.tx_seq.cast_unsigned(), way.highest);
            let Some(sequence) = number else { continue };
            way.highest = way.highest.max(sequence);
            let (sent_ns, received_ns) = (sample.tx_real_time_ns, sample.rx_real_time_ns);
            let arrival = Arrival { sequence, sent_ns, received_ns };
            let delay_ns = way.take(&arrival);
            if self.view.is_some() && sample.flags == 0 {
                first_copies.push((sequence, delay_ns));
            }
        }
        if let Some(view) = &self.view {
            view.update(|view, _| view.take(direction, &first_copies));
            return way.tell(Some(view));
        }
        let total = way.rolling.total().map(|figures| (figures.counts(), figures.pdv_quantile_ns(0.99)));
        if let Some((counts, pdv)) = total {
            self.words = format!(
                "{}: {}, {} not arrived, {} reordered, PDV p99 {}",
                direction.name(),
                Cell::several(counts.unique, "packet"),
                // Lost ones are certain only when their numbers leave the window, long after.
                Cell::Count(way.highest.saturating_add(1).saturating_sub(counts.unique)),
                Cell::Count(counts.reordered),
                Cell::from(pdv.map(|ns| Cell::Duration(ns.cast_signed())))
            );
        }
    }

    /// Writes the figures of the interval.
    fn tell(&mut self) {
        for way in &mut self.ways {
            let Some(figures) = way.rolling.take_interval().filter(|_| self.json_lines) else { continue };
            if !is_told(way.over, &figures) {
                continue;
            }
            let figures = stored(way.direction, &figures, way.rolling.interarrival_jitter_ns());
            let line = line_of(way.start.elapsed(), &figures);
            if self.failed.is_none() {
                self.failed = to_stdout(format!("{line}\n").as_bytes()).err();
            }
        }
    }

    /// The figures of each direction, once all is over; `sent` tells how many packets each sent.
    pub(super) fn finish(mut self, sent: impl Fn(Direction) -> Option<u64>) -> Vec<RollingFigures> {
        self.tell();
        let results = self.ways.iter_mut().map(|way| way.finish(sent(way.direction)));
        results.collect()
    }
}

fn followed(following: Following) -> FollowedDrift {
    FollowedDrift {
        ppm: following.ppm,
        bound_ns: following.bound_ns.ceil() as i64,
        most_taken_ns: following.most_taken_ns.ceil() as i64,
        least: following.least.iter().map(|arrival| (arrival.sent_ns, arrival.received_ns)).collect(),
    }
}

/// An outage is told; that nothing comes of a flow that has ended is no news.
fn is_told(over: bool, figures: &Figures) -> bool {
    !over || figures.counts() != RollingCounts::default()
}

fn stored(direction: Direction, figures: &Figures, interarrival_jitter_ns: f64) -> RollingFigures {
    let counts = figures.counts();
    let delays = QUANTILES.map(|quantile| figures.delay_quantile_ns(quantile));
    let pdvs = QUANTILES.map(|quantile| figures.pdv_quantile_ns(quantile).map(u64::cast_signed));
    RollingFigures {
        direction: direction.name().to_owned(),
        unique: counts.unique,
        duplicate: counts.duplicate,
        reordered: counts.reordered,
        lost: counts.lost,
        beyond_window: counts.beyond_window,
        loss_periods: counts.loss_periods,
        longest_loss_period: counts.longest_loss_period,
        min_delay_ns: figures.min_delay_ns(),
        mean_delay_ns: figures.mean_delay_ns(),
        max_delay_ns: figures.max_delay_ns(),
        delay_quantiles_ns: all(delays),
        pdv_quantiles_ns: all(pdvs),
        interarrival_jitter_ns: (counts.unique > 0).then_some(interarrival_jitter_ns),
        followed: None,
        corrected: None,
    }
}

/// All four, or none where nothing arrived.
fn all(values: [Option<i64>; 4]) -> Option<[i64; 4]> {
    let [Some(a), Some(b), Some(c), Some(d)] = values else { return None };
    Some([a, b, c, d])
}

/// The figures of a way on which not one packet came.
fn nothing_arrived(direction: Direction, sent: u64) -> RollingFigures {
    RollingFigures {
        direction: direction.name().to_owned(),
        lost: sent,
        loss_periods: sent.min(1),
        longest_loss_period: sent,
        ..RollingFigures::default()
    }
}

fn line_of(elapsed: Duration, figures: &RollingFigures) -> Value {
    let mut line = json!({"after_ns": elapsed.as_nanos() as u64});
    if let (Some(line), Ok(Value::Object(figures))) = (line.as_object_mut(), serde_json::to_value(figures)) {
        line.extend(figures);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow() -> Live {
        let mut live = Live::new(true, true, None, None, Numbering::Jitlat);
        let at = ([127, 0, 0, 1], 9).into();
        live.hear(Progress::Started { direction: Direction::Up, source: at, destination: at });
        live
    }

    #[test]
    fn what_did_not_arrive_has_no_delay() {
        let figures = &follow().finish(|_| Some(7))[0];
        assert_eq!((figures.unique, figures.lost, figures.longest_loss_period), (0, 7, 7));
        let line = line_of(Duration::from_millis(1_500), figures);
        assert_eq!(line["after_ns"], 1_500_000_000);
        for name in ["min_delay_ns", "delay_quantiles_ns", "pdv_quantiles_ns", "interarrival_jitter_ns"] {
            assert_eq!(line[name], Value::Null, "{name}");
        }
    }

    #[test]
    fn an_interval_without_a_packet_is_told_while_the_flow_runs_and_not_after_it() {
        let mut live = follow();
        let singleton = Singleton { tx_real_time_ns: 5, tx_seq: 0, rx_real_time_ns: 9, flags: 0 };
        let stamped_by = quaver_path_flow::StampSource::Kernel;
        live.take(Direction::Up, &[Received { singleton, stamped_by, of_train: false }]);
        let due = |live: &mut Live| {
            let way = &mut live.ways[0];
            let figures = way.rolling.take_interval().unwrap();
            is_told(way.over, &figures).then(|| figures.counts().unique)
        };
        assert_eq!(due(&mut live), Some(1));
        assert_eq!(due(&mut live), Some(0), "an outage");
        live.hear(Progress::Ended { direction: Direction::Up });
        assert_eq!(due(&mut live), None);
    }

    /// A minute of both ways, the server's clock 7 ms ahead at first and 50 ppm fast. Packets take 1 ms, and up to 0.4 ms
    /// of queue.
    #[test]
    fn a_rolling_test_has_neither_drift_nor_offset_in_its_delays() {
        let mut live = Live::new(false, true, None, None, Numbering::Jitlat);
        let at = ([127, 0, 0, 1], 9).into();
        let server_ns = |true_ns: i64| true_ns + 7_000_000 + true_ns / 20_000;
        for direction in [Direction::Up, Direction::Down] {
            live.hear(Progress::Started { direction, source: at, destination: at });
            for number in 0..3_000 {
                let sent_ns = i64::from(number) * 20_000_000;
                let arrived_ns = sent_ns + 1_000_000 + i64::from(number) * 7_919 % 400 * 1_000;
                let (tx_real_time_ns, rx_real_time_ns) = match direction {
                    Direction::Up => (sent_ns, server_ns(arrived_ns)),
                    Direction::Down => (server_ns(sent_ns), arrived_ns),
                };
                let singleton = Singleton { tx_real_time_ns, tx_seq: number, rx_real_time_ns, flags: 0 };
                let stamped_by = quaver_path_flow::StampSource::Kernel;
                live.take(direction, &[Received { singleton, stamped_by, of_train: false }]);
            }
        }
        let rolling = live.finish(|_| Some(3_000));
        for figures in &rolling {
            let p99_ns = figures.pdv_quantiles_ns.unwrap()[2];
            assert!((p99_ns - 395_000).abs() < 4_000, "PDV p99 {p99_ns}: 3 ms of drift");
        }
        let flow = |direction| crate::view::tests::flow_facts(direction, 3_000);
        let flows = vec![flow(Direction::Up), flow(Direction::Down)];
        let run = crate::view::tests::run();
        let mut facts = crate::facts::PathFacts { flows, rolling, ..Default::default() };
        let digest = crate::digest::digest(&facts, &[vec![], vec![]], run.clone());
        let clock = digest.summary.clock.expect("packets both ways");
        assert!((clock.skew_ppm.unwrap() - 50.0).abs() < 0.5, "{clock:?}");
        for figures in &digest.summary.rolling {
            let delay = figures.corrected.as_ref().expect("both ways tell the offset");
            assert!((delay.min_ns - 1_000_000).abs() < 5_000 && delay.bound_ns < 1_200_000, "{delay:?}");
            assert!((delay.quantiles_ns[0] - 1_200_000).abs() < 10_000, "{delay:?}");
            assert!(figures.followed.as_ref().unwrap().least.is_empty(), "figures only");
        }
        // Ends that read one clock know that all that was taken out is an error.
        facts.boot_gap_ns = Some(0);
        facts.rolling.truncate(1);
        facts.rolling[0]
            .followed
            .as_mut()
            .unwrap()
            .least
            .iter_mut()
            .for_each(|(sent, at)| *at = *sent + 1_000_000);
        let figures = &crate::digest::digest(&facts, &[vec![], vec![]], run).summary.rolling[0];
        let taken_ns = figures.followed.as_ref().unwrap().bound_ns;
        assert!((taken_ns - 3_000_000).abs() < 30_000, "50 ppm for a minute: {taken_ns}");
        assert_eq!(figures.corrected.as_ref().unwrap().bound_ns, taken_ns);
    }
}
