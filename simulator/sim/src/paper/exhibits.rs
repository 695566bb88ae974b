//! The paper's tables and figures, what goes beyond them by name, and which runs each needs.

use super::arms::Arm;
use std::collections::BTreeSet;

/// A table or figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhibit {
    /// Its name: `table 6`.
    pub name: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The runs that make ours.
    pub arms: &'static [Arm],
}

const fn exhibit(name: &'static str, title: &'static str, arms: &'static [Arm]) -> Exhibit {
    Exhibit { name, title, arms }
}

const DISTURBED: &[Arm] = &[Arm::Ideal, Arm::Unified];
const MEETINGS: &[Arm] =
    &[Arm::Ideal, Arm::Unified, Arm::UnifiedDvfs, Arm::UnifiedDvfsJoin, Arm::UnifiedDvfsSlack];
const GRID: &[Arm] = &[
    Arm::Plain,
    Arm::Ideal,
    Arm::IdealWatched,
    Arm::IdealOsCache,
    Arm::Unified,
    Arm::UnifiedDvfs,
    Arm::UnifiedPredictive,
    Arm::OsCache,
    Arm::OsCacheDvfs,
];
const SPEED: &[Arm] = &[Arm::Ideal, Arm::Unified, Arm::UnifiedDvfs];
const POWER: &[Arm] =
    &[Arm::Ideal, Arm::IdealOsCache, Arm::Unified, Arm::UnifiedDvfs, Arm::OsCache, Arm::OsCacheDvfs];
const REACTIVITY: &[Arm] =
    &[Arm::Ideal, Arm::Unified, Arm::UnifiedDvfs, Arm::UnifiedDvfs2, Arm::UnifiedDvfs4];
const BESIDE: &[Arm] =
    &[Arm::Plain, Arm::Ideal, Arm::IdealOsCacheAlone, Arm::IdealOsCache, Arm::Unified, Arm::OsCache];
const ALTERNATIVES: &[Arm] = &[
    Arm::Ideal,
    Arm::IdealOsCache,
    Arm::IdealPrefetch,
    Arm::IdealPinned,
    Arm::Unified,
    Arm::OsCache,
    Arm::Prefetch,
    Arm::Pinned,
];

const BUDGET: &[Arm] =
    &[Arm::Ideal, Arm::Unified, Arm::BoostDebt, Arm::BoostSync, Arm::BoostStack, Arm::BoostStalls];

/// Tables 4 to 8, figures 4 to 19, and the power budget beyond the paper.
pub const EXHIBITS: [Exhibit; 22] = [
    exhibit("table 4", "Sync jitter over all jitter, Splash-2", DISTURBED),
    exhibit("table 5", "Sync jitter over all jitter, Parsec", DISTURBED),
    exhibit("table 6", "Jitter of each program, Splash-2", DISTURBED),
    exhibit("table 7", "Jitter of each program, Parsec", DISTURBED),
    exhibit("table 8", "Correlation of the slow-down with columns 1 to 3", DISTURBED),
    exhibit("figure 4", "The jitter unit", DISTURBED),
    exhibit("figure 5", "Subframes of several threads", MEETINGS),
    exhibit("figure 6", "The six classes", DISTURBED),
    exhibit("figure 7", "Late operations of fmm by size", DISTURBED),
    exhibit("figure 8", "Late operations of bodytrack by size", DISTURBED),
    exhibit("figure 9", "Jitter by class", DISTURBED),
    exhibit("figure 10", "Slow-down by jitter, and what is left of it", GRID),
    exhibit("figure 11", "Frequency of 30 subframes, water-spatial", SPEED),
    exhibit("figure 12", "Frequency of 30 subframes, facesim", SPEED),
    exhibit("figure 13", "Power", POWER),
    exhibit("figure 14", "The OS cache", BESIDE),
    exhibit("figure 15", "The jitter unit's buffers", DISTURBED),
    exhibit("figure 16", "A signal arrives at a unit", DISTURBED),
    exhibit("figure 17", "A thread wakes up at a unit", DISTURBED),
    exhibit("figure 18", "Reactivity 1, 2 and 4", REACTIVITY),
    exhibit("figure 19", "Prefetching and selective pinning", ALTERNATIVES),
    exhibit("budget", "One power budget", BUDGET),
];

/// Reads `table 6`, `table6`, `t6`, `figure 10`, `fig10`, `f10` or `budget`.
pub fn exhibit_named(text: &str) -> Option<&'static Exhibit> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.trim_start_matches(|one: char| !one.is_ascii_digit());
    let kind = match text[..text.len() - digits.len()].trim_end_matches([' ', '-', '.']) {
        "table" | "tab" | "t" => "table",
        "figure" | "fig" | "f" => "figure",
        word => word,
    };
    let name = format!("{kind} {digits}");
    let name = name.trim_end();
    EXHIBITS.iter().find(|one| one.name == name)
}

/// The arms that these need; all of them where none is named.
pub fn arms_of(names: &[String]) -> Vec<Arm> {
    if names.is_empty() {
        return Arm::ALL.to_vec();
    }
    let wanted = EXHIBITS.iter().filter(|one| names.iter().any(|name| name == one.name));
    let arms: BTreeSet<Arm> = wanted.flat_map(|one| one.arms.iter().copied()).collect();
    arms.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_all_their_ways() {
        for text in ["table 6", "table6", "Table-6", "t6"] {
            assert_eq!(exhibit_named(text).map(|one| one.name), Some("table 6"), "{text}");
        }
        for text in ["figure 10", "fig10", "fig. 10", "F10"] {
            assert_eq!(exhibit_named(text).map(|one| one.name), Some("figure 10"), "{text}");
        }
        assert_eq!(exhibit_named(" Budget ").map(|one| one.name), Some("budget"));
        for text in ["", "6", "budget 1", "table", "table 3", "figure 20", "x6"] {
            assert_eq!(exhibit_named(text), None, "{text}");
        }
    }

    #[test]
    fn every_exhibit_has_what_its_runs_are_compared_with() {
        for one in &EXHIBITS {
            for arm in one.arms {
                if arm.injects() {
                    assert!(one.arms.contains(&arm.ideal()), "{}: {arm:?}", one.name);
                    assert!(one.arms.contains(&arm.without_dvfs()), "{}: {arm:?}", one.name);
                }
            }
        }
        assert_eq!(arms_of(&[]).len(), Arm::ALL.len());
        assert_eq!(arms_of(&["table 6".to_owned()]), [Arm::Ideal, Arm::Unified]);
        let all: Vec<String> = EXHIBITS.iter().map(|one| one.name.to_owned()).collect();
        assert_eq!(arms_of(&all), Arm::ALL);
    }
}
