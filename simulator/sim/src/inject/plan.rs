//! What is injected where.

use super::duration::Duration;
use super::recording::{JointCounts, Recording, RecordingFacts};
use quaver_sync_analysis::sync::SyncClass;
use quaver_trace::step::Thread;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Femtoseconds in a microsecond.
const FS_PER_US: u64 = 1_000_000_000;
/// Femtoseconds in a nanosecond.
const FS_PER_NS: u64 = 1_000_000;
/// Sets what is drawn for broadcasts apart from what is drawn for threads.
const BROADCASTS: u64 = 0x6272_6f61_6463_6173;

/// Timer interrupts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimerConfig {
    /// From one to the next, microseconds (the paper: 10 ms).
    pub period_us: u64,
    /// Cores that take them (the paper: the first two).
    pub cores: Vec<usize>,
    /// How long each takes.
    pub duration: Duration,
}

impl Default for TimerConfig {
    /// Every 10 ms on the first two cores, 5 us on average (our choice).
    fn default() -> Self {
        let duration = Duration::Exceedance { probability: 1.0, over_ns: 0.0, mean_ns: 5_000.0, sigma: 0.5 };
        Self { period_us: 10_000, cores: vec![0, 1], duration }
    }
}

/// Everything that is injected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InjectionConfig {
    /// Everything drawn follows from it.
    pub seed: u64,
    /// By class: what the kernel takes at each operation that goes into the kernel. Classes that are not here take nothing.
    #[serde(default)]
    pub classes: BTreeMap<SyncClass, Duration>,
    /// Part of the broadcasts, and of the times that all meet at a barrier, at which the kernel holds up all that are woken, for
    /// the same time, or none, 0 to 1; at the others each has his own luck.
    #[serde(default)]
    pub together: f64,
    /// Timer interrupts; none: there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<TimerConfig>,
    /// The recording from which the lateness of classes comes that are not in `classes`; none: from none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordingFacts>,
}

impl InjectionConfig {
    /// What is wrong with it, with the name of the part; none where it can be used.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let classes =
            self.classes.iter().find_map(|(class, duration)| Some((class.name(), duration.fault()?)));
        classes.or_else(|| {
            if !(0.0..=1.0).contains(&self.together) {
                return Some(("together", "0 to 1"));
            }
            if self.together > 0.0 && self.draws_joint() {
                return Some(("together", "0 with recorded, which has who was late together"));
            }
            let timer = self.timer.as_ref()?;
            let period = (timer.period_us == 0).then_some("period_us: at least 1");
            Some(("timer", timer.duration.fault().or(period)?))
        })
    }

    /// Whether who is late together comes from a recording.
    fn draws_joint(&self) -> bool {
        self.recording.is_some() && !self.classes.contains_key(&SyncClass::BroadcastWait)
    }
}

/// A broadcast, or a barrier at which all are.
#[derive(Clone, Copy, Debug)]
pub struct Occasion<'a> {
    /// Its number.
    pub number: u64,
    /// Who gave it, or came last.
    pub by: u32,
    /// All that are woken by it.
    pub woken: &'a [Thread],
}

/// What was drawn from a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct RecordedDraws {
    /// Classes that are not drawn from it.
    pub given: Vec<SyncClass>,
    /// Broadcasts and barriers.
    pub joint: JointCounts,
    /// By class: what late operations took, nanoseconds, and how many took so long.
    pub late_ns: BTreeMap<SyncClass, BTreeMap<u64, u64>>,
}

/// The draws of a run. What a thread meets in its n-th call follows from the seed alone, not from the order of the threads or
/// from which calls had to wait before: runs of one seed on different chips draw the same. Whether the call waits is theirs.
#[derive(Clone, Debug)]
pub struct Injection {
    config: InjectionConfig,
    recording: Option<Arc<Recording>>,
    drawn: RecordedDraws,
    /// The latest broadcast, and who is late after it.
    latest: Option<(u64, Vec<(u32, u64)>)>,
    /// By thread: how many calls it has entered, and the sequence of the last, once something was drawn in it.
    threads: Vec<(u64, Option<Pcg64Mcg>)>,
    /// By core: when the next timer interrupt is due, and its sequence.
    timers: Vec<Option<(u64, Pcg64Mcg)>>,
}

/// What is drawn at one occasion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draw {
    /// How long, femtoseconds.
    pub duration_fs: u64,
    /// Decides between epochs that are equally near.
    pub tie: u64,
}

/// Evenly spread over 0 to 1, without 1.
fn uniform(random: &mut Pcg64Mcg) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A sequence of its own: numbers next to each other must not give sequences that are.
fn sequence(seed: u64, of: u64) -> Pcg64Mcg {
    let mut mixed = Pcg64Mcg::seed_from_u64(seed);
    let high = mixed.next_u64();
    Pcg64Mcg::seed_from_u64(high ^ (of + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl Injection {
    /// Nothing has been drawn.
    pub fn new(config: &InjectionConfig, cores: usize) -> Self {
        let timer = |core: usize| {
            let timer = config.timer.as_ref().filter(|timer| timer.cores.contains(&core))?;
            Some((timer.period_us * FS_PER_US, sequence(config.seed, 1 << 32 | core as u64)))
        };
        Self {
            config: config.clone(),
            recording: None,
            drawn: RecordedDraws::default(),
            latest: None,
            threads: Vec::new(),
            timers: (0..cores).map(timer).collect(),
        }
    }

    /// The same with the recording that the configuration names.
    pub fn recorded_in(mut self, recording: Arc<Recording>) -> Self {
        self.drawn.given = self.config.classes.keys().copied().collect();
        self.recording = Some(recording);
        self
    }

    /// The thread enters a call.
    pub fn enters(&mut self, thread: u32) {
        let (calls, sequence) = self.of(thread);
        (*calls, *sequence) = (*calls + 1, None);
    }

    fn of(&mut self, thread: u32) -> &mut (u64, Option<Pcg64Mcg>) {
        let index = thread as usize;
        if self.threads.len() <= index {
            self.threads.resize(index + 1, (0, None));
        }
        &mut self.threads[index]
    }

    /// What an operation of this class takes in the kernel, for the thread that it holds up; of a wait that a broadcast ends, with
    /// that broadcast.
    pub fn draw(&mut self, thread: u32, class: SyncClass, broadcast: Option<Occasion<'_>>) -> Draw {
        let seed = self.config.seed;
        let (calls, kept) = self.of(thread);
        let random = kept.get_or_insert_with(|| sequence(seed ^ calls.rotate_left(20), u64::from(thread)));
        let (own, tie) = (uniform(random), random.next_u64());
        let duration_fs = match self.config.classes.get(&class) {
            Some(duration) => {
                let u = broadcast.and_then(|broadcast| self.for_all(broadcast.number)).unwrap_or(own);
                duration.at(u)
            }
            None if self.recording.is_none() => return Draw::default(),
            None => self.recorded_ns(thread, class, own, broadcast) * FS_PER_NS,
        };
        Draw { duration_fs, tie }
    }

    /// The same as a recording has it, nanoseconds.
    fn recorded_ns(
        &mut self,
        thread: u32,
        class: SyncClass,
        own: f64,
        broadcast: Option<Occasion<'_>>,
    ) -> u64 {
        let Some(recording) = self.recording.clone() else { return 0 };
        let late_ns = match broadcast {
            Some(broadcast) => self.joint_ns(&recording, thread, &broadcast),
            None => recording.alone_ns(class, thread, own),
        };
        if late_ns > 0 {
            *self.drawn.late_ns.entry(class).or_default().entry(late_ns).or_default() += 1;
        }
        late_ns
    }

    /// All that one broadcast wakes are drawn at once, and each is asked for in turn.
    fn joint_ns(&mut self, recording: &Recording, thread: u32, broadcast: &Occasion<'_>) -> u64 {
        let number = broadcast.number;
        if self.latest.as_ref().is_none_or(|(latest, _)| *latest != number) {
            let mut random = sequence(self.config.seed ^ BROADCASTS, number);
            let drawn = (uniform(&mut random), uniform(&mut random));
            let of = (broadcast.by, broadcast.woken);
            self.latest = Some((number, recording.together_ns(of, drawn, &mut self.drawn.joint)));
        }
        let late = self.latest.iter().flat_map(|(_, late)| late).find(|(late, _)| *late == thread);
        late.map_or(0, |(_, late_ns)| *late_ns)
    }

    /// What was drawn from a recording; none without one.
    pub fn recorded(&self) -> Option<&RecordedDraws> {
        self.recording.as_ref().map(|_| &self.drawn)
    }

    /// The number that all draw by whom this broadcast wakes; none where each has his own.
    fn for_all(&self, broadcast: u64) -> Option<f64> {
        if self.config.together <= 0.0 {
            return None;
        }
        let mut shared = sequence(self.config.seed ^ BROADCASTS, broadcast);
        (uniform(&mut shared) < self.config.together).then(|| uniform(&mut shared))
    }

    /// When the next timer interrupt of a core is due, femtoseconds.
    pub fn due_fs(&self, core: usize) -> Option<u64> {
        self.timers.get(core)?.as_ref().map(|(due_fs, _)| *due_fs)
    }

    /// The timer interrupt that is due at `now_fs`, if one is. Those that came while the core idled disturbed nobody.
    pub fn tick(&mut self, core: usize, now_fs: u64) -> Option<Draw> {
        let timer = self.config.timer.as_ref()?;
        let (due_fs, random) = self.timers.get_mut(core)?.as_mut()?;
        if now_fs < *due_fs {
            return None;
        }
        let period_fs = timer.period_us * FS_PER_US;
        *due_fs = (now_fs / period_fs + 1) * period_fs;
        Some(Draw { duration_fs: timer.duration.at(uniform(random)), tie: random.next_u64() })
    }

    /// The core idles until `now_fs`: nobody was disturbed by what was due before.
    pub fn skip_ticks(&mut self, core: usize, now_fs: u64) {
        let Some(timer) = self.config.timer.as_ref() else { return };
        if let Some(Some((due_fs, _))) = self.timers.get_mut(core)
            && *due_fs < now_fs
        {
            let period_fs = timer.period_us * FS_PER_US;
            *due_fs = now_fs.div_ceil(period_fs) * period_fs;
        }
    }
}

/// Least, mean and largest of several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Least.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: f64,
    /// How many.
    pub runs: usize,
}

impl Spread {
    /// Of these values; none of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let runs = values.len();
        let mean = values.iter().sum::<f64>() / runs as f64;
        let min = values.iter().copied().min_by(f64::total_cmp)?;
        let max = values.iter().copied().max_by(f64::total_cmp)?;
        Some(Self { min, mean, max, runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(seed: u64) -> InjectionConfig {
        let log_normal =
            Duration::Exceedance { probability: 0.5, over_ns: 0.0, mean_ns: 100_000.0, sigma: 0.6 };
        InjectionConfig {
            seed,
            classes: BTreeMap::from([(SyncClass::BroadcastWait, log_normal.clone())]),
            timer: Some(TimerConfig { period_us: 10_000, cores: vec![0, 1], duration: log_normal }),
            ..InjectionConfig::default()
        }
    }

    fn numbered(number: u64) -> Option<Occasion<'static>> {
        Some(Occasion { number, by: 15, woken: &[] })
    }

    #[test]
    fn what_a_thread_meets_in_a_call_follows_from_the_seed_alone() {
        let wait = SyncClass::BroadcastWait;
        let calls = |seed: u64, before: &dyn Fn(&mut Injection, u64)| -> Vec<Draw> {
            let mut injection = Injection::new(&config(seed), 4);
            let each = (0..9).map(|call| {
                before(&mut injection, call);
                injection.enters(3);
                injection.draw(3, wait, None)
            });
            each.collect()
        };
        let first = calls(7, &|_, _| {});
        let others = calls(7, &|injection, call| {
            injection.enters(call as u32 % 3);
            injection.draw(call as u32 % 3, wait, None);
        });
        assert_eq!(first, others, "others draw besides");
        let more = calls(7, &|injection, _| {
            injection.draw(3, wait, None);
            assert!(injection.draw(3, SyncClass::Signal, None) == Draw::default(), "it takes nothing");
        });
        assert_eq!(first, more, "and the call before had to ask more often");
        assert_ne!(first, calls(8, &|_, _| {}));
        let taken = first.iter().filter(|draw| draw.duration_fs > 0).count();
        assert!((1..9).contains(&taken));
    }

    #[test]
    fn together_all_that_a_broadcast_wakes_are_held_up_alike_or_none_and_as_often_as_alone() {
        let class = SyncClass::BroadcastWait;
        let late = |together: f64| -> Vec<usize> {
            let mut injection = Injection::new(&InjectionConfig { together, ..config(7) }, 16);
            let broadcasts = 0..2_000u64;
            let late = |broadcast: u64, injection: &mut Injection| {
                let late = |thread: &u32| {
                    injection.enters(*thread);
                    injection.draw(*thread, class, numbered(broadcast)).duration_fs > 0
                };
                (0..15).filter(late).count()
            };
            broadcasts.map(|broadcast| late(broadcast, &mut injection)).collect()
        };
        let (alone, together, half) = (late(0.0), late(1.0), late(0.5));
        assert!(together.iter().all(|count| [0, 15].contains(count)));
        let extreme = |all: &[usize]| all.iter().filter(|count| [0, 15].contains(*count)).count();
        assert_eq!(extreme(&alone), 0, "2,000 times 2 in 32,768");
        assert!((900..1_100).contains(&extreme(&half)), "{}", extreme(&half));
        for all in [alone, together, half] {
            let share = all.iter().sum::<usize>() as f64 / 30_000.0;
            assert!((share - 0.5).abs() < 0.04, "{share}");
        }
        let mut injection = Injection::new(&InjectionConfig { together: 1.0, ..config(7) }, 16);
        for broadcast in 0..100 {
            let all: Vec<u64> = (0..15)
                .map(|thread| injection.draw(thread, class, numbered(broadcast)).duration_fs)
                .collect();
            assert!(all.iter().all(|duration_fs| *duration_fs == all[0]), "for the same time: {all:?}");
        }
    }

    #[test]
    fn ticks_come_every_10_ms_on_the_first_two_cores() {
        let mut injection = Injection::new(&config(1), 16);
        let period_fs = 10_000 * FS_PER_US;
        assert_eq!(
            (injection.due_fs(0), injection.due_fs(1), injection.due_fs(2)),
            (Some(period_fs), Some(period_fs), None)
        );
        assert_eq!(injection.tick(0, period_fs - 1), None);
        assert!(injection.tick(0, period_fs + 5).is_some());
        assert_eq!(injection.due_fs(0), Some(2 * period_fs));
        injection.skip_ticks(0, 5 * period_fs);
        assert_eq!(injection.due_fs(0), Some(5 * period_fs));
        assert!(injection.tick(0, 9 * period_fs).is_some(), "one for all that are late");
        assert_eq!(injection.due_fs(0), Some(10 * period_fs));
        assert_eq!(injection.tick(9, u64::MAX), None);
    }

    #[test]
    fn a_configuration_reads_and_says_what_is_wrong() {
        let text = "seed = 3\n[classes.broadcast-wait]\nkind = 'exceedance'\nprobability = 0.1\nover_ns = 10000\n\
                    mean_ns = 90000\nsigma = 0.6\n[timer]\nperiod_us = 10000\ncores = [0, 1]\n\
                    duration = { kind = 'exceedance', probability = 1, over_ns = 0, mean_ns = 5000, sigma = 0.5 }";
        let read: InjectionConfig = toml::from_str(text).unwrap();
        assert_eq!(read.fault(), None);
        assert_eq!(toml::from_str::<InjectionConfig>(&toml::to_string(&read).unwrap()).unwrap(), read);
        let short: InjectionConfig = toml::from_str("seed = 3\n[timer]\nperiod_us = 7").unwrap();
        assert_eq!(short.timer, Some(TimerConfig { period_us: 7, ..TimerConfig::default() }));
        let wrong: InjectionConfig = toml::from_str(&text.replace("0.1", "1.1")).unwrap();
        assert_eq!(wrong.fault().map(|fault| fault.0), Some("broadcast-wait"));
        let wrong: InjectionConfig =
            toml::from_str(&text.replace("period_us = 10000", "period_us = 0")).unwrap();
        assert_eq!(wrong.fault(), Some(("timer", "period_us: at least 1")));
    }

    #[test]
    fn ten_seeds_have_a_spread() {
        let spread = Spread::of(&[2.0, 1.0, 6.0]).unwrap();
        assert_eq!((spread.min, spread.mean, spread.max, spread.runs), (1.0, 3.0, 6.0, 3));
        assert_eq!(Spread::of(&[]), None);
    }
}
