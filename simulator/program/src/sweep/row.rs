//! What a point comes to: its figures, by the names of their columns.

use crate::cure::SimOutcome;
use crate::digest::{PARTS, RUNNING_PARTS};
use quaver_dvfs::dvfs::Table;
use quaver_dvfs::power::PowerModel;
use quaver_sim::cure::CureResults;
use quaver_sim::frames::{FrameConfig, Progress, SlowDown};
use quaver_sim::statistics::{CoreCounts, Results};
use quaver_sync_analysis::sync::SyncClass;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Schema of a point that is done (`points/ID.json`).
pub(super) const SCHEMA: &str = "quaver.sim.sweep.point/1";

/// Columns that say which point it is.
const NAMES: [&str; 4] = ["point", "id", "trace", "seed"];

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A count or a time.
    Whole,
    /// May be negative.
    Signed,
    /// A ratio.
    Real,
}

/// Figures that every sweep has, in the order of their columns. Null where a point has none, for there was no cure.
const FIGURES: [(&str, Kind); 32] = [
    ("duration_fs", Kind::Whole),
    ("cycles", Kind::Whole),
    ("instructions", Kind::Whole),
    ("cpi", Kind::Real),
    ("busy_share", Kind::Real),
    ("idle_share", Kind::Real),
    ("kernel_share", Kind::Real),
    ("fetches", Kind::Whole),
    ("fetch_misses", Kind::Whole),
    ("loads", Kind::Whole),
    ("load_misses", Kind::Whole),
    ("stores", Kind::Whole),
    ("store_misses", Kind::Whole),
    ("l2_asked", Kind::Whole),
    ("l2_missed", Kind::Whole),
    ("l2_misses_per_1000", Kind::Real),
    ("from_remote", Kind::Whole),
    ("from_memory", Kind::Whole),
    ("memory_reads", Kind::Whole),
    ("memory_writes", Kind::Whole),
    ("injected", Kind::Whole),
    ("injected_fs", Kind::Whole),
    ("late_events", Kind::Whole),
    ("late_ns", Kind::Whole),
    ("late_per_ms", Kind::Real),
    ("overflows", Kind::Whole),
    ("owed_max_fs", Kind::Signed),
    ("frequency_changes", Kind::Whole),
    ("mean_factor", Kind::Real),
    ("power", Kind::Real),
    ("ideal_fs", Kind::Whole),
    ("slow_down", Kind::Real),
];

/// All figures that points of a plan may have: those of every sweep, the stack of cycles an instruction, late time by class, and
/// the share of time at each operating point.
pub(super) fn columns(factors: &[String]) -> Vec<(String, Kind)> {
    let mut columns: Vec<(String, Kind)> =
        FIGURES.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
    let stack = PARTS[..RUNNING_PARTS].iter().map(|(part, _)| (cpi_name(part), Kind::Real));
    columns.extend(stack);
    for class in SyncClass::ALL {
        columns.push((format!("late_{}_events", class.short()), Kind::Whole));
        columns.push((format!("late_{}_ns", class.short()), Kind::Whole));
    }
    columns.extend(factors.iter().map(|factor| (factor.clone(), Kind::Real)));
    columns
}

/// Whether results have a column of this name that is no axis.
pub(super) fn is_column(name: &str) -> bool {
    NAMES.contains(&name)
        || name.starts_with("residency_")
        || columns(&[]).iter().any(|(column, _)| column == name)
}

fn cpi_name(part: &str) -> String {
    format!("cpi_{}", part.to_lowercase())
}

/// The column of a table's point at rest.
pub(super) const REST_COLUMN: &str = "residency_1.0000";

/// The columns of the operating points of a table: `residency_1.05`, times the frequency at rest.
pub(super) fn factor_columns(table: &Table) -> impl Iterator<Item = String> + '_ {
    (0..table.points.len()).map(|point| format!("residency_{:.4}", table.factor(point)))
}

/// The run without jitter that a point is compared with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct IdealRun {
    /// How long it took.
    pub(super) duration_fs: u64,
    /// When how much of the work was done.
    pub(super) progress: Progress,
}

/// A point that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PointResult {
    /// [`SCHEMA`].
    pub(super) schema: String,
    /// Version of the program that simulated it.
    pub(super) version: String,
    /// Which.
    pub(super) id: String,
    /// Name and value of each figure that it has.
    pub(super) figures: Map<String, Value>,
}

impl PointResult {
    pub(super) fn of(id: &str, outcome: &SimOutcome, ideal: Option<(&FrameConfig, &IdealRun)>) -> Self {
        let mut figures = Figures(Map::new());
        figures.chip(&outcome.results);
        if let Some(cure) = &outcome.cure {
            figures.cure(cure);
            if let Some((frames, ideal)) = ideal {
                let run = (&cure.progress, outcome.results.duration_fs);
                let slower = SlowDown::of(frames, run, (&ideal.progress, ideal.duration_fs));
                figures.put("ideal_fs", ideal.duration_fs);
                figures.real("slow_down", slower.slow_down);
            }
        }
        Self {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            id: id.to_owned(),
            figures: figures.0,
        }
    }
}

/// Name of a count, and where it is.
type Count = (&'static str, fn(&CoreCounts) -> u64);

struct Figures(Map<String, Value>);

impl Figures {
    fn put(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// A ratio that there is; one of nothing is no figure.
    fn real(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.put(name, value);
        }
    }

    fn chip(&mut self, results: &Results) {
        let instructions = results.instructions();
        let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let cores_fs = results.duration_fs * results.cores.len() as u64;
        let threads = |of: fn(&CoreCounts) -> u64| results.cores.iter().map(of).sum::<u64>();
        let all = |of: fn(&CoreCounts) -> u64| threads(of) + results.kernel.iter().map(of).sum::<u64>();
        let running = results.stacks.iter().map(crate::digest::running_fs);
        let stack = running
            .fold([0_u64; RUNNING_PARTS], |sum, one| std::array::from_fn(|part| sum[part] + one[part]));
        let busy_fs: u64 = stack.iter().sum();
        let kernel_fs: u64 = results.stacks.iter().map(|stack| stack.kernel_fs).sum();
        let idle_fs: u64 = results.stacks.iter().map(|stack| stack.idle_fs).sum();
        let each = |fs: u64| ratio(fs, instructions).map(|fs| fs / results.cycle_fs.max(1) as f64);
        self.put("duration_fs", results.duration_fs);
        self.put("cycles", results.cycles());
        self.put("instructions", instructions);
        self.real("cpi", each(busy_fs));
        self.real("busy_share", ratio(busy_fs, cores_fs));
        self.real("idle_share", ratio(idle_fs, cores_fs));
        self.real("kernel_share", ratio(kernel_fs, cores_fs));
        let counts: [Count; 8] = [
            ("fetches", |core| core.fetches),
            ("fetch_misses", |core| core.fetch_misses),
            ("loads", |core| core.loads),
            ("load_misses", |core| core.load_misses),
            ("stores", |core| core.stores),
            ("store_misses", |core| core.store_misses),
            ("from_remote", |core| core.from_remote),
            ("from_memory", |core| core.from_memory),
        ];
        counts.into_iter().for_each(|(name, of)| self.put(name, all(of)));
        if let Some(second) = results.levels.iter().find(|level| level.level == "l2") {
            self.put("l2_asked", second.asked);
            self.put("l2_missed", second.missed);
            self.real("l2_misses_per_1000", ratio(second.missed, instructions).map(|each| each * 1e3));
        }
        self.put("memory_reads", results.memory_reads);
        self.put("memory_writes", results.memory_writes);
        for ((part, _), fs) in PARTS.iter().zip(stack) {
            self.real(&cpi_name(part), each(fs));
        }
    }

    fn cure(&mut self, cure: &CureResults) {
        let injected = cure.injected.values().chain([&cure.timer]);
        let (times, fs) = injected.fold((0, 0), |sum, one| (sum.0 + one.injected, sum.1 + one.total_fs));
        self.put("injected", times);
        self.put("injected_fs", fs);
        let classes = &cure.units.sync.classes;
        self.put("late_events", classes.iter().map(|class| class.late.count).sum::<u64>());
        self.put("late_ns", classes.iter().map(|class| class.late.total_ns).sum::<u64>());
        self.real("late_per_ms", Some(classes.iter().map(|class| class.late_per_ms).sum()));
        for class in classes {
            self.put(&format!("late_{}_events", class.class.short()), class.late.count);
            self.put(&format!("late_{}_ns", class.class.short()), class.late.total_ns);
        }
        self.put("overflows", cure.units.overflows);
        self.put("owed_max_fs", cure.owed_fs.iter().copied().max().unwrap_or(0));
        self.put("frequency_changes", cure.residency.iter().map(|core| core.changes).sum::<u64>());
        self.residency(cure);
    }

    /// How the time in which cores had a thread was spread over the operating points, and what that is for power.
    fn residency(&mut self, cure: &CureResults) {
        let table = &cure.table;
        let at = |point: usize| -> u64 {
            cure.residency.iter().map(|core| core.active_fs.get(point).copied().unwrap_or(0)).sum()
        };
        let times: Vec<u64> = (0..table.points.len()).map(at).collect();
        let whole: u64 = times.iter().sum();
        let share = |fs: u64| (whole > 0).then(|| fs as f64 / whole as f64);
        for (name, fs) in factor_columns(table).zip(&times) {
            self.real(&name, share(*fs));
        }
        let mean = times.iter().enumerate().map(|(point, fs)| table.factor(point) * *fs as f64).sum::<f64>();
        self.real("mean_factor", (whole > 0).then(|| mean / whole as f64));
        self.real("power", PowerModel::default().mean(table, &cure.residency));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_names_of_their_own() {
        let table = Table::default();
        let factors: Vec<String> = factor_columns(&table).collect();
        assert_eq!(factors[table.rest], REST_COLUMN);
        assert_eq!((factors[0].as_str(), factors[8].as_str()), ("residency_0.8000", "residency_1.2000"));
        let columns = columns(&factors);
        let mut names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).chain(NAMES).collect();
        let number = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), number);
        assert!(
            is_column("cpi_l2") && is_column("seed") && is_column("late_bw_ns") && is_column("residency_9")
        );
        assert!(!is_column("machine.l2.kib"));
    }
}
