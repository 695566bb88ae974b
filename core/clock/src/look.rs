//! A short look at the clocks of this machine, for `quaver doctor`.

use super::counter::Counter;
use super::cross_core::{CrossCore, compare_allowed_cpus};
use super::daemons::ClockDaemons;
use super::kernel::KernelState;
use super::live::{LiveOptions, LiveTicker};
use super::phc::Phc;
use super::{CounterSupport, SystemClocks};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Anchors of the look: with their waiting times, 0.15 s.
const ANCHORS: u32 = 5;
/// CPUs whose counters are compared, and the time for each pair.
const MOST_CPUS: usize = 8;
const EACH_PAIR: Duration = Duration::from_millis(5);

/// What was seen of the clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockLook {
    /// Name of the counter that instruments use here.
    pub counter: String,
    /// Why it is not the hardware's; none where it is.
    pub refusal: Option<String>,
    /// The kernel's clocksource.
    pub clocksource: Option<String>,
    /// Rate of the counter, Hz, rounded.
    pub counter_hz: u64,
    /// Bound of a conversion right after an anchor, nanoseconds.
    pub bound_ns: u32,
    /// Half-bracket of the last anchor, nanoseconds.
    pub half_bracket_ns: u32,
    /// Counters of the CPUs.
    pub cross_core: CrossCoreLook,
    /// Whether the kernel's clock follows a reference.
    pub synchronised: bool,
    /// The kernel's clock was corrected no longer ago than this, nanoseconds, where it follows a reference.
    pub corrected_within_ns: i64,
    /// Programs that correct clocks, in words.
    pub daemons: String,
    /// The kernel calls its clock synchronised, and no program that could have corrected it runs.
    pub abandoned: bool,
    /// The kernel's correction of the rate, parts per billion.
    pub frequency_ppb: i64,
    /// Leap second: `none`, `insert pending` and so on.
    pub leap: String,
    /// TAI minus UTC as the kernel was told, seconds; none where nobody told it.
    pub tai_offset_s: Option<i32>,
    /// PTP clocks of this machine.
    pub phcs: Vec<PhcLook>,
}

/// How the counters of the CPUs agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossCoreLook {
    /// CPUs that were compared; 0 or 1: nothing to compare.
    pub cpus: usize,
    /// Offset that the exchange proves, nanoseconds; 0 for counters that agree.
    pub proven_offset_ns: i64,
    /// Largest step back of a stamp that was handed from one CPU to another, nanoseconds.
    pub backward_ns: i64,
    /// They are apart by no more than this, nanoseconds.
    pub limit_ns: i64,
    /// Why there is no result.
    pub failure: Option<String>,
}

/// A PTP clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhcLook {
    /// `/dev/ptp0`.
    pub device: String,
    /// What its driver calls it.
    pub name: Option<String>,
    /// PHC minus CLOCK_REALTIME, nanoseconds; none where it could not be compared.
    pub offset_ns: Option<i64>,
    /// How wrong that may be, nanoseconds.
    pub bound_ns: Option<i64>,
    /// Why it could not be compared, and what would help.
    pub failure: Option<String>,
}

impl ClockLook {
    /// Looks; takes a quarter of a second. Changes nothing; the calling thread's CPUs are what is compared.
    pub fn take(root: &Path) -> Self {
        let support = CounterSupport::detect(root);
        let cross_core = compare(support.counter);
        let seen = cross_core.as_ref().ok().cloned();
        let options = LiveOptions { cross_core: seen, ..LiveOptions::new(support.counter) };
        let (mut ticker, _) = LiveTicker::new(SystemClocks::new(support.counter), options);
        for _ in 0..ANCHORS {
            std::thread::sleep(ticker.wait());
            ticker.anchor();
        }
        let state = ticker.state();
        let KernelState { synchronised, frequency_ppb, leap, tai, .. } = state.kernel;
        let daemons = ClockDaemons::find(root);
        Self {
            counter: support.counter.name().to_owned(),
            refusal: support.refusal,
            clocksource: support.clocksource,
            counter_hz: state.counter_hz.round() as u64,
            bound_ns: state.bound_ns,
            half_bracket_ns: state.half_bracket_ns,
            cross_core: CrossCoreLook::of(&cross_core),
            synchronised,
            corrected_within_ns: state.kernel.corrected_within_ns(),
            abandoned: synchronised && daemons.all_seen && daemons.running.is_empty(),
            daemons: daemons.words(),
            frequency_ppb,
            leap: leap.name().to_owned(),
            tai_offset_s: tai.offset_s(),
            phcs: phcs(root),
        }
    }
}

impl CrossCoreLook {
    fn of(checked: &Result<CrossCore, String>) -> Self {
        match checked {
            Ok(checked) => Self {
                cpus: checked.pairs.len() + 1,
                proven_offset_ns: checked.proven_offset_ns(),
                backward_ns: checked.backward_ns(),
                limit_ns: checked.limit_ns(),
                failure: None,
            },
            Err(failure) => Self { failure: Some(failure.clone()), ..Self::default() },
        }
    }
}

fn compare(counter: Counter) -> Result<CrossCore, String> {
    compare_allowed_cpus(counter, MOST_CPUS, EACH_PAIR)
}

fn phcs(root: &Path) -> Vec<PhcLook> {
    let class = root.join("sys/class/ptp");
    let mut names: Vec<String> = std::fs::read_dir(&class)
        .map(|entries| entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
        .unwrap_or_default();
    names.sort();
    let look = |name: &String| {
        let device = root.join("dev").join(name);
        let seen = Phc::open(&device).and_then(|phc| phc.anchor());
        PhcLook {
            device: format!("/dev/{name}"),
            name: std::fs::read_to_string(class.join(name).join("clock_name"))
                .ok()
                .map(|n| n.trim().to_owned()),
            offset_ns: seen.as_ref().ok().map(|anchor| anchor.offset_ns()),
            bound_ns: seen.as_ref().ok().map(|anchor| anchor.half_bracket_ns),
            failure: seen.err().map(|error| error.to_string()),
        }
    };
    names.iter().map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells() {
        let look = ClockLook::take(Path::new("/"));
        println!("{look:?}");
        assert!(look.counter_hz > 1_000_000 && look.bound_ns > 0 && look.bound_ns < u32::MAX);
        assert!(look.tai_offset_s != Some(0), "a TAI offset of 0 is not known");
    }

    #[test]
    fn a_clock_that_cannot_be_opened_is_listed_with_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        let clock = root.path().join("sys/class/ptp/ptp3");
        std::fs::create_dir_all(&clock).unwrap();
        std::fs::write(clock.join("clock_name"), "fake clock\n").unwrap();
        let found = phcs(root.path());
        assert_eq!((found.len(), found[0].device.as_str()), (1, "/dev/ptp3"));
        assert_eq!(found[0].name.as_deref(), Some("fake clock"));
        assert!(found[0].failure.as_deref().unwrap().contains("ethtool -T") && found[0].offset_ns.is_none());
        assert!(phcs(Path::new("/nowhere")).is_empty());
    }
}
