//! What the watch said, second after second, and what lies between two of its answers.

use crate::board::{Figures, Incident, Outcomes, PathState, ReceiverState};
use quaver_exposition::histogram::{BOUNDS_US, Histogram};
use quaver_view::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Answers that are kept: a quarter of an hour.
const MOST: usize = 900;
/// Seconds over which rates and quantiles are taken.
pub(super) const LATELY_S: i64 = 10;

/// Answers of a watch, the newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Where the watch answers.
    pub(super) place: String,
    answers: VecDeque<Arc<Figures>>,
    /// Why the last question had no answer.
    pub(super) trouble: Option<String>,
}

/// What a receiver, or a table of threads, did between two answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stretch {
    pub(super) seconds: f64,
    /// Packets received, or waits that have ended.
    pub(super) count: u64,
    pub(super) missing: u64,
    pub(super) dropped: u64,
    pub(super) incidents: u64,
    /// Lateness of packets, or waits for a CPU.
    pub(super) times: Histogram,
}

impl History {
    pub(super) fn new(place: String) -> Self {
        Self { place, ..Self::default() }
    }

    pub(super) fn push(&mut self, figures: Figures) {
        self.answers.push_back(Arc::new(figures));
        let surplus = self.answers.len().saturating_sub(MOST);
        self.answers.drain(..surplus);
        self.trouble = None;
    }

    pub(super) fn miss(&mut self, error: &anyhow::Error) {
        self.trouble = Some(format!("{error:#}"));
    }

    pub(super) fn newest(&self) -> Option<&Figures> {
        self.at(0)
    }

    /// The answer that was so many before the newest; the oldest where there are not so many.
    pub(super) fn at(&self, back: usize) -> Option<&Figures> {
        let place = self.answers.len().checked_sub(1)?.saturating_sub(back);
        self.answers.get(place).map(AsRef::as_ref)
    }

    /// How far back one can go.
    pub(super) fn most_back(&self) -> usize {
        self.answers.len().saturating_sub(1)
    }

    /// The last ten seconds of a receiver or table of threads, up to an answer.
    pub(super) fn lately(&self, name: &str, back: usize) -> Stretch {
        let Some(later) = self.at(back) else { return Stretch::default() };
        let last = self.answers.len() - 1 - back.min(self.answers.len() - 1);
        let young =
            |figures: &&Arc<Figures>| later.realtime_ns - figures.realtime_ns <= LATELY_S * 1_000_000_000;
        // A little more or less than a second lies between two answers, so one more may be needed.
        let earlier = self.answers.range(..last).rev().take_while(young).last();
        Stretch::between(name, earlier.map(AsRef::as_ref), later)
    }

    /// Each pair of answers, the newest last, up to an answer: at most so many.
    pub(super) fn each(&self, name: &str, back: usize, most: usize) -> Vec<Stretch> {
        let end = self.answers.len().saturating_sub(back);
        let begin = end.saturating_sub(most + 1);
        let answers: Vec<&Arc<Figures>> = self.answers.range(begin..end).collect();
        answers.windows(2).map(|pair| Stretch::between(name, Some(pair[0]), pair[1])).collect()
    }
}

impl Stretch {
    /// All that was counted of a receiver, or of a table of threads, up to an answer.
    fn until(name: &str, figures: &Figures) -> Option<Self> {
        if let Some(state) = figures.receivers.get(name) {
            let ReceiverState { missing, dropped, ref lateness, ref outcomes, .. } = *state;
            let (times, incidents) = (lateness.clone(), incidents(outcomes));
            return Some(Self {
                count: state.received,
                missing,
                dropped,
                incidents,
                times,
                ..Self::default()
            });
        }
        let state = figures.threads.get(name)?;
        let mut times = Histogram::default();
        state.waits.values().for_each(|waits| times.merge(waits));
        let count = times.counts.iter().sum();
        Some(Self { count, incidents: incidents(&state.outcomes), times, ..Self::default() })
    }

    /// A watch that began anew counts from 0 again. Without an earlier answer nothing is known of a stretch.
    fn between(name: &str, earlier: Option<&Figures>, later: &Figures) -> Self {
        let (Some(earlier), Some(now)) = (earlier, Self::until(name, later)) else {
            return Self::default();
        };
        let before =
            Self::until(name, earlier).filter(|before| before.count <= now.count).unwrap_or_default();
        Self {
            seconds: (later.realtime_ns - earlier.realtime_ns) as f64 / 1e9,
            count: now.count - before.count,
            missing: now.missing.saturating_sub(before.missing),
            dropped: now.dropped.saturating_sub(before.dropped),
            incidents: now.incidents.saturating_sub(before.incidents),
            times: now.times.since(&before.times),
        }
    }

    /// Packets, or waits, in a second.
    pub(super) fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.count as f64 / self.seconds)
    }
}

/// Incidents, those counted in others included.
pub(super) fn incidents(outcomes: &Outcomes) -> u64 {
    outcomes.incidents.values().chain(outcomes.folded.values()).sum()
}

/// A path in a line: losses first, since they are what a narrow screen must show.
pub(super) fn path_line((name, state): (&String, &PathState)) -> String {
    let [p50, p99] = [0.5, 0.99].map(|quantile| bound(&state.round_trip, quantile));
    let silent = if state.silent { "no reply comes; " } else { "" };
    let (sent, lost) = (Cell::several(state.sent, "packet"), Cell::Count(state.lost));
    format!("{name}: {silent}{lost} lost of {sent}; round trip p50 {p50}, p99 {p99}; {}", state.words)
}

/// `≤ 50.0 µs`, `> 1.00 s`; `-` without any.
pub(super) fn bound(histogram: &Histogram, quantile: f64) -> String {
    let word = |us: u64| Cell::Duration((us * 1_000).cast_signed());
    match histogram.bucket(quantile).map(|bucket| BOUNDS_US.get(bucket)) {
        None => "-".to_owned(),
        Some(Some(us)) => format!("≤ {}", word(*us)),
        Some(None) => format!("> {}", word(BOUNDS_US[BOUNDS_US.len() - 1])),
    }
}

/// `22:10:03` in UTC.
pub(super) fn time_of_day(realtime_ns: i64) -> String {
    let second = realtime_ns.div_euclid(1_000_000_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
}

/// When it was triggered: `22:10:03 studio, 3 times by now: a packet came 412.00 ms late`, the cause, and how to open it.
pub(super) fn incident_lines(incident: &Incident) -> [String; 3] {
    let Incident { trigger_realtime_ns, subject, run, count, reasons, words, .. } = incident;
    let times = if *count > 1 { format!(", {count} times by now") } else { String::new() };
    [
        format!("{} {subject}{times}: {reasons}", time_of_day(*trigger_realtime_ns)),
        format!("  {words}"),
        format!("  quaver report {run}"),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::judge::PacketFigures;

    /// So many seconds of 500 packets a second, one of them late by 1.5 ms in each third second; 2 lost in the eighth.
    pub(in crate::top) fn history(seconds: i64) -> History {
        let mut history = History::new("/run/quaver/watch.sock".to_owned());
        let mut state =
            ReceiverState { watched: true, words: "pid 812 (rx)".to_owned(), ..ReceiverState::default() };
        for second in 0..seconds {
            let mut figures = PacketFigures { received: 500, ..PacketFigures::default() };
            (0..499).for_each(|n| figures.lateness.add(4_000 + n * 50));
            figures.lateness.add(if second % 3 == 2 { 1_500_000 } else { 40_000 });
            (0..500).for_each(|_| figures.delivery.add(9_000));
            figures.missing = if second == 7 { 2 } else { 0 };
            state.add(&figures);
            if second == 5 {
                state.outcomes.incidents.insert("stopped".to_owned(), 1);
                state.outcomes.explained_ns.insert("stopped".to_owned(), 1_510_000_000);
                state.outcomes.explained_ns.insert("runqueue".to_owned(), 210_000_000);
                state.outcomes.explained_ns.insert("unexplained".to_owned(), 30_000_000);
            }
            let gone =
                ReceiverState { words: "no such receiver runs".to_owned(), ..ReceiverState::default() };
            let kept = Incident {
                realtime_ns: 36_005_000_000_000,
                trigger_realtime_ns: 36_005_000_000_000,
                subject: "studio".to_owned(),
                run: "/var/lib/quaver/watch/incidents/20261123T100005Z-watch".to_owned(),
                count: 1,
                reasons: "a packet came 412.00 ms late".to_owned(),
                words: "86 % receiver stopped (stopped)".to_owned(),
            };
            history.push(Figures {
                realtime_ns: (36_000 + second) * 1_000_000_000,
                receivers: [("studio".to_owned(), state.clone()), ("return".to_owned(), gone)].into(),
                incidents: if second >= 5 { [kept].into() } else { VecDeque::new() },
                ..Figures::default()
            });
        }
        history
    }

    #[test]
    fn the_last_ten_seconds_and_no_more() {
        let history = history(30);
        let lately = history.lately("studio", 0);
        assert_eq!((lately.seconds, lately.count, lately.missing), (10.0, 5_000, 0));
        assert_eq!(lately.rate(), Some(500.0));
        assert_eq!(bound(&lately.times, 0.5), "≤ 20.0 µs");
        assert_eq!(
            (bound(&lately.times, 0.99), bound(&lately.times, 1.0)),
            ("≤ 50.0 µs".into(), "≤ 2.00 ms".into())
        );
        // The eighth second, 22 answers ago.
        assert_eq!(history.lately("studio", 22).missing, 2);
        assert_eq!(history.lately("studio", 999), Stretch::default());
        assert_eq!(history.lately("nobody", 0), Stretch::default());
        assert_eq!(bound(&Histogram::default(), 0.5), "-");
    }

    #[test]
    fn a_watch_that_began_anew_counts_from_nothing() {
        let mut history = history(5);
        let mut fresh = history.at(4).unwrap().clone();
        fresh.realtime_ns = 36_005_000_000_000;
        history.push(fresh);
        let last = history.each("studio", 0, 1);
        assert_eq!((last.len(), last[0].count), (1, 500));
    }

    #[test]
    fn memory_is_bounded() {
        let mut history = history(2);
        (0..2_000).for_each(|_| history.push(Figures::default()));
        assert_eq!(history.most_back(), MOST - 1);
        history.miss(&anyhow::anyhow!("nobody answers"));
        assert!(history.newest().is_some() && history.trouble.is_some());
        assert_eq!(time_of_day(-1), "23:59:59");
    }
}
