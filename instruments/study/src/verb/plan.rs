//! The plan file: a baseline, factors, and how they are measured.

use super::settings::{Keys, Settings};
use quaver_chase::args::LabKind;
use quaver_instrument::quantity;
use quaver_instrument::quantity::Period;
use quaver_study_analysis::{Arm, LEAST_BLOCKS, Metric, Role, SourceClass, StudyFacts, blocks_needed};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;

/// The plan for this host.
const BUILT_IN: &str = include_str!("../../assets/netns.toml");
/// The plan for a guest of QEMU.
const BUILT_IN_QEMU: &str = include_str!("../../assets/qemu.toml");
const BASELINE: &str = "baseline";
const CONTROL: &str = "control (A/A)";
/// Most cells: a week of one second each.
const MOST_BLOCKS: u32 = 1_000;

/// The plan that is run in a lab where none is given.
pub(super) fn built_in(lab: LabKind) -> &'static str {
    match lab {
        LabKind::Qemu => BUILT_IN_QEMU,
        LabKind::Netns | LabKind::Loopback => BUILT_IN,
    }
}

/// What the command line says over the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Overrides {
    pub(super) blocks: Option<u32>,
    pub(super) duration: Option<Duration>,
    pub(super) seed: Option<u64>,
}

/// A plan, ready to be carried out.
#[derive(Clone, Debug)]
pub struct StudyPlan {
    /// What is planned, in the words of the results.
    pub facts: StudyFacts,
    /// Settings of each arm of the facts.
    pub settings: Vec<Settings>,
    /// Period of the stream.
    pub(crate) period: Period,
    /// Bytes of UDP payload.
    pub(crate) payload_bytes: usize,
    /// Time of a cell that is dropped.
    pub(crate) warm_up: Duration,
    /// Time of a cell that is measured.
    pub(crate) measured: Duration,
    /// A sender that was off its CPU for more than this share of the time spoils a cell.
    pub(crate) sender_limit: f64,
    /// Trace each cell, as far as this machine allows.
    pub(crate) trace: bool,
    /// Keep the stamps of each cell.
    pub keep_stamps: bool,
    /// Whether some CPU is neither source's nor sink's in any arm.
    pub(crate) housekeeping: bool,
    /// Directory of the journal of changed settings; none: the one of this machine.
    pub(crate) journal: Option<PathBuf>,
}

impl StudyPlan {
    /// Bytes of payload before our header: a plain stream begins with it (`StreamShape::Plain`).
    pub(crate) fn header_offset(&self) -> usize {
        0
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    study: Head,
    #[serde(default)]
    stream: Stream,
    #[serde(default)]
    baseline: toml::Table,
    #[serde(default)]
    factor: Vec<Factor>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Head {
    blocks: Option<u32>,
    #[serde(rename = "for")]
    duration: Option<String>,
    warm_up: Option<String>,
    seed: Option<u64>,
    rank_by: Option<Metric>,
    spike: Option<String>,
    sender_limit: Option<f64>,
    trace: Option<bool>,
    keep_stamps: Option<bool>,
    pairs: Vec<[String; 2]>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Stream {
    period: Option<String>,
    size: Option<usize>,
}

#[derive(Deserialize)]
struct Factor {
    id: String,
    class: Option<SourceClass>,
    #[serde(flatten)]
    keys: toml::Table,
}

/// Keys of an arm. Not `deny_unknown_fields`, which cannot go with a flattened table.
fn keys(table: &toml::Table, whose: &str) -> Result<Keys, String> {
    const KNOWN: [&str; 22] = [
        "receive",
        "pace",
        "source-cpu",
        "sink-cpu",
        "fifo",
        "exact-timers",
        "gro",
        "tso",
        "throttle",
        "itr",
        "adaptive-rx",
        "irq-cpu",
        "rps-cpus",
        "other-traffic",
        "neighbour",
        "neighbour-cpu",
        "neighbour-work",
        "keep-busy",
        "ticker",
        "ticker-work",
        "tune",
        "boot",
    ];
    if let Some(key) = table.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("{whose}: there is no key {key:?}; there are {}", KNOWN.join(", ")));
    }
    table.clone().try_into().map_err(|error| format!("{whose}: {error}"))
}

/// Reads a plan. Errors are sentences.
pub(super) fn read(
    text: &str,
    overrides: Overrides,
    allowed: &[u16],
    chosen: &[[String; 2]],
) -> Result<StudyPlan, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let head = file.study;
    let base = keys(&file.baseline, "[baseline]")?;
    let (arms, settings) = arms(&file.factor, (&head.pairs, chosen), &base, allowed)?;
    let time = |key: &str, text: &Option<String>, default: Duration| match text {
        None => Ok(default),
        Some(text) => quantity::duration(text).map_err(|error| format!("{key}: {error}")),
    };
    let measured =
        overrides.duration.map_or_else(|| time("for", &head.duration, Duration::from_secs(1)), Ok)?;
    let warm_up = time("warm-up", &head.warm_up, Duration::from_millis(300))?;
    let period = match &file.stream.period {
        None => Period { picoseconds: 7_410_000 },
        Some(text) => quantity::period(text).map_err(|error| format!("period: {error}"))?,
    };
    if measured.as_nanos() < (period.ns() * 1_000.0) as u128 {
        return Err(format!("for: {measured:?} is less than a thousand packets; measure for longer"));
    }
    let spike_ns = match &head.spike {
        None => (period.ns() * 10.0) as i64,
        Some(_) => time("spike", &head.spike, Duration::ZERO)?.as_nanos() as i64,
    };
    let factors = arms.iter().filter(|arm| matches!(arm.role, Role::Factor { .. })).count();
    let blocks = overrides.blocks.or(head.blocks).unwrap_or_else(|| blocks_needed(factors));
    if !(LEAST_BLOCKS..=MOST_BLOCKS).contains(&blocks) {
        return Err(format!("blocks = {blocks}: give {LEAST_BLOCKS} to {MOST_BLOCKS}"));
    }
    let sender_limit = head.sender_limit.unwrap_or(0.1);
    if !(0.0..=1.0).contains(&sender_limit) {
        return Err(format!("sender-limit = {sender_limit}: it is a share of the time, from 0 to 1"));
    }
    let facts = StudyFacts {
        arms,
        blocks,
        further_blocks: if chosen.is_empty() { 0 } else { blocks_needed(chosen.len()) },
        seed: overrides.seed.or(head.seed).unwrap_or(1),
        period_ns: period.ns(),
        spike_ns,
        rank_by: head.rank_by.unwrap_or(Metric::BelowHalf),
        measured_ns: measured.as_nanos() as u64,
        warm_up_ns: warm_up.as_nanos() as u64,
    };
    let payload_bytes = file.stream.size.unwrap_or(1_428);
    let busy = |cpu: &u16| {
        settings.iter().any(|one| [one.source_cpu, one.sink_cpu].contains(cpu) || one.rps_cpus.contains(cpu))
    };
    Ok(StudyPlan {
        housekeeping: allowed.iter().any(|cpu| !busy(cpu)),
        facts,
        settings,
        period,
        payload_bytes,
        warm_up,
        measured,
        sender_limit,
        trace: head.trace.unwrap_or(true),
        keep_stamps: head.keep_stamps.unwrap_or(true),
        journal: None,
    })
}

fn arms(
    factors: &[Factor],
    (planned, chosen): (&[[String; 2]], &[[String; 2]]),
    base: &Keys,
    allowed: &[u16],
) -> Result<(Vec<Arm>, Vec<Settings>), String> {
    if factors.is_empty() {
        return Err("there is no [[factor]]: a study wants at least one".to_owned());
    }
    let baseline = Settings::of(base, allowed).map_err(|error| format!("[baseline]: {error}"))?;
    let words = if base.is_empty() { "nothing special".to_owned() } else { base.words() };
    let mut arms = vec![
        Arm { id: BASELINE.into(), words, role: Role::Baseline, boot: baseline.boot.clone() },
        Arm {
            id: CONTROL.into(),
            words: "the baseline again".into(),
            role: Role::Control,
            boot: baseline.boot.clone(),
        },
    ];
    let mut settings = vec![baseline.clone(), baseline.clone()];
    let mut own: Vec<(String, Keys)> = Vec::new();
    for factor in factors {
        let id = factor.id.trim().to_owned();
        let whose = format!("factor {id:?}");
        if id.is_empty() || id.contains('+') || arms.iter().any(|arm| arm.id == id) {
            return Err(format!("{whose}: an id is a word of its own, without +, used once"));
        }
        let keys = keys(&factor.keys, &whose)?;
        let resolved =
            Settings::of(&keys.over(base), allowed).map_err(|error| format!("{whose}: {error}"))?;
        if resolved == baseline {
            return Err(format!("{whose}: it sets nothing that the baseline has not"));
        }
        let class = factor.class.or_else(|| keys.class());
        let Some(class) = class else {
            return Err(format!("{whose}: say its class: hardware, network-stack or network-independent"));
        };
        let boot = resolved.boot.clone();
        arms.push(Arm { id: id.clone(), words: keys.words(), role: Role::Factor { class }, boot });
        settings.push(resolved);
        own.push((id, keys));
    }
    let all = planned.iter().map(|pair| (pair, false)).chain(chosen.iter().map(|pair| (pair, true)));
    for ([one, other], chosen) in all {
        let keys_of = |id: &String| {
            let found = own.iter().find(|(known, _)| known == id);
            found.map(|(_, keys)| keys).ok_or_else(|| format!("pairs: there is no factor {id:?}"))
        };
        let both = keys_of(one)?.over(keys_of(other)?);
        let id = format!("{one}+{other}");
        if one == other || arms.iter().any(|arm| arm.id == id) {
            return Err(format!("pairs: {id} is not two factors, or stands there twice"));
        }
        let resolved =
            Settings::of(&both.over(base), allowed).map_err(|error| format!("pair {id}: {error}"))?;
        let of = [one.clone(), other.clone()];
        let is_one = |id: &String| {
            arms.iter().position(|arm| arm.id == *id).is_some_and(|at| settings[at] == resolved)
        };
        if of.iter().any(is_one) {
            return Err(format!("pairs: {id} is no other than one of the two, which set the same key"));
        }
        let (words, boot) = (both.words(), resolved.boot.clone());
        settings.push(resolved);
        arms.push(Arm { id, words, role: Role::Pair { of, chosen }, boot });
    }
    Ok((arms, settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_with(text: &str) -> Result<StudyPlan, String> {
        read(text, Overrides::default(), &[0, 1], &[])
    }

    #[test]
    fn the_built_in_plan_is_well_formed() {
        let plan = read_with(BUILT_IN).unwrap();
        assert_eq!((plan.facts.arms.len(), plan.facts.blocks), (11, 9), "8 factors want 2·8/2^9 <= .05");
        assert_eq!(plan.settings[0], plan.settings[1], "the control is the baseline");
        assert_eq!(plan.settings[4].rps_cpus, [1]);
        let pair = plan.settings.last().unwrap();
        assert_eq!(
            (pair.receive, pair.throttle),
            (quaver_chase::args::ReceiveMode::Block, Some(Duration::from_micros(100)))
        );
        assert_eq!((plan.period.picoseconds, plan.payload_bytes), (7_410_000, 1_428));
    }

    #[test]
    fn the_built_in_plan_of_the_qemu_lab_is_well_formed() {
        let plan = read(built_in(LabKind::Qemu), Overrides::default(), &[0, 1, 2], &[]).unwrap();
        assert_eq!(plan.settings[0], plan.settings[1], "the control is the baseline");
        assert!(
            plan.settings.iter().all(|one| one.pace == quaver_chase::args::PaceMode::Sleep),
            "the source has to sleep"
        );
        assert!(plan.settings.iter().all(|one| (one.source_cpu, one.sink_cpu) == (0, 2)));
        assert_eq!(plan.settings.iter().filter(|one| !one.boot.is_empty()).count(), 1);
    }

    #[test]
    fn the_command_line_has_the_last_word() {
        let duration = Some(Duration::from_millis(400));
        let overrides = Overrides { blocks: Some(5), duration, seed: Some(9) };
        let plan = read(BUILT_IN, overrides, &[0, 1], &[]).unwrap();
        assert_eq!((plan.facts.blocks, plan.facts.seed, plan.facts.measured_ns), (5, 9, 400_000_000));
    }

    #[test]
    fn mistakes_are_told_in_sentences() {
        for (text, said) in [
            ("", "there is no [[factor]]"),
            ("[study]\nblock = 3\n[[factor]]\nid='a'\nreceive='block'", "unknown field `block`"),
            ("[[factor]]\nid='a'\nrecieve='block'", "there is no key \"recieve\""),
            ("[[factor]]\nid='a'\nreceive='sleep'", "give one of poll, block, epoll, busy-poll"),
            ("[[factor]]\nid='a'\nreceive='poll'", "it sets nothing that the baseline has not"),
            ("[[factor]]\nid='a'\nreceive='block'\n[[factor]]\nid='a'\ngro=true", "used once"),
            ("[[factor]]\nid='a'\nsink-cpu=0", "say its class"),
            ("[[factor]]\nid='a'\nsink-cpu=7", "CPUs [0, 1] only"),
            ("[[factor]]\nid='a'\nneighbour=true\nneighbour-work='bits'", "give spin or packets"),
            ("[[factor]]\nid='a'\nfifo=5\nneighbour-work='packets'", "without neighbour = true"),
            ("[[factor]]\nid='a'\nticker='20us'\nticker-work='15us'", "half of the ticker's period"),
            ("[study]\nblocks=4\n[[factor]]\nid='a'\ngro=true", "give 5 to 1000"),
            ("[study]\npairs=[['a','b']]\n[[factor]]\nid='a'\ngro=true", "there is no factor \"b\""),
            ("[study]\nfor='5'\n[[factor]]\nid='a'\ngro=true", "has no unit"),
            ("[study]\nfor='1ms'\n[[factor]]\nid='a'\ngro=true", "less than a thousand packets"),
        ] {
            let error = read_with(text).expect_err(text);
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}
