//! The controller of one thread: what it still owes, and how fast the next subframe must be.

use super::debt::{Arrival, CriticalPath};
use super::table::{Policy, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The paper's: gives back what has been lost.
    #[default]
    Reactive,
    /// Beyond the paper: gives back, besides, what the next subframe is expected to lose.
    Predictive,
}

/// How a controller works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControllerConfig {
    /// Operating points.
    pub table: Table,
    /// From what is wanted to a point.
    pub policy: Policy,
    /// k of the paper: over how many subframes a loss is given back, at least 1.
    pub reactivity: u32,
    /// Which controller.
    pub kind: Kind,
    /// How debt passes where threads meet. Runs stored before there was a choice passed it on at joins alone.
    #[serde(default = "join")]
    pub critical_path: CriticalPath,
    /// A subframe, nanoseconds.
    pub subframe_ns: u64,
}

fn join() -> CriticalPath {
    CriticalPath::Join
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self {
            table: Table::default(),
            policy: Policy::Nominal,
            reactivity: 1,
            kind: Kind::Reactive,
            critical_path: CriticalPath::default(),
            subframe_ns: 330_000,
        }
    }
}

/// What a subframe turned out to be, in femtoseconds. Waits for other threads are no part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SubframeTimes {
    /// From its begin to its end.
    pub length_fs: u64,
    /// The thread's own work that the clock of its core paces.
    pub paced_fs: u64,
    /// The thread's own work that it does not: data from beyond the core's caches.
    pub unpaced_fs: u64,
    /// Standing still for a PLL.
    pub stalled_fs: u64,
    /// Lost to jitter, as the unit and the heuristic of evicted lines say.
    pub lost_fs: u64,
}

/// Part of the newest subframe in what the predictive controller expects of the next.
const NEWEST_SHARE: f64 = 0.125;

/// A thread's controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Controller {
    point: usize,
    /// J: lost and not given back yet; negative where more was given back than lost.
    owed_fs: i64,
    expected_fs: f64,
    /// τ(f0) of the next subframe, and the part of it that the clock does not pace.
    next: Option<(f64, f64)>,
}

impl Controller {
    /// At rest, owing nothing.
    pub fn new(config: &ControllerConfig) -> Self {
        Self { point: config.table.rest, owed_fs: 0, expected_fs: 0.0, next: None }
    }

    /// That of a new thread: it starts with what its parent owes.
    pub fn child_of(config: &ControllerConfig, parent: &Self) -> Self {
        Self { owed_fs: parent.owed_fs, expected_fs: parent.expected_fs, ..Self::new(config) }
    }

    /// A thread was joined, after a wait of so many femtoseconds.
    pub fn join(&mut self, config: &ControllerConfig, waited_fs: u64, ended: &Self) {
        let own = Arrival { owed_fs: self.owed_fs, waited_fs };
        self.owed_fs = config.critical_path.joined(own, ended.owed_fs);
    }

    /// What it owes changes by so many femtoseconds, for it has met others.
    pub fn take_over(&mut self, change_fs: i64) {
        self.owed_fs += change_fs;
    }

    /// Number of its operating point.
    pub fn point(&self) -> usize {
        self.point
    }

    /// J, femtoseconds.
    pub fn owed_fs(&self) -> i64 {
        self.owed_fs
    }

    /// A subframe has ended. The point of the next is given back.
    pub fn end_subframe(&mut self, config: &ControllerConfig, ran: &SubframeTimes) -> usize {
        self.settle(config, ran);
        self.decide(config)
    }

    /// Adds up what a subframe lost and won.
    ///
    /// What was won is judged by what the subframe turned out to contain: with r = f / f0 the same work would have taken
    /// `paced · r + unpaced` at rest. At rest, without jitter, nothing is won or lost, whatever the program does.
    pub fn settle(&mut self, config: &ControllerConfig, ran: &SubframeTimes) {
        self.settle_at(config, ran, config.table.factor(self.point));
    }

    /// The same of a core that was not at the controller's point all the while, as on a real host where others have a say in it:
    /// `ratio` is its mean frequency in the subframe over that at rest.
    pub fn settle_at(&mut self, config: &ControllerConfig, ran: &SubframeTimes, ratio: f64) {
        let (paced, unpaced) = (ran.paced_fs as f64, ran.unpaced_fs as f64);
        let won = paced * (ratio - 1.0) - ran.stalled_fs as f64;
        self.owed_fs += ran.lost_fs as i64 - won.round() as i64;
        self.expected_fs += (ran.lost_fs as f64 - self.expected_fs) * NEWEST_SHARE;
        if ran.length_fs > 0 && ran.paced_fs > 0 {
            let whole = config.subframe_ns as f64 * 1e6 / ran.length_fs as f64;
            self.next = Some((paced * ratio * whole, unpaced * whole));
        }
    }

    /// The point of the next subframe.
    pub fn decide(&mut self, config: &ControllerConfig) -> usize {
        self.point = self.choose(config);
        self.point
    }

    /// Equation 1 with τ(f) = τ(f0) - J / k, where only the paced part of τ(f0) becomes shorter.
    fn choose(&self, config: &ControllerConfig) -> usize {
        let Some((paced, _)) = self.next else { return config.table.rest };
        let coming = match config.kind {
            Kind::Reactive => 0.0,
            Kind::Predictive => self.expected_fs,
        };
        let give_back = self.owed_fs as f64 / f64::from(config.reactivity.max(1)) + coming;
        let left = paced - give_back;
        let wanted = if left > 0.0 { paced / left } else { f64::INFINITY };
        config.table.choose(wanted, config.policy)
    }

    /// What is still owed after so many subframes more at the end in which nothing is lost, each like the last.
    pub fn after_dummies(&self, config: &ControllerConfig, dummies: u32) -> i64 {
        let mut controller = self.clone();
        for _ in 0..dummies {
            let Some((paced, unpaced)) = controller.next else { break };
            let ratio = config.table.factor(controller.point);
            let ran = SubframeTimes {
                length_fs: (paced / ratio + unpaced).round() as u64,
                paced_fs: (paced / ratio).round() as u64,
                unpaced_fs: unpaced.round() as u64,
                ..SubframeTimes::default()
            };
            controller.end_subframe(config, &ran);
        }
        controller.owed_fs
    }
}

#[cfg(test)]
mod tests;
