//! A stream whose packets come no more, which no later packet shows.

use std::fmt;
use std::time::Duration;

/// A shorter silence is left to `gap`.
const LEAST_NS: u64 = 5_000_000_000;
/// A stream is silent where so many packets in a row do not come, ...
const PERIODS: f64 = 100.0;
/// ... and for so many times the second longest pause that it made.
const PAUSES: u64 = 3;

/// Arrivals of a receiver's packets, whatever became of these.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    came: u64,
    last_ns: u64,
    /// The longest pauses that have ended, the longest first. One may be an outage; two are the stream's way.
    longest_ns: [u64; 2],
    /// It was told.
    pub(super) told: bool,
}

/// What is worth a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// No packet has come for so long.
    Silent(Duration),
    /// A packet came, after so long.
    Again(Duration),
}

impl fmt::Display for Told {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(time) => {
                let seconds = time.as_secs_f64();
                write!(
                    out,
                    "no packet has entered the receiver's queue for {seconds:.1} s; look at the sender, the way from it and this host's filters"
                )
            }
            Self::Again(time) => write!(out, "packets come again, after {:.1} s without", time.as_secs_f64()),
        }
    }
}

impl Silence {
    /// Recording begins, anew perhaps. Counts of packets then begin at 0, and a silence goes on.
    pub(super) fn begin(&mut self, now_ns: u64) {
        self.came = 0;
        self.last_ns = if self.last_ns == 0 { now_ns } else { self.last_ns };
    }

    /// Takes the number of packets that came so far, and the stream's period where it is known.
    pub(super) fn look(&mut self, came: u64, period_ns: Option<f64>, now_ns: u64) -> Option<Told> {
        let quiet_ns = now_ns.saturating_sub(self.last_ns);
        if came != self.came {
            (self.came, self.last_ns) = (came, now_ns);
            let [first, second] = self.longest_ns;
            self.longest_ns = [first.max(quiet_ns), second.max(first.min(quiet_ns))];
            let told = std::mem::take(&mut self.told);
            return told.then_some(Told::Again(Duration::from_nanos(quiet_ns)));
        }
        let periods_ns = (period_ns.unwrap_or(0.0) * PERIODS) as u64;
        let limit_ns = periods_ns.max(LEAST_NS).max(self.longest_ns[1].saturating_mul(PAUSES));
        if self.told || quiet_ns <= limit_ns {
            return None;
        }
        self.told = true;
        Some(Told::Silent(Duration::from_nanos(quiet_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Reads the counters of a stream every 50 ms. It sends in the seconds for which `sends` is true. Returns each message and
    /// its second.
    fn watched(seconds: u64, period_ns: Option<f64>, sends: impl Fn(u64) -> bool) -> Vec<(u64, Told)> {
        let (mut silence, mut came, mut found) = (Silence::default(), 0, Vec::new());
        silence.begin(MS);
        for tick in 1..=seconds * 20 {
            came += u64::from(sends((tick - 1) / 20)) * 25;
            found.extend(silence.look(came, period_ns, MS + tick * 50 * MS).map(|told| (tick / 20, told)));
        }
        found
    }

    fn silent(ms: u64) -> Told {
        Told::Silent(Duration::from_millis(ms))
    }

    fn again(ms: u64) -> Told {
        Told::Again(Duration::from_millis(ms))
    }

    #[test]
    fn a_stream_that_stops_for_good_is_told_once() {
        assert_eq!(watched(600, Some(2e6), |second| second < 60), [(65, silent(5_050))]);
        // 100 packets of 80 ms are 8 s.
        assert_eq!(watched(600, Some(8e7), |second| second < 60), [(68, silent(8_050))]);
        assert_eq!(watched(60, Some(2e6), |_| true), []);
    }

    #[test]
    fn pauses_of_a_kind_are_the_streams_way_and_a_longer_one_is_told() {
        // Ten seconds with packets, twenty without; at last none.
        let found = watched(900, None, |second| second < 300 && second % 30 < 10);
        let expected = [
            (15, silent(5_050)),
            (30, again(20_050)),
            (45, silent(5_050)),
            (60, again(20_050)),
            (340, silent(60_200)),
        ];
        assert_eq!(found, expected);
        // An outage of a quarter of an hour is no such kind.
        let found = watched(3_000, None, |second| second < 60 || (960..1_100).contains(&second));
        assert_eq!(found, [(65, silent(5_050)), (960, again(900_050)), (1_105, silent(5_050))]);
    }

    #[test]
    fn a_silence_goes_on_where_recording_begins_anew() {
        let mut silence = Silence::default();
        silence.begin(MS);
        assert_eq!(silence.look(25, None, 51 * MS), None);
        assert_eq!(silence.look(25, None, 5_102 * MS), Some(silent(5_051)));
        silence.begin(6_000 * MS);
        assert_eq!(silence.look(0, None, 20_000 * MS), None);
        assert_eq!(silence.look(1, None, 30_051 * MS), Some(again(30_000)));
        assert_eq!(
            silent(5_051).to_string(),
            "no packet has entered the receiver's queue for 5.1 s; look at the sender, the way from it and this host's filters"
        );
        assert_eq!(again(30_000).to_string(), "packets come again, after 30.0 s without");
    }
}
