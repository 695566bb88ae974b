//! The kinds of interference: what is injected into which stream, and the names that are right for it.

use super::Setup;
use super::judge::{self, Pieces, Verdict};
use anyhow::{Context, bail};
use quaver_testbed::inject::quiet::QuietCpu;
use quaver_testbed::inject::{Injection, migrate, quota, rt_budget, schedule, thread, timer, traffic};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// CPUs of the streams: the first sends, the last receives, as the chase itself chooses.
const SOURCE_CPU: u16 = 0;

/// A running chase.
struct Target {
    sink: u32,
    source: u32,
    sink_cpu: u16,
}

/// Where the interference comes from.
enum Kind {
    /// From outside, in alternate blocks.
    Blocks(fn(&Target) -> std::io::Result<Injection>),
    /// From a preloaded library in the measured process, in alternate blocks.
    Preload(&'static str),
    /// None: nothing must come out as significant.
    Nothing,
}

/// One kind of interference.
pub(super) struct Case {
    /// Name on the command line and in the matrix.
    pub(super) name: &'static str,
    kind: Kind,
    /// How many times the shortest time it takes: by how much is injected a second, so that the injected lateness is
    /// many times what the machine's own varies by meanwhile.
    times: u32,
    /// Options of the chase.
    options: &'static [&'static str],
    /// Whether the source is put above everything on its CPU, which it shares with an injector. What the injector
    /// still makes the source late by is no interference on the sink's CPU, and is not judged.
    source_first: bool,
    /// Identifiers of the catalogue that are right.
    right: &'static [&'static str],
}

const SPINNING: &[&str] = &["--period", "20us", "--late", "5us"];
/// For an injector that shares the source's CPU: the source sleeps, and small delays of its own are let pass.
const SHARING: &[&str] = &["--period", "100us", "--pace", "sleep", "--late", "8us"];
/// On two CPUs the sender of interprocessor interrupts shares its CPU with the source and waits for their end, so no
/// packet comes in meanwhile: the busy loop, judged by the same attribution, takes the sink's place.
const LOOP: &[&str] = &["--threshold", "1us"];
const SPINNING_FIFO: &[&str] = &["--period", "20us", "--late", "5us", "--fifo", "50"];

/// All of them.
pub(super) const ALL: [Case; 11] = [
    Case {
        name: "fifo-thread",
        kind: Kind::Blocks(|target| thread::fifo_ticker(target.sink_cpu, 200_000, 10_000_000)),
        times: 4,
        options: SPINNING,
        source_first: false,
        right: &["rt-thread"],
    },
    Case {
        name: "rt-throttling",
        kind: Kind::Blocks(|_| rt_budget::throttle(10_000, 20_000)),
        times: 2,
        options: SPINNING_FIFO,
        source_first: false,
        right: &["rt-throttle", "fair-server"],
    },
    Case {
        name: "cpu-quota",
        kind: Kind::Blocks(|target| quota::throttle(target.sink, 8_000, 10_000)),
        times: 1,
        options: SPINNING,
        source_first: false,
        right: &["quota"],
    },
    Case {
        name: "tlb-shootdown",
        kind: Kind::Preload("tlb"),
        times: 1,
        options: LOOP,
        source_first: false,
        right: &["tlb"],
    },
    Case {
        name: "membarrier",
        kind: Kind::Preload("membarrier"),
        times: 1,
        options: LOOP,
        source_first: false,
        right: &["membarrier"],
    },
    Case {
        name: "timer-storm",
        kind: Kind::Blocks(|target| timer::storm(target.sink_cpu, 48, 250_000)),
        times: 1,
        options: SPINNING,
        source_first: false,
        right: &["timers"],
    },
    Case {
        name: "page-faults",
        kind: Kind::Preload("faults"),
        times: 1,
        options: SPINNING,
        source_first: false,
        right: &["faults"],
    },
    Case {
        name: "other-traffic",
        // A burst keeps the softirq busy for longer than one period of the stream, so that each meets a packet wherever
        // it falls.
        kind: Kind::Blocks(|target| traffic::steered(target.sink_cpu, SOURCE_CPU, 10, 2_000_000)),
        times: 3,
        options: SHARING,
        source_first: true,
        right: &["net-rx"],
    },
    Case {
        name: "same-priority",
        kind: Kind::Blocks(|target| thread::normal_hog(target.sink_cpu)),
        times: 1,
        options: SPINNING,
        source_first: false,
        right: &["cfs-preempt"],
    },
    Case {
        name: "migration",
        kind: Kind::Blocks(|target| {
            migrate::shuttle(target.sink, target.source, target.sink_cpu, SOURCE_CPU, 2_000_000)
        }),
        times: 2,
        options: SPINNING,
        source_first: false,
        right: &["migration", "stopper", "thread inject-migrate", "reschedule interrupt from inject-migrate"],
    },
    Case {
        name: "nothing",
        kind: Kind::Nothing,
        times: 2,
        options: SPINNING,
        source_first: false,
        right: &[],
    },
];

impl Case {
    /// Injects, measures, judges.
    pub(super) fn judge(&self, setup: &Setup) -> anyhow::Result<Verdict> {
        let _quiet = if setup.quiet { Some(QuietCpu::make(last_cpu()?)) } else { None };
        match &self.kind {
            Kind::Blocks(inject) => {
                let pieces = self.chase(setup, "run", |target| Ok(Some(inject(target)?)))?;
                let pieces = if self.source_first { judge::on_the_sinks_side(pieces) } else { pieces };
                Ok(judge::blocks(self.name, self.right, &pieces))
            }
            Kind::Preload(_) => {
                let pieces = self.chase(setup, "run", |_| Ok(None))?;
                Ok(judge::blocks(self.name, self.right, &pieces))
            }
            Kind::Nothing => {
                let pieces = self.chase(setup, "run", |_| Ok(None))?;
                Ok(judge::nothing(self.name, &pieces))
            }
        }
    }

    /// Runs a chase with an injection at work, and reads what it named.
    fn chase(
        &self,
        setup: &Setup,
        what: &str,
        inject: impl FnOnce(&Target) -> std::io::Result<Option<Injection>>,
    ) -> anyhow::Result<Pieces> {
        let folder = setup.out.join(self.name).join(what);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        let mut command = Command::new(&setup.quaver);
        let instrument = if self.options == LOOP { &["noise"][..] } else { &["chase", "--no-cost"][..] };
        command.args(instrument).args([
            "--quiet",
            "--for",
            &format!("{}s", setup.seconds * self.times),
            "--tier",
            "bpf",
        ]);
        command.args(self.options).arg("--output").arg(&folder);
        if let Kind::Preload(kind) = self.kind {
            command.env("LD_PRELOAD", super::existing(setup.preload.clone())?);
            command.env("QUAVER_TESTBED_INJECT", kind).env("QUAVER_TESTBED_CPU", SOURCE_CPU.to_string());
        }
        command.stdout(std::fs::File::create(folder.join("page.txt"))?).stdin(Stdio::null());
        allow_all_cpus(&mut command);
        let mut child = command.spawn().with_context(|| format!("starting {}", setup.quaver.display()))?;
        let injection = match self.kind {
            Kind::Blocks(_) => self.start_injection(&mut child, inject),
            _ => Ok(None),
        };
        if injection.is_err() {
            // The error says more than a chase that runs on without its injection.
            let _ = child.kill();
        }
        let status = child.wait()?;
        drop(injection?);
        if !status.success() {
            bail!("the chase ended with {status}; see {}", folder.display());
        }
        let run = only_run(&folder)?;
        let csv =
            Command::new(&setup.quaver).arg("export").arg(&run).args(["--late-csv", "-o", "-"]).output()?;
        if !csv.status.success() {
            bail!(
                "export of {} ended with {}: {}",
                run.display(),
                csv.status,
                String::from_utf8_lossy(&csv.stderr)
            );
        }
        judge::read(&String::from_utf8(csv.stdout)?)
    }

    fn start_injection(
        &self,
        child: &mut Child,
        inject: impl FnOnce(&Target) -> std::io::Result<Option<Injection>>,
    ) -> anyhow::Result<Option<Injection>> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let pid = child.id();
        let target = loop {
            let found =
                schedule::find_thread(pid, "quaver-sink").zip(schedule::find_thread(pid, "quaver-source"));
            if let Some((sink, source)) = found {
                break Target { sink, source, sink_cpu: last_cpu()? };
            }
            if let Some(status) = child.try_wait()? {
                bail!("the chase ended with {status} before it measured");
            }
            if Instant::now() > deadline {
                bail!("the chase started no sink within 20 s");
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        if self.source_first {
            schedule::fifo(target.source, 40).context("raising the source's priority")?;
        }
        inject(&target).context("injecting")
    }
}

/// The last CPU of the machine: the sink's.
fn last_cpu() -> anyhow::Result<u16> {
    let cpus =
        std::fs::read_to_string("/sys/devices/system/cpu/online").context("reading the online CPUs")?;
    let last = cpus.trim().rsplit([',', '-']).next().and_then(|cpu| cpu.parse().ok());
    last.with_context(|| format!("no CPU in {cpus}"))
}

/// Lets the chase use every CPU again: this process itself was moved off the sink's.
fn allow_all_cpus(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let allow = || {
        let mut all = rustix::thread::CpuSet::new();
        (0..rustix::thread::CpuSet::MAX_CPU).for_each(|cpu| all.set(cpu));
        Ok(rustix::thread::sched_setaffinity(None, &all)?)
    };
    // SAFETY: between fork and exec it makes one system call and touches only its own stack.
    unsafe { command.pre_exec(allow) };
}

/// The one run directory in a folder.
fn only_run(folder: &Path) -> anyhow::Result<PathBuf> {
    let runs = std::fs::read_dir(folder)?.flatten().map(|entry| entry.path()).find(|path| path.is_dir());
    runs.with_context(|| format!("no run in {}", folder.display()))
}
