//! Arms: the ways in which the paper ran each program.

use super::calibration::Knobs;
use crate::cure::{BoostConfig, BoostRule, CacheKind, CureCache, CureConfig, Evictions};
use crate::inject::{Duration, InjectionConfig, TimerConfig};
use quaver_dvfs::dvfs::{ControllerConfig, CriticalPath, Kind};
use quaver_sync_analysis::sync::SyncClass;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::{EnumCount, VariantArray};

/// Between two timer interrupts, microseconds (appendix A).
const TIMER_US: u64 = 10_000;
/// Cores that take them (table 2).
const TIMER_CORES: [usize; 2] = [0, 1];
/// Subframes of a run that are kept one by one.
const KEPT_SUBFRAMES: usize = 4_000;

/// One way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(EnumCount, VariantArray)]
pub enum Arm {
    /// No jitter, nothing of the cure in the machine: not even units that listen.
    Plain,
    /// No jitter, unified cache, units: what all others are compared with.
    Ideal,
    /// No jitter, with units, subframes, controller and heuristic: they must change nothing.
    IdealWatched,
    /// No jitter, OS cache without sharing: it must change nothing.
    IdealOsCacheAlone,
    /// No jitter, OS cache with sharing: the program may use it.
    IdealOsCache,
    /// No jitter, prefetch buffer.
    IdealPrefetch,
    /// No jitter, selective pinning.
    IdealPinned,
    /// Jitter, unified cache.
    Unified,
    /// The same with DVFS, k = 1.
    UnifiedDvfs,
    /// The same with k = 2.
    UnifiedDvfs2,
    /// The same with k = 4.
    UnifiedDvfs4,
    /// The same as k = 1, but debt passes at joins alone.
    UnifiedDvfsJoin,
    /// The same as k = 1, but debt passes only as far as a wait was not slack.
    UnifiedDvfsSlack,
    /// The same with the controller that learns, k = 1.
    UnifiedPredictive,
    /// Two supplies and a budget, spent by debt.
    BoostDebt,
    /// The same, spent by Booster's SYNC.
    BoostSync,
    /// The same, spent by criticality stacks.
    BoostStack,
    /// The same, spent by the predictor of thread criticality.
    BoostStalls,
    /// Jitter, OS cache.
    OsCache,
    /// Jitter, OS cache, DVFS, k = 1.
    OsCacheDvfs,
    /// Jitter, prefetch buffer.
    Prefetch,
    /// Jitter, selective pinning.
    Pinned,
}

impl Arm {
    /// All of them, those that others are compared with first.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.first_chunk().unwrap();

    /// As it is read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "no jitter, no units",
            Self::Ideal => "no jitter",
            Self::IdealWatched => "no jitter, all units and controllers on",
            Self::IdealOsCacheAlone => "no jitter, OS cache without sharing",
            Self::IdealOsCache => "no jitter, OS cache",
            Self::IdealPrefetch => "no jitter, prefetch",
            Self::IdealPinned => "no jitter, pinning",
            Self::Unified => "unified cache",
            Self::UnifiedDvfs => "unified cache, DVFS k = 1",
            Self::UnifiedDvfs2 => "unified cache, DVFS k = 2",
            Self::UnifiedDvfs4 => "unified cache, DVFS k = 4",
            Self::UnifiedDvfsJoin => "unified cache, DVFS k = 1, debt at joins alone",
            Self::UnifiedDvfsSlack => "unified cache, DVFS k = 1, debt by slack",
            Self::UnifiedPredictive => "unified cache, DVFS that learns",
            Self::BoostDebt => "unified cache, budget by debt",
            Self::BoostSync => "unified cache, budget by Booster's SYNC",
            Self::BoostStack => "unified cache, budget by criticality stacks",
            Self::BoostStalls => "unified cache, budget by stalls",
            Self::OsCache => "OS cache",
            Self::OsCacheDvfs => "OS cache, DVFS k = 1",
            Self::Prefetch => "prefetch",
            Self::Pinned => "selective pinning",
        }
    }

    /// Whether jitter is injected, so that the seed matters.
    pub const fn injects(self) -> bool {
        !matches!(
            self,
            Self::Plain
                | Self::Ideal
                | Self::IdealWatched
                | Self::IdealOsCacheAlone
                | Self::IdealOsCache
                | Self::IdealPrefetch
                | Self::IdealPinned
        )
    }

    /// Reactivity and kind of its controller.
    pub const fn controller(self) -> Option<(u32, Kind)> {
        match self {
            Self::IdealWatched
            | Self::UnifiedDvfs
            | Self::UnifiedDvfsJoin
            | Self::UnifiedDvfsSlack
            | Self::BoostDebt
            | Self::OsCacheDvfs => Some((1, Kind::Reactive)),
            Self::UnifiedDvfs2 => Some((2, Kind::Reactive)),
            Self::UnifiedDvfs4 => Some((4, Kind::Reactive)),
            Self::UnifiedPredictive => Some((1, Kind::Predictive)),
            _ => None,
        }
    }

    /// How debt passes where its threads meet.
    pub const fn critical_path(self) -> CriticalPath {
        match self {
            Self::UnifiedDvfsJoin => CriticalPath::Join,
            Self::UnifiedDvfsSlack => CriticalPath::Slack,
            _ => CriticalPath::Max,
        }
    }

    /// By which rule a power budget is spent, where there is one.
    pub const fn boost(self) -> Option<BoostRule> {
        match self {
            Self::BoostDebt => Some(BoostRule::Debt),
            Self::BoostSync => Some(BoostRule::Sync),
            Self::BoostStack => Some(BoostRule::Stack),
            Self::BoostStalls => Some(BoostRule::Stalls),
            _ => None,
        }
    }

    /// Whether cores leave their frequency at rest.
    pub const fn changes_frequency(self) -> bool {
        self.controller().is_some() || self.boost().is_some()
    }

    /// Its second level.
    pub const fn cache(self) -> CacheKind {
        match self {
            Self::IdealOsCacheAlone | Self::IdealOsCache | Self::OsCache | Self::OsCacheDvfs => {
                CacheKind::OsCache
            }
            Self::IdealPrefetch | Self::Prefetch => CacheKind::Prefetch,
            Self::IdealPinned | Self::Pinned => CacheKind::Pinned,
            _ => CacheKind::Unified,
        }
    }

    /// The arm without jitter that has the same second level.
    pub const fn ideal(self) -> Self {
        match self.cache() {
            CacheKind::Unified => Self::Ideal,
            CacheKind::OsCache => Self::IdealOsCache,
            CacheKind::Prefetch => Self::IdealPrefetch,
            CacheKind::Pinned => Self::IdealPinned,
        }
    }

    /// The arm with jitter and the same second level, but without a controller.
    pub const fn without_dvfs(self) -> Self {
        match self.cache() {
            CacheKind::Unified => Self::Unified,
            CacheKind::OsCache => Self::OsCache,
            CacheKind::Prefetch => Self::Prefetch,
            CacheKind::Pinned => Self::Pinned,
        }
    }

    /// What is injected, measured and compensated in a run with this seed.
    pub fn cure(self, knobs: &Knobs, seed: u64) -> CureConfig {
        let boost = self.boost().map(BoostConfig::new);
        let dvfs = self.controller().map(|(reactivity, kind)| ControllerConfig {
            table: boost.map_or_else(Default::default, |_| BoostConfig::table()),
            reactivity,
            kind,
            critical_path: self.critical_path(),
            ..ControllerConfig::default()
        });
        let os_cache_sharing = self != Self::IdealOsCacheAlone;
        CureConfig {
            injection: self.injects().then(|| injection(knobs, seed)),
            evictions: dvfs.is_some().then(Evictions::default),
            dvfs,
            boost,
            cache: CureCache { os_cache_sharing, ..CureCache::of(self.cache()) },
            kept_subframes: KEPT_SUBFRAMES,
            ..CureConfig::default()
        }
    }
}

/// What the knobs mean, class by class: locks, and the calls that end waits, are late more seldom than waits.
///
/// A call that wakes others ends at once unless the kernel takes its time. In the paper signals take 10 to 15 % of the
/// jitter and broadcasts, of which there is one for fifteen waits, 2 to 5 % (its 6.1).
pub fn injection(knobs: &Knobs, seed: u64) -> InjectionConfig {
    let duration = |weight: f64| Duration::Exceedance {
        probability: (knobs.probability * weight).clamp(0.0, 1.0),
        over_ns: knobs.over_us * 1e3,
        mean_ns: (knobs.mean_us * 1e3).max(1.0),
        sigma: knobs.sigma,
    };
    let weight = |class: SyncClass| match class {
        SyncClass::SignalWait | SyncClass::BroadcastWait => 1.0,
        SyncClass::LockUnlock | SyncClass::Unlock => 1.0 / knobs.wait_weight(),
        SyncClass::Signal => 0.15,
        SyncClass::Broadcast => 0.5,
    };
    let classes: BTreeMap<SyncClass, Duration> =
        SyncClass::ALL.into_iter().map(|class| (class, duration(weight(class)))).collect();
    // A timer interrupt itself is short; now and then the kernel takes its chance.
    let timer = Duration::Exceedance { probability: 1.0, over_ns: 1_000.0, mean_ns: 4_000.0, sigma: 1.0 };
    let timer = TimerConfig { period_us: TIMER_US, cores: TIMER_CORES.to_vec(), duration: timer };
    InjectionConfig { seed, classes, together: knobs.together, timer: Some(timer), recording: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_arm_can_be_built_and_has_those_that_it_is_compared_with() {
        let names: BTreeSet<&str> = Arm::ALL.iter().map(|arm| arm.name()).collect();
        assert_eq!(names.len(), Arm::ALL.len());
        for arm in Arm::ALL {
            let cure = arm.cure(&Knobs::default(), 7);
            assert_eq!(cure.fault(), None, "{arm:?}");
            assert_eq!(cure.injection.as_ref().map(|injection| injection.seed), arm.injects().then_some(7));
            assert_eq!((arm.ideal().injects(), arm.ideal().cache()), (false, arm.cache()));
            assert_eq!((arm.without_dvfs().controller(), arm.without_dvfs().boost()), (None, None));
            assert_eq!((arm.without_dvfs().injects(), arm.without_dvfs().cache()), (true, arm.cache()));
        }
    }

    #[test]
    fn probabilities_stay_probabilities() {
        let knobs = Knobs { probability: 0.9, together: 1.0, ..Knobs::default() };
        assert_eq!(injection(&knobs, 1).fault(), None);
        let together = 2f64.ln() / 1_000f64.ln(); // Waits count twice.
        let injection = injection(&Knobs { probability: 0.1, together, ..Knobs::default() }, 1);
        let of = |class| match &injection.classes[&class] {
            Duration::Exceedance { probability, .. } => *probability,
            Duration::Recorded { .. } => 0.0,
        };
        assert!((of(SyncClass::BroadcastWait) - 0.1).abs() < 1e-12);
        assert!((of(SyncClass::Unlock) - 0.05).abs() < 1e-12);
    }
}
