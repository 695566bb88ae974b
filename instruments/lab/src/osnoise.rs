//! `quaver lab osnoise`: our attribution of noise beside the kernel's own tracer of it, in a guest.

use super::run::{GuestKind, Heard, REAL_TIME, in_guest};
use crate::args::LabOsnoiseArgs;
use anyhow::{Context, bail};
use quaver_analysis::summary::ClassCount;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::results::{self, Found};
use quaver_lab_guests::guest;
use quaver_lab_guests::osnoise::{Noise, NoiseClass, Osnoise};
use quaver_noise::args::NoiseArgs;
use quaver_noise::record as noise;
use quaver_study::verb::neighbours::Neighbours;
use quaver_study::verb::request::{BothNoises, GuestMessage, Noises, Task};
use quaver_study::verb::settings::{Keys, Settings};
use quaver_view::{Cell, Document, Section, Table, Text, text};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// Name and version of the JSON form.
const SCHEMA: &str = "quaver-lab-osnoise/1";
/// The guest's CPU that the loop runs on.
const CPU: u16 = 2;
/// What keeps the kernel's own work off that CPU.
const TUNED: [&str; 4] = ["nohz_full=2", "rcu_nocbs=2", "isolcpus=nohz,domain,2", "irqaffinity=0"];
/// The ticker: a thousand times a second, for 50 us.
const TICKER_NS: (u64, u64) = (1_000_000, 50_000);

/// One loop with its circumstances.
#[derive(Debug, Serialize)]
struct LoopComparison {
    what: &'static str,
    boot: Vec<String>,
    #[serde(flatten)]
    found: BothNoises,
}

/// Measures, compares, prints.
pub(super) fn run(args: &LabOsnoiseArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let progress = Progress::timed(Duration::from_secs(1), false);
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let ticker = "the same, with a thread that wakes each millisecond and works for 50 us";
    let guests: [(Vec<String>, &[_]); 2] = [
        (words(&TUNED), &[("booted for quiet", None), (ticker, Some(TICKER_NS))]),
        (Vec::new(), &[("booted as usual", None)]),
    ];
    let mut held = Vec::new();
    for (boot, loops) in guests {
        let tickers = loops.iter().map(|(_, ticker)| *ticker).collect();
        let task = Task::Osnoise { duration_ns: args.duration.as_nanos() as u64, tickers };
        progress.say("measuring in a guest");
        let mut loops_left = loops.iter();
        let done = in_guest(&GuestKind::plain(REAL_TIME, &boot), task, loops.len(), &interrupt, |said| {
            if let (GuestMessage::Noise(found), Some((what, _))) = (said, loops_left.next()) {
                held.push(LoopComparison { what, boot: boot.clone(), found: *found });
            }
            Ok(Heard::GoOn)
        })?;
        if !done {
            return Ok(ExitCode::Interrupted);
        }
    }
    drop(progress);
    let summary = summary(&held);
    results::print(&Found::new(&summary), || document(&held), args.json, &[])
}

fn summary(held: &[LoopComparison]) -> Value {
    json!({ "schema": SCHEMA, "version": env!("CARGO_PKG_VERSION"), "loops": held })
}

/// How many interruptions each counted, in all loops.
fn verdict(held: &[LoopComparison]) -> Option<Text> {
    let count =
        |of: &Noises| [of.nmi, of.irq, of.softirq, of.thread].iter().map(|one| one.count).sum::<u64>();
    let sum = |of: fn(&BothNoises) -> &Noises| held.iter().map(|one| count(of(&one.found))).sum::<u64>();
    let [ours, kernels] = [sum(|found| &found.ours), sum(|found| &found.kernels)].map(Cell::Count);
    (!held.is_empty()).then(|| text!("Quaver counted {ours} interruptions of the loops, osnoise {kernels}."))
}

fn document(held: &[LoopComparison]) -> Document {
    let mut document = Document::new("quaver lab osnoise", "Quaver and the kernel's tracer on the same loop");
    document.version = env!("CARGO_PKG_VERSION").into();
    document.verdict = verdict(held);
    for (at, one) in held.iter().enumerate() {
        let found = &one.found;
        let boot = if one.boot.is_empty() { "no options".to_owned() } else { one.boot.join(" ") };
        let (gaps, noise) = (Cell::Count(found.gaps.0), Cell::Duration(found.gaps.1));
        let (runtime, tier) = (Cell::Duration(found.runtime_ns), &found.tier);
        let note = text!(
            "{boot}; {runtime} of the guest's time; Quaver by {tier}; the loop itself saw {gaps} gaps, {noise} in all"
        );
        let columns = ["class", "Quaver", "osnoise", "Quaver's time", "osnoise's time", "difference"];
        let mut table = Table::new(columns);
        let classes = |noises: &Noises| [noises.nmi, noises.irq, noises.softirq, noises.thread];
        let names = ["NMI", "interrupts", "softirqs", "threads"];
        for ((name, ours), kernels) in names.iter().zip(classes(&found.ours)).zip(classes(&found.kernels)) {
            table.row([
                Cell::from(*name),
                Cell::Count(ours.count),
                Cell::Count(kernels.count),
                Cell::Duration(ours.net_ns as i64),
                Cell::Duration(kernels.net_ns as i64),
                Cell::part(ours.net_ns.abs_diff(kernels.net_ns), kernels.net_ns),
            ]);
        }
        document.section(Section::new(format!("loop-{at}"), one.what).note(note).with(table));
    }
    if held.iter().any(|one| one.found.preempt_rt) {
        document.warn("Softirqs run in threads in this kernel: both count their time as that of threads.");
    }
    document
}

/// The guest's part: a loop for each ticker, or none, watched by both.
pub(super) fn measure(
    duration_ns: u64,
    tickers: &[Option<(u64, u64)>],
    tell: &mut dyn FnMut(BothNoises) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let root = HostRoot::system();
    let version = root.text("/proc/version").unwrap_or_default();
    let preempt_rt = version.contains("PREEMPT_RT");
    for ticker in tickers {
        // Whoever runs a loop keeps off its CPU from then on.
        guest::use_all_cpus(&root)?;
        let settings = settings(*ticker)?;
        let args = arguments(duration_ns)?;
        let neighbours = Neighbours::start(&settings, None)?;
        if !neighbours.refused.is_empty() {
            bail!("the ticker: {}", neighbours.refused.join("; "));
        }
        // After ours: each hook's own work lies in the times of whoever hooked in before it, and the kernel's tracer does more
        // of it at the end of what it times.
        let mut kernels = None;
        let watch = || {
            kernels = Some(Osnoise::start(CPU).context("starting the kernel's tracer")?);
            Ok(())
        };
        let digest = noise::digest(&args, &Interrupt::default(), watch).context("running the loop")?;
        let kernels = kernels.context("the kernel's tracer was not started")?;
        let kernels = kernels.finish().context("ending the kernel's tracer")?;
        drop(neighbours);
        let one = digest.run.loops.first().context("the loop did not run")?;
        let within = |noise: &&Noise| {
            let start_ns = noise.end_ns.saturating_sub(noise.net_ns) as i64;
            let own = noise.class == NoiseClass::Thread
                && noise.number.is_some_and(|tid| one.actor.threads.contains(&tid));
            noise.cpu == CPU && (one.start_ns..one.end_ns).contains(&start_ns) && !own
        };
        let cpu = digest.analysis.summary.cpus.iter().find(|cpu| cpu.cpu == CPU);
        let cpu = cpu.context("the loop's CPU was not counted")?;
        let mut ours = Noises { nmi: cpu.nmi, irq: cpu.irq, softirq: cpu.softirq, thread: cpu.thread };
        if preempt_rt {
            ours.thread.net_ns += ours.softirq.net_ns;
            ours.softirq = ClassCount::default();
        }
        tell(BothNoises {
            runtime_ns: cpu.runtime_ns,
            tier: digest.analysis.summary.tier.clone(),
            gaps: (cpu.gaps, cpu.noise_ns),
            events_lost: digest.run.events_lost,
            preempt_rt,
            ours,
            kernels: sum(kernels.iter().filter(within)),
        })?;
    }
    Ok(())
}

fn sum<'a>(noises: impl Iterator<Item = &'a Noise>) -> Noises {
    let mut found = Noises::default();
    for noise in noises {
        let class = match noise.class {
            NoiseClass::Nmi => &mut found.nmi,
            NoiseClass::Irq => &mut found.irq,
            NoiseClass::Softirq => &mut found.softirq,
            NoiseClass::Thread => &mut found.thread,
        };
        class.count += 1;
        class.net_ns += noise.net_ns;
        class.max_ns = class.max_ns.max(noise.net_ns);
    }
    found
}

/// The arguments of `quaver noise`. By tracefs: an emulated processor takes minutes to load the programs of the BPF tier.
fn arguments(duration_ns: u64) -> anyhow::Result<NoiseArgs> {
    let time = format!("{duration_ns}ns");
    let words = ["noise", "--cpus", "2", "--tier", "tracefs", "--quiet", "-o", "/tmp/runs", "--for", &time];
    Ok(quaver_instrument::args::parse(words)?)
}

fn settings(ticker: Option<(u64, u64)>) -> anyhow::Result<Settings> {
    let keys = ticker.map(|(period, work)| format!("ticker = '{period}ns'\nticker-work = '{work}ns'\n"));
    let keys: Keys = toml::from_str(&format!("sink-cpu = {CPU}\n{}", keys.unwrap_or_default()))?;
    Settings::of(&keys, &[0, 1, CPU]).map_err(anyhow::Error::msg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_is_told_what_it_can_do() {
        assert_eq!(arguments(900_000_000).unwrap().duration, Duration::from_millis(900));
        let ticker = settings(Some(TICKER_NS)).unwrap().ticker;
        assert_eq!(ticker, Some((Duration::from_millis(1), Duration::from_micros(50))));
        assert_eq!(settings(None).unwrap().ticker, None);
    }

    #[test]
    fn the_kernels_noise_is_summed_by_class() {
        let of =
            |class, net_ns| Noise { class, name: String::new(), number: None, cpu: 2, end_ns: 0, net_ns };
        let all = [of(NoiseClass::Irq, 5), of(NoiseClass::Irq, 7), of(NoiseClass::Thread, 50)];
        let found = sum(all.iter());
        assert_eq!((found.irq.count, found.irq.net_ns, found.irq.max_ns), (2, 12, 7));
        assert_eq!((found.thread.count, found.thread.net_ns, found.softirq.count), (1, 50, 0));
        let one = BothNoises {
            runtime_ns: 1_000,
            tier: "tracefs".to_owned(),
            gaps: (3, 60),
            events_lost: 0,
            preempt_rt: true,
            ours: found.clone(),
            kernels: found,
        };
        let held = [LoopComparison { what: "booted for quiet", boot: Vec::new(), found: one }];
        let wanted = "\
quaver lab osnoise · Quaver and the kernel's tracer on the same loop

  Quaver counted 3 interruptions of the loops, osnoise 3.

booted for quiet
  no options; 1.00 µs of the guest's time; Quaver by tracefs; the loop itself saw 3 gaps, 60 ns in
  all
  class       Quaver  osnoise  Quaver's time  osnoise's time  difference
  NMI              0        0           0 ns            0 ns           -
  interrupts       2        2          12 ns           12 ns         0 %
  softirqs         0        0           0 ns            0 ns           -
  threads          1        1          50 ns           50 ns         0 %

Warnings
  ! Softirqs run in threads in this kernel: both count their time as that of threads.
";
        let page = quaver_view::plain(&document(&held));
        assert_eq!(page, wanted, "{page}");
        assert_eq!(summary(&held)["schema"], SCHEMA);
    }
}
