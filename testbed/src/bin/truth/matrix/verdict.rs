//! How much of the added lateness was named rightly, named wrongly, or not named: pure functions over two controls and the run
//! between them.

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Added lateness goes at least in this part to what is right …
pub(super) const RIGHT_AT_LEAST: f64 = 0.90;
/// … and at most in this part to what is wrong.
pub(super) const WRONG_AT_MOST: f64 = 0.05;
/// Less added late time than this in each second proves nothing.
const LEAST_ADDED_NS_PER_S: f64 = 1_000_000.0;
/// Controls that differ by more than this part of the added lateness hide what is judged.
const CONTROLS_DIFFER_AT_MOST: f64 = 0.20;
/// Key of time without a cause.
const UNEXPLAINED: &str = "unexplained";

/// Late time of a run by what it was booked to: nanoseconds in each second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Lateness(BTreeMap<String, f64>);

impl Lateness {
    /// Reads a chase's summary. Where a right entry (see `Cause::right`) names more than an identifier, what meets it gets a
    /// key of its own.
    ///
    /// # Errors
    /// A key is missing, or the causes do not add up to the late time.
    pub(super) fn read(summary: &Value, right: &[&str]) -> anyhow::Result<Self> {
        let number = |value: &Value, path: &str| {
            let found = value.pointer(path).and_then(Value::as_i64);
            found.with_context(|| format!("no {path} in the summary"))
        };
        let duration_ns = number(summary, "/duration_ns")?;
        if duration_ns <= 0 {
            bail!("a run of {duration_ns} ns");
        }
        let causes = summary["causes"].as_array().context("no /causes in the summary")?;
        let unexplained_ns = number(summary, "/unexplained/time_ns")?;
        let mut times = BTreeMap::from([(UNEXPLAINED.to_owned(), unexplained_ns)]);
        for cause in causes {
            let source = cause["source"].as_str().context("a cause without a source")?;
            let name = cause["name"].as_str().context("a cause without a name")?;
            *times.entry(key_of(source, name, right).to_owned()).or_default() += number(cause, "/time_ns")?;
        }
        let (booked_ns, late_ns) = (times.values().sum::<i64>(), number(summary, "/lateness/time_ns")?);
        if booked_ns != late_ns {
            bail!("{booked_ns} ns are booked of {late_ns} ns of late time");
        }
        let per_s = |time_ns: i64| time_ns as f64 * 1e9 / duration_ns as f64;
        Ok(Self(times.into_iter().map(|(key, time_ns)| (key, per_s(time_ns))).collect()))
    }

    fn of(&self, key: &str) -> f64 {
        self.0.get(key).copied().unwrap_or(0.0)
    }

    fn total(&self) -> f64 {
        self.0.values().sum()
    }
}

/// The right entry that a cause meets; its source where it meets none.
fn key_of<'a>(source: &'a str, name: &str, right: &[&'a str]) -> &'a str {
    let meets = |entry: &&&str| match entry.split_once(' ') {
        Some((id, start)) => id == source && name.starts_with(start),
        None => **entry == source,
    };
    right.iter().find(meets).copied().unwrap_or(source)
}

/// Whether a cell is as it must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Grade {
    Met,
    Missed,
    /// Nothing can be said, because of what `Verdict::why` says.
    None,
}

/// What a cell showed. Shares are parts of the added lateness.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) grade: Grade,
    /// Why there is no grade, or why the run was refused.
    pub(super) why: Option<String>,
    pub(super) added_ns_per_s: Option<f64>,
    pub(super) right_share: Option<f64>,
    pub(super) wrong_share: Option<f64>,
    pub(super) silent_share: Option<f64>,
    /// Difference of the two controls.
    pub(super) controls_differ_share: Option<f64>,
    /// What was wrong, by identifier.
    pub(super) wrong_by_source: BTreeMap<String, f64>,
}

impl Verdict {
    /// Without figures.
    pub(super) fn without(grade: Grade, why: impl Into<String>) -> Self {
        Self {
            grade,
            why: Some(why.into()),
            added_ns_per_s: None,
            right_share: None,
            wrong_share: None,
            silent_share: None,
            controls_differ_share: None,
            wrong_by_source: BTreeMap::new(),
        }
    }
}

/// Judges a run by the controls before and after it. Wrong is an identifier that has more than in either control, and is
/// neither right nor unexplained.
pub(super) fn judge(right: &[&str], controls: [&Lateness; 2], injected: &Lateness) -> Verdict {
    let [before, after] = controls;
    let added_of = |key: &str| injected.of(key) - (before.of(key) + after.of(key)) / 2.0;
    let added = injected.total() - (before.total() + after.total()) / 2.0;
    if added < LEAST_ADDED_NS_PER_S {
        let mut verdict = Verdict::without(Grade::None, "too little lateness was added");
        verdict.added_ns_per_s = Some(added);
        return verdict;
    }
    let right_share = right.iter().map(|entry| added_of(entry)).sum::<f64>() / added;
    let surplus = |key: &String| injected.of(key) - before.of(key).max(after.of(key));
    let wrong_by_source: BTreeMap<String, f64> = injected
        .0
        .keys()
        .filter(|key| !right.contains(&key.as_str()) && *key != UNEXPLAINED)
        .map(|key| (key.clone(), surplus(key) / added))
        .filter(|(_, share)| *share > 0.0)
        .collect();
    let wrong_share = wrong_by_source.values().sum::<f64>();
    let controls_differ = (before.total() - after.total()).abs() / added;
    let (grade, why) = if controls_differ > CONTROLS_DIFFER_AT_MOST {
        (Grade::None, Some("the controls differ".to_owned()))
    } else if right_share >= RIGHT_AT_LEAST && wrong_share <= WRONG_AT_MOST {
        (Grade::Met, None)
    } else {
        (Grade::Missed, None)
    };
    Verdict {
        grade,
        why,
        added_ns_per_s: Some(added),
        right_share: Some(right_share),
        wrong_share: Some(wrong_share),
        silent_share: Some(added_of(UNEXPLAINED) / added),
        controls_differ_share: Some(controls_differ),
        wrong_by_source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Milliseconds of late time in a run of one second.
    fn lateness(times: &[(&str, i64)]) -> Lateness {
        Lateness(times.iter().map(|(key, ms)| ((*key).to_owned(), *ms as f64 * 1e6)).collect())
    }

    fn summary() -> Value {
        json!({
            "duration_ns": 2_000_000_000_i64,
            "lateness": { "time_ns": 100 },
            "unexplained": { "time_ns": 10 },
            "causes": [
                { "source": "cfs-preempt", "name": "thread hog (normal)", "time_ns": 50 },
                { "source": "cfs-preempt", "name": "thread innocent (normal)", "time_ns": 30 },
                { "source": "tick", "name": "scheduler tick", "time_ns": 10 },
            ],
        })
    }

    #[test]
    fn added_lateness_is_shared_out() {
        let quiet = lateness(&[("tick", 2), (UNEXPLAINED, 1)]);
        let injected = lateness(&[("tick", 5), ("stopped", 90), (UNEXPLAINED, 8)]);
        let verdict = judge(&["stopped"], [&quiet, &quiet], &injected);
        assert_eq!(verdict.added_ns_per_s, Some(100e6));
        assert_eq!((verdict.right_share, verdict.wrong_share), (Some(0.90), Some(0.03)));
        assert_eq!((verdict.silent_share, verdict.grade), (Some(0.07), Grade::Met));
        assert_eq!(judge(&["frozen"], [&quiet, &quiet], &injected).grade, Grade::Missed);
        let worse = lateness(&[("tick", 8), ("stopped", 95)]);
        assert_eq!(judge(&["stopped"], [&quiet, &quiet], &worse).grade, Grade::Missed, "6 % are wrong");
    }

    #[test]
    fn what_either_control_has_is_not_wrong() {
        let [before, after] = [lateness(&[("tick", 1)]), lateness(&[("tick", 11)])];
        let injected = lateness(&[("tick", 11), ("stopped", 100)]);
        let verdict = judge(&["stopped"], [&before, &after], &injected);
        assert!(verdict.wrong_by_source.is_empty());
        assert_eq!(verdict.controls_differ_share, Some(10.0 / 105.0));
        assert_eq!(verdict.grade, Grade::Met);
    }

    #[test]
    fn without_data_there_is_no_verdict() {
        let quiet = lateness(&[("tick", 1)]);
        assert_eq!(judge(&["tick"], [&quiet, &quiet], &quiet).grade, Grade::None, "nothing was injected");
        let loud = lateness(&[("tick", 41)]);
        let injected = lateness(&[("stopped", 100)]);
        let verdict = judge(&["stopped"], [&quiet, &loud], &injected);
        assert_eq!((verdict.grade, verdict.right_share.is_some()), (Grade::None, true), "{:?}", verdict.why);
    }

    #[test]
    fn a_name_tells_the_guilty_from_innocents_of_one_source() {
        let read = Lateness::read(&summary(), &["cfs-preempt thread hog"]).unwrap();
        assert_eq!(read.of("cfs-preempt thread hog"), 25.0, "in each of two seconds");
        assert_eq!((read.of("cfs-preempt"), read.of(UNEXPLAINED)), (15.0, 5.0));
        assert_eq!(Lateness::read(&summary(), &["cfs-preempt"]).unwrap().of("cfs-preempt"), 40.0);
    }

    #[test]
    fn a_summary_that_does_not_add_up_is_refused() {
        for (path, value) in [("time_ns", json!(99)), ("time_ns", Value::Null)] {
            let mut broken = summary();
            broken["lateness"][path] = value;
            assert!(Lateness::read(&broken, &[]).is_err());
        }
        let mut without = summary();
        without.as_object_mut().unwrap().remove("causes");
        assert!(Lateness::read(&without, &[]).is_err());
    }
}
