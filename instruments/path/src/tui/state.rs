//! What the live view knows: plain data, changed by events and read by whoever draws.

use super::series::Series;
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::rolling::Figures;
use quaver_path_record::Progress;
use std::time::Duration;

/// Bars of the histogram of PDV.
pub const BARS: usize = 24;

/// A test, as far as it is known while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Who is measured to.
    pub peer: String,
    /// What is spoken, and what is sent.
    pub what: String,
    /// What is being done.
    pub stage: Stage,
    /// The directions that were asked for, in their order.
    pub ways: Vec<Way>,
}

/// What a test is doing.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Making the control connection.
    Connecting,
    /// It stands, and round trips are measured.
    RoundTrips {
        /// How many there are.
        count: u32,
        /// The least of them, nanoseconds.
        least_ns: Option<i64>,
    },
    /// The server measures for others; so many are before us, counting from 1.
    Queued(u32),
    /// Test packets are on their way.
    Testing,
}

/// How far a direction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its turn comes later.
    Waiting,
    /// Since then, on the clock of the view.
    Running(Duration),
    /// All that is to be known of it is known.
    Done,
}

/// One direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    /// Which.
    pub direction: Direction,
    /// Whether figures come while it runs. Else the receiver tells them at the end.
    pub live: bool,
    /// How far it is.
    pub phase: Phase,
    /// How long it lasts by its schedule, where that is known.
    pub length: Option<Duration>,
    /// Figures of all its packets so far; none before the first.
    pub totals: Option<Totals>,
    /// Over time.
    pub series: Series,
}

/// Figures of all packets of a direction so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// First copies that came.
    pub received: u64,
    /// Numbers up to the highest that came, without a packet so far. At the end of a test these are the lost ones.
    pub not_arrived: u64,
    /// Further copies.
    pub duplicate: u64,
    /// First copies that came after a packet with a larger number.
    pub reordered: u64,
    /// Smallest, median, 99th percentile, largest delay as measured, nanoseconds.
    pub delay_ns: [i64; 4],
    /// Median and 99th percentile of PDV, nanoseconds.
    pub pdv_ns: [u64; 2],
    /// RFC 3550, nanoseconds.
    pub interarrival_jitter_ns: f64,
    /// PDV.
    pub histogram: PdvHistogram,
}

/// Packets by their PDV, in bars of one width from 0 to a limit: about its 99th percentile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PdvHistogram {
    /// End of the last bar, nanoseconds.
    pub limit_ns: u64,
    /// Packets of each bar.
    pub bars: [u64; BARS],
    /// Packets beyond.
    pub above: u64,
}

impl View {
    /// A test that is about to begin.
    pub fn new(peer: String, what: String, ways: Vec<Way>) -> Self {
        Self { peer, what, stage: Stage::Connecting, ways }
    }

    /// Follows the test, but for its packets, which come by [`View::take`].
    pub fn hear(&mut self, progress: &Progress<'_>, now: Duration) {
        match progress {
            Progress::Connected { .. } => self.stage = Stage::RoundTrips { count: 0, least_ns: None },
            Progress::Probe(probe) => self.round_trip(probe.rtt_ns()),
            Progress::Queued { place } => self.stage = Stage::Queued(*place),
            Progress::Started { direction, .. } => self.begin(*direction, now),
            Progress::Samples { .. } => {}
            Progress::Ended { direction } => self.end(*direction),
        }
    }

    /// Takes first copies of packets: number and delay.
    pub fn take(&mut self, direction: Direction, first_copies: &[(u64, i64)]) {
        if let Some(way) = self.way(direction) {
            first_copies.iter().for_each(|(sequence, delay_ns)| way.series.take(*sequence, *delay_ns));
        }
    }

    /// A round trip was measured.
    pub fn round_trip(&mut self, rtt_ns: i64) {
        let (count, least_ns) = match self.stage {
            Stage::RoundTrips { count, least_ns } => (count, least_ns),
            _ => (0, None),
        };
        let least_ns = Some(least_ns.map_or(rtt_ns, |least_ns| least_ns.min(rtt_ns)));
        self.stage = Stage::RoundTrips { count: count + 1, least_ns };
    }

    /// A direction begins, on the clock of the view.
    pub fn begin(&mut self, direction: Direction, at: Duration) {
        self.stage = Stage::Testing;
        if let Some(way) = self.way(direction) {
            way.phase = Phase::Running(at);
        }
    }

    /// A direction is over.
    pub fn end(&mut self, direction: Direction) {
        if let Some(way) = self.way(direction) {
            way.phase = Phase::Done;
        }
    }

    /// A direction.
    pub fn way(&mut self, direction: Direction) -> Option<&mut Way> {
        self.ways.iter_mut().find(|way| way.direction == direction)
    }

    /// Where the direction that is looked at unless the user chose another one stands: the one that runs, else the last
    /// one that did, else the first.
    pub fn foremost(&self) -> usize {
        let running = self.ways.iter().position(|way| matches!(way.phase, Phase::Running(_)));
        let done = self.ways.iter().rposition(|way| way.phase == Phase::Done);
        running.or(done).unwrap_or(0)
    }
}

impl Way {
    /// A direction whose turn will come; a packet is sent each `period_ns`.
    pub fn new(direction: Direction, live: bool, period_ns: u64, length: Option<Duration>) -> Self {
        let series = Series::new(period_ns, length);
        Self { direction, live, phase: Phase::Waiting, length, totals: None, series }
    }
}

impl Totals {
    /// From rolling figures; `numbers` is one more than the highest number that came. None before the first packet.
    pub fn of(figures: &Figures, numbers: u64, interarrival_jitter_ns: f64) -> Option<Self> {
        let counts = figures.counts();
        let delay = |quantile| figures.delay_quantile_ns(quantile);
        let pdv = |quantile| figures.pdv_quantile_ns(quantile);
        let p99_ns = pdv(0.99)?;
        Some(Self {
            received: counts.unique,
            not_arrived: numbers.saturating_sub(counts.unique),
            duplicate: counts.duplicate,
            reordered: counts.reordered,
            delay_ns: [figures.min_delay_ns()?, delay(0.5)?, delay(0.99)?, figures.max_delay_ns()?],
            pdv_ns: [pdv(0.5)?, p99_ns],
            interarrival_jitter_ns,
            histogram: PdvHistogram::of(figures, p99_ns),
        })
    }

    /// Part of the numbers up to the highest that have not arrived, 0 to 1.
    pub fn not_arrived_share(&self) -> f64 {
        self.not_arrived as f64 / (self.not_arrived + self.received).max(1) as f64
    }
}

impl PdvHistogram {
    fn of(figures: &Figures, p99_ns: u64) -> Self {
        // Whole nanoseconds a bar, and the 99th percentile inside the last one.
        let bar_ns = (p99_ns / BARS as u64 + 1).min(u64::MAX / BARS as u64);
        let limits: [u64; BARS] = std::array::from_fn(|at| bar_ns * (at as u64 + 1));
        let counts = figures.pdv_histogram(&limits);
        let mut bars = [0; BARS];
        bars.copy_from_slice(&counts[..BARS]);
        Self { limit_ns: bar_ns * BARS as u64, bars, above: counts[BARS] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_arrivals::path::arrival::Arrival;
    use quaver_arrivals::path::rolling::{Rolling, WINDOW};

    fn way(direction: Direction) -> Way {
        Way::new(direction, direction == Direction::Down, 1_000_000, None)
    }

    fn both() -> View {
        let ways = vec![way(Direction::Up), way(Direction::Down)];
        View::new("192.0.2.7:2666".to_owned(), String::new(), ways)
    }

    #[test]
    fn the_way_that_runs_is_looked_at_then_the_last_one() {
        let mut view = both();
        assert_eq!(view.foremost(), 0);
        view.begin(Direction::Up, Duration::from_secs(1));
        view.end(Direction::Up);
        assert_eq!((view.foremost(), view.ways[0].phase), (0, Phase::Done));
        view.begin(Direction::Down, Duration::from_secs(2));
        assert_eq!((view.foremost(), view.ways[1].phase), (1, Phase::Running(Duration::from_secs(2))));
        view.end(Direction::Down);
        assert_eq!(view.foremost(), 1);
        // One that was not asked for changes nothing.
        let mut down = View::new(String::new(), String::new(), vec![way(Direction::Down)]);
        down.begin(Direction::Up, Duration::ZERO);
        assert_eq!(down.ways, [way(Direction::Down)]);
    }

    #[test]
    fn the_least_round_trip_is_kept() {
        let mut view = both();
        [5_000, 3_000, 4_000].into_iter().for_each(|rtt_ns| view.round_trip(rtt_ns));
        assert_eq!(view.stage, Stage::RoundTrips { count: 3, least_ns: Some(3_000) });
    }

    #[test]
    fn totals_say_what_has_not_arrived_before_it_is_lost() {
        let mut rolling = Rolling::new(WINDOW);
        // 2 does not arrive, 4 comes twice and before 3.
        for (sequence, delay_ns) in [(0, 1_000), (1, 1_500), (4, 1_200), (4, 1_200), (3, 3_000)] {
            rolling.push(&Arrival { sequence, sent_ns: 7, received_ns: 7 + delay_ns });
        }
        let interarrival_jitter_ns = rolling.interarrival_jitter_ns();
        let totals = Totals::of(rolling.total().unwrap(), 5, interarrival_jitter_ns).unwrap();
        assert_eq!((totals.received, totals.not_arrived, totals.duplicate, totals.reordered), (4, 1, 1, 1));
        assert_eq!((totals.delay_ns[0], totals.delay_ns[3], totals.pdv_ns), (1_000, 3_000, [200, 2_000]));
        assert_eq!(totals.not_arrived_share(), 0.2);
        let histogram = totals.histogram;
        assert!(histogram.limit_ns > 2_000 && histogram.limit_ns <= 2_000 + BARS as u64);
        assert_eq!((histogram.bars.iter().sum::<u64>(), histogram.above), (4, 0));
        assert_eq!((histogram.bars[0], histogram.bars[2], histogram.bars[5]), (1, 1, 1));
    }
}
