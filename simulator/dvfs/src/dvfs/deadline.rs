//! Beyond the paper: frames of a parallel real-time program, each with a deadline.
//!
//! The paper's example is a WiMax packet, which must be processed in less than 5 ms (its introduction).

use super::controller::{Controller, ControllerConfig, SubframeTimes};
use crate::normal::quantile;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use serde::Serialize;

/// Until then a WiMax packet must be processed, nanoseconds (the paper's introduction).
pub const WIMAX_DEADLINE_NS: u64 = 5_000_000;
/// What a packet is taken to need without jitter, nanoseconds: our choice, 92 % of the deadline.
pub const WIMAX_WORK_NS: u64 = 4_600_000;

/// Femtoseconds in a nanosecond.
const FS_PER_NS: f64 = 1e6;

/// The work of one frame on one core.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameWork {
    /// What it takes at rest without jitter, nanoseconds.
    pub work_ns: u64,
    /// Part of it that waits for memory, so that no clock makes it shorter, 0 to 1.
    pub unpaced_share: f64,
    /// What is lost in each subframe, nanoseconds; the last one holds for all that follow. None: nothing.
    pub lost_ns: Vec<u64>,
}

/// What became of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Deadlines {
    /// Frames.
    pub frames: u64,
    /// Those that ended after their deadline.
    pub missed: u64,
    /// Time left at the deadline: the least, nanoseconds; negative where it was missed.
    pub least_slack_ns: f64,
    /// The mean, nanoseconds.
    pub mean_slack_ns: f64,
}

impl Deadlines {
    /// Both together.
    pub fn merge(&mut self, other: &Self) {
        if other.frames == 0 {
            return;
        }
        if self.frames == 0 {
            *self = *other;
            return;
        }
        let sum_ns = self.mean_slack_ns * self.frames as f64 + other.mean_slack_ns * other.frames as f64;
        self.frames += other.frames;
        self.missed += other.missed;
        self.least_slack_ns = self.least_slack_ns.min(other.least_slack_ns);
        self.mean_slack_ns = sum_ns / self.frames as f64;
    }

    /// Missed over all, 0 to 1; none without frames.
    pub fn miss_rate(&self) -> Option<f64> {
        (self.frames > 0).then(|| self.missed as f64 / self.frames as f64)
    }
}

/// How long a frame takes under the controller, nanoseconds; with none, at rest.
pub fn frame_ns(config: &ControllerConfig, work: &FrameWork, compensate: bool) -> f64 {
    let mut controller = Controller::new(config);
    let share = work.unpaced_share.clamp(0.0, 1.0);
    let subframe_ns = config.subframe_ns.max(1) as f64;
    let (mut left_ns, mut now_ns, mut stall_ns, mut number) = (work.work_ns as f64, 0.0, 0.0, 0);
    while left_ns > 0.0 {
        let ratio = config.table.factor(controller.point());
        let shrink = (1.0 - share) / ratio + share;
        let lost_ns = work.lost_ns.get(number).or(work.lost_ns.last()).copied().unwrap_or(0) as f64;
        let room_ns = (subframe_ns - lost_ns - stall_ns).max(subframe_ns / 10.0);
        let done_ns = left_ns.min(room_ns / shrink);
        left_ns -= done_ns;
        let length_ns = done_ns * shrink + lost_ns + stall_ns;
        now_ns += length_ns;
        let fs = |ns: f64| (ns * FS_PER_NS).round() as u64;
        let ran = SubframeTimes {
            length_fs: fs(length_ns),
            paced_fs: fs(done_ns * (1.0 - share) / ratio),
            unpaced_fs: fs(done_ns * share),
            stalled_fs: fs(stall_ns),
            lost_fs: fs(lost_ns),
        };
        stall_ns = 0.0;
        if compensate {
            let before = controller.point();
            let point = controller.end_subframe(config, &ran);
            stall_ns = config.table.change(before, point).stall_fs as f64 / FS_PER_NS;
        }
        number += 1;
    }
    now_ns
}

/// Runs frames against their deadline, each from its own start.
pub fn run_frames<'a>(
    config: &ControllerConfig,
    frames: impl Iterator<Item = &'a FrameWork>,
    deadline_ns: u64,
    compensate: bool,
) -> Deadlines {
    let mut seen = Deadlines { least_slack_ns: f64::INFINITY, ..Deadlines::default() };
    let mut sum_ns = 0.0;
    for work in frames {
        let slack_ns = deadline_ns as f64 - frame_ns(config, work, compensate);
        seen.frames += 1;
        seen.missed += u64::from(slack_ns < 0.0);
        seen.least_slack_ns = seen.least_slack_ns.min(slack_ns);
        sum_ns += slack_ns;
    }
    if seen.frames == 0 {
        return Deadlines::default();
    }
    seen.mean_slack_ns = sum_ns / seen.frames as f64;
    seen
}

/// Made-up WiMax packets: each of the subframes that a packet takes loses time with probability 1/4, log-normal with median 60 us
/// and σ 1, drawn by the seed. The numbers are ours; they only show what a deadline means.
pub fn wimax_packets(count: usize, subframe_ns: u64, seed: u64) -> Vec<FrameWork> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut uniform = move || ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let subframes = WIMAX_WORK_NS.div_ceil(subframe_ns.max(1)).clamp(1, 10_000);
    let mut lost_ns = || {
        let (loses, size) = (uniform() < 0.25, quantile(uniform()));
        if loses { (60_000.0 * size.exp()).round() as u64 } else { 0 }
    };
    let mut packet = || {
        let lost_ns = (0..subframes).map(|_| lost_ns()).chain([0]).collect();
        FrameWork { work_ns: WIMAX_WORK_NS, unpaced_share: 0.0, lost_ns }
    };
    (0..count).map(|_| packet()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dvfs::Kind;
    use crate::dvfs::what_if::limited;

    #[test]
    fn made_up_packets_miss_less_the_higher_the_core_may_go_and_never_more() {
        let packets = wimax_packets(400, 330_000, 1);
        assert_eq!(packets, wimax_packets(400, 330_000, 1));
        assert_ne!(packets, wimax_packets(400, 330_000, 2));
        let at = |highest: f64, reactivity, kind, compensate| {
            let table = limited(&crate::dvfs::Table::default(), highest);
            let config = ControllerConfig { table, reactivity, kind, ..ControllerConfig::default() };
            run_frames(&config, packets.iter(), WIMAX_DEADLINE_NS, compensate)
        };
        let rest = at(1.2, 1, Kind::Reactive, false);
        // Without a controller a frame takes its work and what it loses until it is done: a loss in the last subframe may come after that.
        let late = packets.iter().filter(|one| {
            let used = one.lost_ns.iter().sum::<u64>();
            WIMAX_WORK_NS + used > WIMAX_DEADLINE_NS
        });
        let expected = late.count() as u64;
        assert!(rest.missed.abs_diff(expected) <= expected / 10, "{rest:?} {expected}");
        assert!(rest.missed > 40, "{rest:?}");
        for (reactivity, kind) in
            [(1, Kind::Reactive), (2, Kind::Reactive), (4, Kind::Reactive), (1, Kind::Predictive)]
        {
            assert_eq!(at(1.0, reactivity, kind, true), rest, "there is nowhere to go");
            let missed: Vec<u64> =
                [1.0, 1.1, 1.2, 1.3].map(|highest| at(highest, reactivity, kind, true).missed).to_vec();
            assert!(missed.windows(2).all(|two| two[1] <= two[0]), "{kind:?} k={reactivity}: {missed:?}");
            assert!(missed[2] * 2 < rest.missed, "{kind:?} k={reactivity}: {missed:?}");
        }
    }

    #[test]
    fn parts_of_the_frames_together_are_all_frames() {
        let (config, packets) = (ControllerConfig::default(), wimax_packets(50, 330_000, 3));
        let all = run_frames(&config, packets.iter(), WIMAX_DEADLINE_NS, true);
        let mut seen = Deadlines::default();
        packets.iter().for_each(|packet| {
            seen.merge(&run_frames(&config, [packet].into_iter(), WIMAX_DEADLINE_NS, true));
        });
        seen.merge(&Deadlines::default());
        assert_eq!(
            (seen.frames, seen.missed, seen.least_slack_ns),
            (all.frames, all.missed, all.least_slack_ns)
        );
        assert!((seen.mean_slack_ns - all.mean_slack_ns).abs() < 1e-3);
    }

    fn packet(lost_ns: Vec<u64>) -> FrameWork {
        FrameWork { work_ns: 4_600_000, unpaced_share: 0.1, lost_ns }
    }

    #[test]
    fn a_frame_that_loses_nothing_takes_its_work() {
        let config = ControllerConfig::default();
        for compensate in [false, true] {
            assert!((frame_ns(&config, &packet(vec![]), compensate) - 4_600_000.0).abs() < 1.0);
        }
        assert_eq!(run_frames(&config, [].iter(), 1, true), Deadlines::default());
    }

    #[test]
    fn packets_of_wimax_meet_their_5_ms_by_speed() {
        let config = ControllerConfig::default();
        // Half a millisecond is lost in the first subframes: without the controller 5.1 ms.
        let frames =
            [packet(vec![200_000, 200_000, 100_000, 0]), packet(vec![0, 0, 50_000, 0]), packet(vec![])];
        let at_rest = run_frames(&config, frames.iter(), 5_000_000, false);
        assert_eq!((at_rest.frames, at_rest.missed, at_rest.miss_rate()), (3, 1, Some(1.0 / 3.0)));
        assert!((at_rest.least_slack_ns + 100_000.0).abs() < 10.0, "{at_rest:?}");
        let with = run_frames(&config, frames.iter(), 5_000_000, true);
        assert_eq!(with.missed, 0, "{with:?}");
        assert!(with.mean_slack_ns > at_rest.mean_slack_ns);
    }

    #[test]
    fn each_change_of_frequency_of_a_frame_costs_a_stall() {
        let config = ControllerConfig::default();
        let work = FrameWork { work_ns: 660_000, unpaced_share: 0.0, lost_ns: vec![30_000, 0] };
        // 300 us of work are done at rest: 300 / 270 = 1.11 is wanted. A stall of 10 us later, 320 us at 1.1 do 352 of the
        // 360 that are left and win 22 of the 30: 352 / 344 = 1.02, so that the last 8 us are done at rest, after a stall.
        let taken_ns = frame_ns(&config, &work, true);
        assert!((taken_ns - (330_000.0 + 330_000.0 + 18_000.0)).abs() < 1e-3, "{taken_ns}");
        assert!((frame_ns(&config, &work, false) - 690_000.0).abs() < 1e-3);
        // Half of the work waits for memory: 150 paced us of 300, 150 / 120 = 1.25, so 1.2. There 320 us do
        // 320 / (0.5 / 1.2 + 0.5) = 349.09 of the 360, and 29.09 - 10 us are won of the 30: 174.55 / 163.64 = 1.067, so 1.05.
        let half = FrameWork { unpaced_share: 0.5, ..work.clone() };
        let done_ns = 320_000.0 / (0.5 / 1.2 + 0.5);
        let last_ns = (360_000.0 - done_ns) * (0.5 / 1.05 + 0.5) + 10_000.0;
        let taken_ns = frame_ns(&config, &half, true);
        assert!((taken_ns - (660_000.0 + last_ns)).abs() < 1e-2, "{taken_ns} {last_ns}");
        // Of a subframe that loses more than there is of it a tenth is left for work, and lost time comes on top.
        let flooded = FrameWork { work_ns: 66_000, unpaced_share: 0.0, lost_ns: vec![400_000] };
        assert!((frame_ns(&config, &flooded, false) - (66_000.0 + 800_000.0)).abs() < 1e-3);
    }

    #[test]
    fn no_controller_beats_the_table() {
        let config = ControllerConfig::default();
        let work = FrameWork { work_ns: 5_000_000, unpaced_share: 0.0, lost_ns: vec![150_000] };
        let lost_ns = frame_ns(&config, &work, false) - 5_000_000.0;
        let taken_ns = frame_ns(&config, &work, true);
        assert!(taken_ns >= 5_000_000.0 / 1.2, "{taken_ns}");
        assert!(taken_ns < 5_000_000.0 + lost_ns);
    }
}
