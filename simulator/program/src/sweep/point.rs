//! From a plan to its points: each a trace on a machine with a cure and a seed, known by what it is.

use super::axis::Axis;
use super::plan::{Ideal, Plan, hexadecimal};
use crate::machine_file::put;
use crate::sweep::digest::Label;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_sim::config::Config;
use quaver_sim::cure::{CacheKind, Cure, CureCache, CureConfig, Library};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::Arc;

/// Most points of a sweep.
const MOST_POINTS: u128 = 100_000;
/// Bytes of a point's name.
const ID_OCTETS: usize = 8;

/// A machine and a cure.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) machine: Config,
    pub(super) cure: Option<CureConfig>,
}

/// What is simulated once.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// 16 hexadecimal digits of what it is.
    pub(super) id: String,
    /// Which of the plan's traces.
    pub(super) trace: usize,
    /// Which value of each axis.
    pub(super) values: Vec<usize>,
    /// Of what is injected; none where nothing is.
    pub(super) seed: Option<u64>,
    /// On what.
    pub(super) setting: Arc<Setting>,
}

/// All points of a plan.
#[derive(Clone, Debug)]
pub(super) struct Points {
    /// In the order of the plan: by trace, axes and seed.
    pub(super) all: Vec<Point>,
    /// 16 hexadecimal digits of all of them and their names.
    pub(super) id: String,
    /// What the plan says for nothing.
    pub(super) warnings: Vec<String>,
}

impl Point {
    /// Its name for people: `ocean, machine.l2.kib = 256, seed 3`.
    pub(super) fn words(&self, plan: &Plan) -> String {
        let mut words = vec![plan.traces[self.trace].name.clone()];
        words.extend(self.labels(plan).map(|(axis, label)| format!("{} = {label}", axis.name)));
        words.extend(self.seed.map(|seed| format!("seed {seed}")));
        words.join(", ")
    }

    /// Each axis with the value that it has here.
    pub(super) fn labels<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = (&'a Axis, &'a Label)> {
        plan.axes.iter().zip(&self.values).map(|(axis, at)| (axis, &axis.points[*at].label))
    }

    /// The same without jitter and controller, for slow-downs; none where the plan wants none, or there is nothing to compare.
    pub(super) fn ideal(&self, wanted: Ideal) -> Option<CureConfig> {
        let cure = self.setting.cure.as_ref()?;
        let cache = match wanted {
            Ideal::None => return None,
            Ideal::SameCache => cure.cache,
            Ideal::Unified => CureCache { kind: CacheKind::Unified, ..cure.cache },
        };
        let ideal = CureConfig { frames: cure.frames, cache, ..CureConfig::default() };
        Some(ideal)
    }
}

/// Everything that a simulation follows from, in 16 hexadecimal digits.
pub(super) fn identity(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hexadecimal(&hash.finalize()[..ID_OCTETS])
}

/// All points of a plan. Errors are sentences with the values that cannot be.
pub(super) fn expand(plan: &Plan) -> anyhow::Result<Points> {
    let number =
        plan.axes.iter().fold(plan.traces.len() as u128 * plan.seeds.len().max(1) as u128, |all, axis| {
            all.saturating_mul(axis.points.len() as u128)
        });
    if number > MOST_POINTS {
        let message =
            format!("{}: the grid has {number} points; at most {MOST_POINTS} make a sweep", plan.name);
        return Err(failure(ExitCode::BadInput, message));
    }
    let settings = settings(plan)?;
    let mut all: Vec<Point> = Vec::new();
    for trace in 0..plan.traces.len() {
        for (values, setting) in &settings {
            for seed in seeds(plan, setting) {
                let id = point_id(plan, trace, setting, seed)?;
                let (values, setting) = (values.clone(), Arc::clone(setting));
                all.push(Point { id, trace, values, seed, setting });
            }
        }
    }
    let mut known: HashMap<&str, &Point> = HashMap::new();
    for point in &all {
        if let Some(other) = known.insert(&point.id, point) {
            let message = format!(
                "{}: {} is the same as {}: one of the axes changes nothing there",
                plan.name,
                point.words(plan),
                other.words(plan)
            );
            return Err(failure(ExitCode::BadInput, message));
        }
    }
    let cut = plan.traces.iter().filter(|trace| trace.cut_short);
    let mut warnings: Vec<String> = cut
        .map(|trace| {
            format!("the trace {} was cut short: its points are of a part of the program", trace.name)
        })
        .collect();
    if !plan.seeds.is_empty() && all.iter().all(|point| point.seed.is_none()) {
        warnings
            .push("the plan has seeds but nothing is injected, so each point is simulated once".to_owned());
    }
    Ok(Points { id: sweep_id(plan, &all)?, all, warnings })
}

/// Seeds only make a difference where something is drawn.
fn seeds(plan: &Plan, setting: &Setting) -> Vec<Option<u64>> {
    match setting.cure.as_ref().and_then(|cure| cure.injection.as_ref()) {
        None => vec![None],
        Some(injection) if plan.seeds.is_empty() => vec![Some(injection.seed)],
        Some(_) => plan.seeds.iter().copied().map(Some).collect(),
    }
}

fn point_id(plan: &Plan, trace: usize, setting: &Setting, seed: Option<u64>) -> anyhow::Result<String> {
    let mut cure = setting.cure.clone();
    if let (Some(seed), Some(injection)) = (seed, cure.as_mut().and_then(|cure| cure.injection.as_mut())) {
        injection.seed = seed;
    }
    let library = plan.library.as_ref().map_or("", |library| library.sha256.as_str());
    Ok(identity(&[
        super::row::SCHEMA,
        &plan.traces[trace].input.sha256,
        &serde_json::to_string(&setting.machine)?,
        &serde_json::to_string(&cure)?,
        if cure.is_some() { library } else { "" },
        if cure.is_some() { plan.ideal.name() } else { "" },
    ]))
}

/// Of everything that stands in the table but the figures.
fn sweep_id(plan: &Plan, all: &[Point]) -> anyhow::Result<String> {
    let names: Vec<&str> = plan.traces.iter().map(|trace| trace.name.as_str()).collect();
    let labels: Vec<(&str, Vec<&Label>)> = plan
        .axes
        .iter()
        .map(|axis| (axis.name.as_str(), axis.points.iter().map(|point| &point.label).collect()))
        .collect();
    let ids: Vec<&str> = all.iter().map(|point| point.id.as_str()).collect();
    Ok(identity(&[
        &plan.name,
        &serde_json::to_string(&names)?,
        &serde_json::to_string(&labels)?,
        &serde_json::to_string(&ids)?,
    ]))
}

/// Every combination of the axes' values, the last axis fastest.
fn settings(plan: &Plan) -> anyhow::Result<Vec<(Vec<usize>, Arc<Setting>)>> {
    let mut combinations = vec![Vec::new()];
    for axis in &plan.axes {
        combinations = combinations
            .into_iter()
            .flat_map(|before: Vec<usize>| {
                (0..axis.points.len()).map(move |at| before.iter().copied().chain([at]).collect())
            })
            .collect();
    }
    let setting = |values: Vec<usize>| {
        let setting = setting(plan, &values).map_err(|what| {
            let words: Vec<String> = plan
                .axes
                .iter()
                .zip(&values)
                .map(|(axis, at)| format!("{} = {}", axis.name, axis.points[*at].label))
                .collect();
            let at = if words.is_empty() { String::new() } else { format!(" with {}", words.join(", ")) };
            failure(ExitCode::BadInput, format!("sweep {}{at}: {what}", plan.name))
        })?;
        Ok::<_, anyhow::Error>((values, Arc::new(setting)))
    };
    combinations.into_iter().map(setting).collect()
}

fn setting(plan: &Plan, values: &[usize]) -> Result<Setting, String> {
    let (mut machine, mut cure) = (plan.machine.clone(), plan.cure.clone());
    for (axis, at) in plan.axes.iter().zip(values) {
        for (key, value) in &axis.points[*at].set {
            if let Some(key) = key.strip_prefix("machine.") {
                put(&mut machine, key, value.clone());
            } else if let Some(key) = key.strip_prefix("cure.") {
                put(cure.get_or_insert_default(), key, value.clone());
            } else {
                cure = None;
            }
        }
    }
    let text = toml::to_string(&machine).map_err(|error| error.to_string())?;
    let machine = Config::from_toml(&text).map_err(|error| error.to_string().trim_end().to_owned())?;
    let cure = cure.map(whole_cure).transpose()?;
    if let Some(cure) = &cure {
        // What holds between machine and cure is known to the simulator alone, which is cheap to ask.
        let asked = Cure::new(cure.clone(), &machine, Library::default());
        asked.map_err(|(name, expected)| format!("configuration of the cure: {name}: {expected}"))?;
    }
    Ok(Setting { machine, cure })
}

/// A cure as a plan says it: a table that is `false` is not there. Subframes are not kept one by one, since no figure needs them.
fn whole_cure(mut table: toml::Table) -> Result<CureConfig, String> {
    let is_off = |value: Option<&toml::Value>| value.and_then(toml::Value::as_bool) == Some(false);
    for name in ["dvfs", "evictions", "injection"] {
        if is_off(table.get(name)) {
            table.remove(name);
        }
    }
    if let Some(toml::Value::Table(injection)) = table.get_mut("injection")
        && is_off(injection.get("timer"))
    {
        injection.remove("timer");
    }
    let cure = CureConfig::from_table(table).map_err(|error| error.to_string().trim_end().to_owned())?;
    Ok(CureConfig { kept_subframes: 0, ..cure })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::axis::AxisText;
    use crate::sweep::plan::{Input, PlannedTrace, SCHEMA};
    use quaver_dvfs::dvfs::ControllerConfig;
    use quaver_sim::cure::Evictions;
    use quaver_sim::frames::FrameConfig;

    fn plan(traces: usize, cure: Option<&str>, axes: &[&str], seeds: &[u64]) -> Plan {
        let trace = |number: usize| PlannedTrace {
            name: format!("t{number}"),
            input: Input { path: format!("/t{number}").into(), sha256: format!("{number:064}") },
            steps: 10,
            cut_short: number > 1,
        };
        let axis = |(number, text): (usize, &&str)| {
            toml::from_str::<AxisText>(text).unwrap().read(number + 1).unwrap()
        };
        Plan {
            schema: SCHEMA.to_owned(),
            version: "0".to_owned(),
            name: "p".to_owned(),
            traces: (0..traces).map(trace).collect(),
            machine: toml::Table::new(),
            cure: cure.map(|text| text.parse().unwrap()),
            library: None,
            recorded: None,
            axes: axes.iter().enumerate().map(axis).collect(),
            seeds: seeds.to_vec(),
            ideal: Ideal::SameCache,
        }
    }

    const INJECTED: &str = "[injection.classes.broadcast-wait]\nkind='exceedance'\nprobability=1.0\nover_ns=0.0\n\
                            mean_ns=100000.0\nsigma=0.6";
    const SIZES: &str = "key='machine.l2.kib'\nvalues=[128,256]";
    const SCHEMES: &str = "name='scheme'\n[[point]]\nname='none'\nset={cure=false}\n[[point]]\nname='rest'\n\
                           [[point]]\nname='fast'\nset={cure.dvfs.reactivity=2}";

    #[test]
    fn the_grid_is_traces_then_axes_then_seeds() {
        let plan = plan(2, Some(INJECTED), &[SIZES, SCHEMES], &[3, 1]);
        let points = expand(&plan).unwrap();
        // Nothing is drawn without a cure, so such a point has no seed and stands there once.
        assert_eq!(points.all.len(), 2 * 2 * (1 + 2 + 2));
        let words: Vec<String> = points.all[..6].iter().map(|point| point.words(&plan)).collect();
        assert_eq!(
            words,
            [
                "t0, machine.l2.kib = 128, scheme = none",
                "t0, machine.l2.kib = 128, scheme = rest, seed 3",
                "t0, machine.l2.kib = 128, scheme = rest, seed 1",
                "t0, machine.l2.kib = 128, scheme = fast, seed 3",
                "t0, machine.l2.kib = 128, scheme = fast, seed 1",
                "t0, machine.l2.kib = 256, scheme = none",
            ]
        );
        let fast = points.all[3].setting.cure.as_ref().unwrap();
        assert_eq!(
            fast.dvfs.as_ref().unwrap(),
            &ControllerConfig { reactivity: 2, ..ControllerConfig::default() }
        );
        assert!(points.all[1].setting.cure.as_ref().unwrap().dvfs.is_none());
        assert_eq!(points.all[5].setting.machine.l2.kib, 256);
        let ideal = points.all[3].ideal(Ideal::SameCache).unwrap();
        assert!(ideal.injection.is_none() && ideal.dvfs.is_none());
        assert_eq!((points.all[0].ideal(Ideal::SameCache), points.all[3].ideal(Ideal::None)), (None, None));
    }

    #[test]
    fn a_point_is_known_by_what_it_is_and_by_nothing_else() {
        let ids = |plan: &Plan| -> Vec<String> {
            expand(plan).unwrap().all.into_iter().map(|point| point.id).collect()
        };
        let first = plan(1, Some(INJECTED), &[SIZES], &[1, 2]);
        let whole = ids(&first);
        assert_eq!(ids(&first), whole, "again");
        let mut longer = plan(2, Some(INJECTED), &["key='machine.l2.kib'\nvalues=[512,256,128]"], &[2, 7, 1]);
        longer.name = "another".to_owned();
        longer.traces[0].name = "renamed".to_owned();
        longer.traces[0].input.path = "/elsewhere".into();
        let more = ids(&longer);
        assert!(whole.iter().all(|id| more.contains(id)), "an extended plan has the points of the first");
        assert_ne!(expand(&first).unwrap().id, expand(&longer).unwrap().id);
        let mut other = plan(1, Some(INJECTED), &[SIZES], &[1, 2]);
        other.traces[0].input.sha256 = "other".to_owned();
        assert!(ids(&other).iter().all(|id| !whole.contains(id)), "another trace");
        other = plan(1, Some(&INJECTED.replace("0.6", "0.7")), &[SIZES], &[1, 2]);
        assert!(ids(&other).iter().all(|id| !whole.contains(id)), "another injection");
    }

    #[test]
    fn what_is_false_is_not_there_and_what_is_written_in_part_is_whole() {
        let cure = |text: &str| whole_cure(text.parse().unwrap());
        let off = cure(&format!(
            "dvfs=false\nevictions=false\ncount_all=false\n{INJECTED}\n[injection]\ntimer=false"
        ));
        let off = off.unwrap_or_else(|error| panic!("{error}"));
        assert!(off.dvfs.is_none() && off.evictions.is_none() && off.injection.unwrap().timer.is_none());
        let part = cure("[evictions]\nbanks=4\n[frames]\ndummy_subframes=3").unwrap();
        assert_eq!(part.evictions.unwrap(), Evictions { banks: 4, ..Evictions::default() });
        assert_eq!(part.frames, FrameConfig { dummy_subframes: 3, ..FrameConfig::default() });
        assert!(cure("injection=false").unwrap().injection.is_none());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_values() {
        let refused = |plan: &Plan| quaver_instrument::exit_code::sentence(&expand(plan).unwrap_err());
        let with = |axes: &[&str]| refused(&plan(1, Some(INJECTED), axes, &[1]));
        let said = with(&["key='machine.l2.kib'\nvalues=[256,100]"]);
        assert!(
            said.contains("sweep p with machine.l2.kib = 100: ") && said.contains("l2.kib = 100: ways"),
            "{said}"
        );
        assert!(with(&["key='machine.l2.kb'\nvalues=[1]"]).contains("unknown field `kb`"));
        assert!(with(&["key='cure.dvfs.reactivity'\nvalues=[0]"]).contains("dvfs.reactivity: at least 1"));
        assert!(with(&["key='cure.dvfs.kind'\nvalues=['magic']"]).contains("magic"));
        assert!(
            with(&[
                "key='machine.chip.frequency_ghz'\nvalues=[2.5]\nname='f'",
                "key='cure.dvfs.reactivity'\nvalues=[1]"
            ])
            .contains("with f = 2.5, cure.dvfs.reactivity = 1: configuration of the cure: dvfs.table.rest")
        );
        let twice = with(&[
            "key='cure.dvfs.reactivity'\nvalues=[1,2]",
            "name='s'\n[[point]]\nname='off'\nset={cure.dvfs=false}",
        ]);
        assert!(
            twice.contains("is the same as t0, cure.dvfs.reactivity = 1, s = off, seed 1: one of the axes"),
            "{twice}"
        );
        let many = "key='machine.chip.remote_cycles'\nfrom=1\nto=9999\nstep=1";
        let large = plan(11, None, &[many], &[]);
        assert!(refused(&large).contains("the grid has 109989 points"), "{}", refused(&large));
        let seeds = expand(&plan(1, None, &[SIZES], &[1, 2])).unwrap();
        assert_eq!((seeds.all.len(), seeds.warnings.len()), (2, 1));
        let third = expand(&plan(3, None, &[], &[])).unwrap().warnings;
        assert_eq!(third, ["the trace t2 was cut short: its points are of a part of the program"]);
    }
}
