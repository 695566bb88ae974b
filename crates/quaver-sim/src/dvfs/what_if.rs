//! Beyond the paper: what the controller would have made of a recorded thread.
//!
//! A `quaver sync` run says when a thread lost how much. The rest of its time is taken for work that can be done faster,
//! but for the share that waits for memory.

use super::controller::{Controller, ControllerConfig, Ran};
use serde::Serialize;

/// Femtoseconds in a nanosecond.
const FS_PER_NS: f64 = 1e6;

/// A late operation of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// When it ended, nanoseconds from the thread's begin.
    pub at_ns: u64,
    /// By how much it was late, nanoseconds.
    pub lost_ns: u64,
}

/// One recorded subframe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// When it ended in the recording, nanoseconds from the thread's begin.
    pub at_ns: u64,
    /// What was lost in it, nanoseconds.
    pub lost_ns: u64,
    /// At which frequency it would have run, over rest.
    pub factor: f64,
    /// What would have been owed after it, nanoseconds.
    pub owed_ns: f64,
    /// What was lost until then without a controller, nanoseconds.
    pub lost_so_far_ns: u64,
}

/// The subframes of a recorded thread under a controller. Losses are in the order of time; `unpaced_share` of its other time
/// waits for memory, 0 to 1.
pub fn compensation(
    config: &ControllerConfig,
    length_ns: u64,
    losses: &[Loss],
    unpaced_share: f64,
) -> Vec<CurvePoint> {
    let subframe_ns = config.subframe_ns.max(1);
    let share = unpaced_share.clamp(0.0, 1.0);
    let mut controller = Controller::new(config);
    let (mut stall_fs, mut lost_so_far_ns, mut next) = (0, 0, 0);
    let mut curve = Vec::new();
    let mut start_ns = 0;
    while start_ns < length_ns {
        let end_ns = (start_ns + subframe_ns).min(length_ns);
        let mut lost_ns = 0;
        while let Some(loss) = losses.get(next).filter(|loss| loss.at_ns < end_ns || end_ns == length_ns) {
            lost_ns += loss.lost_ns;
            next += 1;
        }
        lost_so_far_ns += lost_ns;
        let factor = config.table.factor(controller.point());
        // What was lost in a subframe may have begun in those before it.
        let work_fs = (end_ns - start_ns).saturating_sub(lost_ns) as f64 * FS_PER_NS;
        let (paced, unpaced) = (work_fs * (1.0 - share) / factor, work_fs * share);
        let lost_fs = lost_ns * 1_000_000;
        let ran = Ran {
            length_fs: (paced + unpaced).round() as u64 + lost_fs + stall_fs,
            paced_fs: paced.round() as u64,
            unpaced_fs: unpaced.round() as u64,
            stalled_fs: stall_fs,
            lost_fs,
        };
        let before = controller.point();
        let point = controller.end_subframe(config, &ran);
        stall_fs = config.table.change(before, point).stall_fs;
        let owed_ns = controller.owed_fs() as f64 / FS_PER_NS;
        curve.push(CurvePoint { at_ns: end_ns, lost_ns, factor, owed_ns, lost_so_far_ns });
        start_ns = end_ns;
    }
    curve
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_lost_nothing_rests() {
        let config = ControllerConfig::default();
        let curve = compensation(&config, 1_000_000, &[], 0.2);
        assert_eq!(
            curve.iter().map(|point| point.at_ns).collect::<Vec<_>>(),
            [330_000, 660_000, 990_000, 1_000_000]
        );
        assert!(
            curve.iter().all(|point| (point.factor, point.owed_ns, point.lost_so_far_ns) == (1.0, 0.0, 0))
        );
    }

    #[test]
    fn what_was_lost_is_given_back_within_a_few_subframes() {
        let config = ControllerConfig::default();
        let losses = [Loss { at_ns: 100_000, lost_ns: 60_000 }, Loss { at_ns: 400_000, lost_ns: 20_000 }];
        let curve = compensation(&config, 10_000_000, &losses, 0.1);
        assert_eq!(
            (curve[0].lost_ns, curve[1].lost_ns, curve.last().unwrap().lost_so_far_ns),
            (60_000, 20_000, 80_000)
        );
        assert!(curve[1].factor > 1.0);
        assert!(curve.last().unwrap().owed_ns.abs() < 9_000.0, "half a step is left");
        let late = [Loss { at_ns: 99_000_000, lost_ns: 5_000 }];
        assert_eq!(compensation(&config, 500_000, &late, 0.0).last().unwrap().lost_so_far_ns, 5_000);
    }
}
