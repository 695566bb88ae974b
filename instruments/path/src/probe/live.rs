//! What is shown while a test runs: a line of rolling figures, JSON lines or the live view, in constant memory.

use crate::facts::RollingFigures;
use crate::tui::{LiveView, Totals, View, Way as ViewWay};
use quaver_abi::wire::jitlat::{FLAG_INVALID, Singleton};
use quaver_analysis::path::arrival::{Arrival, Numbering};
use quaver_analysis::path::direction::Direction;
use quaver_analysis::path::rolling::{Figures, Rolling, RollingCounts, WINDOW};
use quaver_instrument::progress::Progress as Line;
use quaver_instrument::results::to_stdout;
use quaver_path_record::flow::{FlowSchedule, Received, Transport};
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
    rolling: Rolling,
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
        Directions::Both => &[Direction::Up, Direction::Down],
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
                let (rolling, start) = (Rolling::new(WINDOW), self.start);
                self.ways.push(Way { direction, rolling, highest: 0, told: None, start, over: false });
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
            way.rolling.push(&arrival);
            if self.view.is_some() && sample.flags == 0 {
                first_copies.push((sequence, arrival.delay_ns()));
            }
        }
        if let Some(view) = &self.view {
            view.update(|view, _| view.take(direction, &first_copies));
            return way.tell(Some(view));
        }
        let total = way.rolling.total().map(|figures| (figures.counts(), figures.pdv_quantile_ns(0.99)));
        if let Some((counts, pdv)) = total {
            self.words = format!(
                "{}: {} packets, {} not arrived, {} reordered, PDV p99 {}",
                direction.name(),
                Cell::Count(counts.unique),
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
        let results = self.ways.iter_mut().map(|way| {
            let sent = sent(way.direction);
            way.rolling.finish(sent);
            let interarrival_ns = way.rolling.interarrival_jitter_ns();
            match way.rolling.total() {
                Some(figures) => stored(way.direction, figures, interarrival_ns),
                None => nothing_arrived(way.direction, sent.unwrap_or(0)),
            }
        });
        results.collect()
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
    let mut line = json!({"after_ms": elapsed.as_millis() as u64});
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
        assert_eq!(line["after_ms"], 1_500);
        for name in ["min_delay_ns", "delay_quantiles_ns", "pdv_quantiles_ns", "interarrival_jitter_ns"] {
            assert_eq!(line[name], Value::Null, "{name}");
        }
    }

    #[test]
    fn an_interval_without_a_packet_is_told_while_the_flow_runs_and_not_after_it() {
        let mut live = follow();
        let singleton = Singleton { tx_real_time_ns: 5, tx_seq: 0, rx_real_time_ns: 9, flags: 0 };
        let stamped_by = quaver_path_record::flow::StampSource::Kernel;
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
}
