//! What may stand beside or in place of the plain second level, as a configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What keeps the kernel's lines and the application's from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheKind {
    /// Nothing: one second level for both.
    #[default]
    Unified,
    /// The paper's OS cache beside the second level (4.2, C.1).
    OsCache,
    /// Lines come back from a prefetch buffer before the other side runs again (F.1).
    Prefetch,
    /// Selective pinning (F.2).
    Pinned,
}

impl CacheKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Unified, Self::OsCache, Self::Prefetch, Self::Pinned];

    /// As it is written in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unified => "unified",
            Self::OsCache => "os-cache",
            Self::Prefetch => "prefetch",
            Self::Pinned => "pinned",
        }
    }
}

/// The `[cache]` table: which of them, and its numbers. Numbers of a kind that is not chosen say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CureCache {
    /// Which.
    pub kind: CacheKind,
    /// Whether evicted lines may go to the other cache (4.2).
    pub os_cache_sharing: bool,
    /// Size of the OS cache, KiB; with its ways and the second level's lines it must give a power of two of sets.
    pub os_cache_kib: u64,
    /// Its ways, 1 to 32.
    pub os_cache_ways: usize,
    /// Cycles of a hit in it, 1 to 1000; not below those of the first level.
    pub os_cache_hit_cycles: u64,
    /// Lines that the prefetch buffer holds for each side, up to 65536 (our choice).
    pub prefetch_entries: usize,
    /// τ: which part of the expected epoch before its end lines come back, 0 to 1.
    pub prefetch_lead: f64,
    /// N: a line is active for so many mean intervals between uses of the cache after it was used, up to 1000000.
    pub prefetch_active_intervals: u64,
    /// Up to this part of the expected epoch lines of the side that runs stay, 0 to 1.
    pub pinned_until: f64,
}

impl Default for CureCache {
    /// A plain second level; the paper's numbers for the rest.
    fn default() -> Self {
        Self {
            kind: CacheKind::Unified,
            os_cache_sharing: true,
            os_cache_kib: 64,
            os_cache_ways: 4,
            os_cache_hit_cycles: 3,
            prefetch_entries: 256,
            prefetch_lead: 0.1,
            prefetch_active_intervals: 256,
            pinned_until: 0.95,
        }
    }
}

impl CureCache {
    /// This kind with the paper's numbers.
    pub fn of(kind: CacheKind) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Sets of the OS cache with lines of so many bytes; none where they are no power of two.
    pub(crate) fn os_sets(&self, line_octets: u64) -> Option<usize> {
        let way_octets = line_octets * self.os_cache_ways as u64;
        let sets = (self.os_cache_kib * 1024).checked_div(way_octets)?;
        (sets.is_power_of_two() && sets * way_octets == self.os_cache_kib * 1024).then_some(sets as usize)
    }

    /// What is wrong with it, with the name of the part; none where it can be used.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let part = |value: f64| (0.0..=1.0).contains(&value);
        let checks = [
            ((1..=1 << 16).contains(&self.os_cache_kib), "cache.os_cache_kib", "1 to 65536"),
            ((1..=32).contains(&self.os_cache_ways), "cache.os_cache_ways", "1 to 32"),
            ((1..=1000).contains(&self.os_cache_hit_cycles), "cache.os_cache_hit_cycles", "1 to 1000"),
            (self.prefetch_entries <= 1 << 16, "cache.prefetch_entries", "0 to 65536"),
            (part(self.prefetch_lead), "cache.prefetch_lead", "0 to 1"),
            (
                (1..=1_000_000).contains(&self.prefetch_active_intervals),
                "cache.prefetch_active_intervals",
                "1 to 1000000",
            ),
            (part(self.pinned_until), "cache.pinned_until", "0 to 1"),
        ];
        checks.into_iter().find(|(holds, ..)| !holds).map(|(_, name, expected)| (name, expected))
    }

    /// What is wrong with it on a chip whose caches have these lines and cycles.
    pub(crate) fn fault_on(&self, machine: &crate::config::Config) -> Option<(&'static str, &'static str)> {
        if self.kind != CacheKind::OsCache {
            return None;
        }
        if self.os_sets(machine.l2.line_octets).is_none() {
            let expected = "os_cache_ways times l2.line_octets times a power of two of sets";
            return Some(("cache.os_cache_kib", expected));
        }
        (self.os_cache_hit_cycles < machine.l1.hit_cycles)
            .then_some(("cache.os_cache_hit_cycles", "not below l1.hit_cycles"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_by_their_names_and_the_rest_stays() {
        for kind in CacheKind::ALL {
            let read: CureCache = toml::from_str(&format!("kind = '{}'", kind.name())).unwrap();
            assert_eq!(read, CureCache::of(kind));
            assert_eq!(read.fault(), None);
        }
        assert!(toml::from_str::<CureCache>("kind = 'os'").is_err());
        assert!(toml::from_str::<CureCache>("sharing = true").is_err());
    }

    #[test]
    fn what_cannot_be_built_has_a_name() {
        let named = |cache: CureCache| cache.fault().map(|fault| fault.0);
        let default = CureCache::default();
        assert_eq!(named(CureCache { pinned_until: 1.5, ..default }), Some("cache.pinned_until"));
        assert_eq!(named(CureCache { prefetch_lead: f64::NAN, ..default }), Some("cache.prefetch_lead"));
        assert_eq!(named(CureCache { os_cache_ways: 0, ..default }), Some("cache.os_cache_ways"));
        let machine = crate::config::Config::default();
        let os = CureCache::of(CacheKind::OsCache);
        assert_eq!((os.fault_on(&machine), os.os_sets(64)), (None, Some(256)));
        let odd = CureCache { os_cache_kib: 65, ..os };
        assert_eq!(odd.fault_on(&machine).map(|fault| fault.0), Some("cache.os_cache_kib"));
        assert_eq!(CureCache { kind: CacheKind::Unified, ..odd }.fault_on(&machine), None);
        let quick = CureCache { os_cache_hit_cycles: 1, ..os };
        assert_eq!(quick.fault_on(&machine).map(|fault| fault.0), Some("cache.os_cache_hit_cycles"));
    }
}
