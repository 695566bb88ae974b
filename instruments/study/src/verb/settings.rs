//! What an arm sets: keys of a plan, and what they mean.

use clap::ValueEnum;
use quaver_chase::args::{PaceMode, ReceiveMode};
use quaver_instrument::quantity;
use quaver_study_analysis::SourceClass;
use serde::Deserialize;
use std::time::Duration;

/// CPUs as a plan has them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum CpusToSteer {
    /// By number.
    Numbers(Vec<u16>),
    /// `sink` or `source`: that thread's.
    Of(String),
}

/// Keys of `[baseline]` and `[[factor]]`; absent: as the baseline, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct Keys {
    receive: Option<String>,
    pace: Option<String>,
    source_cpu: Option<u16>,
    sink_cpu: Option<u16>,
    fifo: Option<u8>,
    exact_timers: Option<bool>,
    gro: Option<bool>,
    tso: Option<bool>,
    throttle: Option<String>,
    itr: Option<String>,
    adaptive_rx: Option<bool>,
    irq_cpu: Option<u16>,
    rps_cpus: Option<CpusToSteer>,
    other_traffic: Option<String>,
    neighbour: Option<bool>,
    neighbour_cpu: Option<u16>,
    neighbour_work: Option<String>,
    keep_busy: Option<bool>,
    ticker: Option<String>,
    ticker_work: Option<String>,
    tune: Option<Vec<String>>,
    boot: Option<Vec<String>>,
}

macro_rules! over {
    ($upper:expr, $lower:expr, $($field:ident),*) => { Keys { $($field: $upper.$field.clone().or($lower.$field.clone())),* } };
}

impl Keys {
    /// These, and what they leave open from `others`.
    pub(super) fn over(&self, others: &Self) -> Self {
        over!(
            self,
            others,
            receive,
            pace,
            source_cpu,
            sink_cpu,
            fifo,
            exact_timers,
            gro,
            tso,
            throttle,
            itr,
            adaptive_rx,
            irq_cpu,
            rps_cpus,
            other_traffic,
            neighbour,
            neighbour_cpu,
            neighbour_work,
            keep_busy,
            ticker,
            ticker_work,
            tune,
            boot
        )
    }

    /// Whether nothing is set.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The class that these belong to, where that is plain.
    pub(super) fn class(&self) -> Option<SourceClass> {
        let stack =
            self.receive.is_some() || self.rps_cpus.is_some() || self.gro.is_some() || self.tso.is_some();
        let moderated = self.throttle.is_some() || self.itr.is_some() || self.adaptive_rx.is_some();
        if moderated || self.irq_cpu.is_some() {
            Some(SourceClass::Hardware)
        } else if stack || self.other_traffic.is_some() {
            Some(SourceClass::NetworkStack)
        } else if self.neighbour.is_some() || self.ticker.is_some() || self.fifo.is_some() {
            Some(SourceClass::NetworkIndependent)
        } else {
            None
        }
    }

    /// What these change, in words.
    pub(super) fn words(&self) -> String {
        let mut words = Vec::new();
        let mut add =
            |name: &str, value: Option<String>| words.extend(value.map(|value| format!("{name} {value}")));
        add("receive", self.receive.clone());
        add("pace", self.pace.clone());
        add("source on CPU", self.source_cpu.map(|cpu| cpu.to_string()));
        add("sink on CPU", self.sink_cpu.map(|cpu| cpu.to_string()));
        add("sink under SCHED_FIFO", self.fifo.map(|priority| priority.to_string()));
        add("exact timers", self.exact_timers.map(on_off));
        add("GRO", self.gro.map(on_off));
        add("TSO", self.tso.map(on_off));
        add("NAPI deferred by", self.throttle.clone());
        add("interrupts throttled to one each", self.itr.clone());
        add("adaptive throttling", self.adaptive_rx.map(on_off));
        add("interrupts to CPU", self.irq_cpu.map(|cpu| cpu.to_string()));
        add(
            "RPS to",
            self.rps_cpus.as_ref().map(|cpus| match cpus {
                CpusToSteer::Numbers(numbers) => format!("CPUs {numbers:?}"),
                CpusToSteer::Of(whose) => format!("the {whose}'s CPU"),
            }),
        );
        add("another packet each", self.other_traffic.clone());
        add("busy neighbour", self.neighbour.map(on_off));
        add("neighbour on CPU", self.neighbour_cpu.map(|cpu| cpu.to_string()));
        add("neighbour's work", self.neighbour_work.clone());
        add("sink's CPU kept from idling", self.keep_busy.map(on_off));
        add("ticker each", self.ticker.clone());
        add("working", self.ticker_work.clone());
        add(
            "tuned:",
            self.tune.as_ref().map(|rows| if rows.is_empty() { "nothing".into() } else { rows.join(", ") }),
        );
        add(
            "booted with",
            self.boot
                .as_ref()
                .map(|words| if words.is_empty() { "no further options".into() } else { words.join(" ") }),
        );
        words.join(", ")
    }
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// What the thread that never sleeps does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeighbourWork {
    /// Nothing.
    Spin,
    /// It sends packets to sockets of its own, so that its CPU is in the network stack most of the time.
    Packets,
}

/// What an arm sets, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How the sink receives.
    pub(crate) receive: ReceiveMode,
    /// How the source waits.
    pub(crate) pace: PaceMode,
    /// CPU of the source.
    pub source_cpu: u16,
    /// CPU of the sink.
    pub sink_cpu: u16,
    /// SCHED_FIFO priority of the sink.
    pub(crate) fifo: Option<u8>,
    /// Timers without slack.
    pub(crate) exact_timers: bool,
    /// Generic receive offload of the sink's interface.
    pub(crate) gro: Option<bool>,
    /// Segmentation offload of the source's interface.
    pub(crate) tso: Option<bool>,
    /// NAPI deferred by this time.
    pub(crate) throttle: Option<Duration>,
    /// Least time between two interrupts of the sink's interface (`rx-usecs`).
    pub(crate) itr: Option<Duration>,
    /// Adaptive interrupt moderation of the sink's interface.
    pub(crate) adaptive_rx: Option<bool>,
    /// CPU that the sink's interface interrupts.
    pub irq_cpu: Option<u16>,
    /// Receive packet steering of the sink's interface.
    pub(crate) rps_cpus: Vec<u16>,
    /// Period of another stream.
    pub(crate) other_traffic: Option<Duration>,
    /// CPU of a thread that never sleeps.
    pub(crate) neighbour: Option<u16>,
    /// What it does.
    pub(crate) neighbour_work: NeighbourWork,
    /// A thread of the idle class keeps the sink's CPU from idling.
    pub(crate) keep_busy: bool,
    /// Period and work of the ticker.
    pub ticker: Option<(Duration, Duration)>,
    /// Rows of the catalogue.
    pub(crate) tune: Vec<String>,
    /// Words of the kernel's command line.
    pub(crate) boot: Vec<String>,
}

impl Settings {
    /// Of keys, on these CPUs.
    pub fn of(keys: &Keys, allowed: &[u16]) -> Result<Self, String> {
        let cpu = |asked: Option<u16>, key: &str, default: Option<&u16>| match asked {
            Some(asked) => self::cpu(allowed, asked, key),
            None => Ok(default.copied().unwrap_or(0)),
        };
        let source_cpu = cpu(keys.source_cpu, "source-cpu", allowed.first())?;
        let sink_cpu = cpu(keys.sink_cpu, "sink-cpu", allowed.last())?;
        let receive = choice("receive", keys.receive.as_deref(), ReceiveMode::Poll)?;
        let pace = choice("pace", keys.pace.as_deref(), PaceMode::Spin)?;
        if keys.fifo.is_some_and(|priority| !(1..=99).contains(&priority)) {
            return Err("fifo: priorities go from 1 to 99".to_owned());
        }
        let ticker = time("ticker", keys.ticker.as_deref())?;
        let work = time("ticker-work", keys.ticker_work.as_deref())?.unwrap_or(Duration::from_micros(10));
        if ticker.is_some_and(|period| work * 2 > period) {
            return Err(
                "ticker-work may be half of the ticker's period at most: it would starve the sink".to_owned()
            );
        }
        let rps_cpus = match &keys.rps_cpus {
            None => Vec::new(),
            Some(CpusToSteer::Numbers(numbers)) => numbers.clone(),
            Some(CpusToSteer::Of(whose)) if whose == "sink" => vec![sink_cpu],
            Some(CpusToSteer::Of(whose)) if whose == "source" => vec![source_cpu],
            Some(CpusToSteer::Of(other)) => {
                return Err(format!("rps-cpus = \"{other}\": give a list of CPUs, \"sink\" or \"source\""));
            }
        };
        Ok(Self {
            receive,
            pace,
            source_cpu,
            sink_cpu,
            fifo: keys.fifo,
            exact_timers: keys.exact_timers.unwrap_or(true),
            gro: keys.gro,
            tso: keys.tso,
            throttle: time("throttle", keys.throttle.as_deref())?,
            itr: time("itr", keys.itr.as_deref())?,
            adaptive_rx: keys.adaptive_rx.or(keys.itr.as_ref().map(|_| false)),
            irq_cpu: keys.irq_cpu.map(|cpu| self::cpu(allowed, cpu, "irq-cpu")).transpose()?,
            rps_cpus,
            other_traffic: time("other-traffic", keys.other_traffic.as_deref())?,
            neighbour: match (keys.neighbour, keys.neighbour_cpu) {
                (Some(true), asked) => Some(cpu(asked, "neighbour-cpu", Some(&sink_cpu))?),
                (_, Some(_)) => {
                    return Err("neighbour-cpu: without neighbour = true there is none".to_owned());
                }
                _ => None,
            },
            neighbour_work: match (keys.neighbour, keys.neighbour_work.as_deref()) {
                (_, None) | (Some(true), Some("spin")) => NeighbourWork::Spin,
                (Some(true), Some("packets")) => NeighbourWork::Packets,
                (Some(true), Some(other)) => {
                    return Err(format!("neighbour-work = \"{other}\": give spin or packets"));
                }
                _ => return Err("neighbour-work: without neighbour = true there is none".to_owned()),
            },
            keep_busy: keys.keep_busy.unwrap_or(false),
            ticker: ticker.map(|period| (period, work)),
            tune: keys.tune.clone().unwrap_or_default(),
            boot: boot(keys.boot.as_deref().unwrap_or_default())?,
        })
    }

    /// The first setting that only an interface with interrupts of its own can have.
    pub(crate) fn wants_device(&self) -> Option<&'static str> {
        let wanted = [
            (self.itr.is_some(), "itr"),
            (self.adaptive_rx.is_some(), "adaptive-rx"),
            (self.irq_cpu.is_some(), "irq-cpu"),
        ];
        wanted.into_iter().find_map(|(is, key)| is.then_some(key))
    }

    /// The first setting that only an interface of our own can have.
    pub(crate) fn wants_namespaces(&self) -> Option<&'static str> {
        let wanted = [
            (self.gro.is_some(), "gro"),
            (self.tso.is_some(), "tso"),
            (self.throttle.is_some(), "throttle"),
            (!self.rps_cpus.is_empty(), "rps-cpus"),
        ];
        wanted.into_iter().find_map(|(is, key)| is.then_some(key))
    }
}

fn cpu(allowed: &[u16], asked: u16, key: &str) -> Result<u16, String> {
    if allowed.contains(&asked) {
        return Ok(asked);
    }
    Err(format!("{key} = {asked}: this process may use CPUs {allowed:?} only (see taskset, cpuset)"))
}

/// Words of a command line, in the order of the plan, each once.
fn boot(words: &[String]) -> Result<Vec<String>, String> {
    let mut found: Vec<String> = Vec::new();
    for word in words {
        // What a boot loader or the kernel would read as more than one word, or as something else.
        let plain = |c: char| c.is_ascii_graphic() && !"\"'`$\\;&|<>#".contains(c);
        if word.is_empty() || !word.chars().all(plain) {
            return Err(format!("boot: {word:?} is no word of a kernel's command line"));
        }
        if !found.contains(word) {
            found.push(word.clone());
        }
    }
    Ok(found)
}

fn choice<T: ValueEnum>(key: &str, text: Option<&str>, default: T) -> Result<T, String> {
    let Some(text) = text else { return Ok(default) };
    T::from_str(text, false).map_err(|_| {
        let known: Vec<String> = T::value_variants()
            .iter()
            .filter_map(|one| Some(one.to_possible_value()?.get_name().to_owned()))
            .collect();
        format!("{key} = \"{text}\": give one of {}", known.join(", "))
    })
}

fn time(key: &str, text: Option<&str>) -> Result<Option<Duration>, String> {
    text.map(|text| quantity::duration(text).map_err(|error| format!("{key}: {error}"))).transpose()
}
