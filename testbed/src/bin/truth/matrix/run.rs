//! One run: a receiver, a stream to it, an injection, and a chase that looks on.

use super::causes::{Guard, RECEIVER_CPU, SOURCE_CPU, Target};
use super::program::{Program, silent};
use super::receivers::Receiver;
use anyhow::{Context, bail};
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PERIOD: &str = "200us";
/// Above every thread of a receiver.
const SOURCE_PRIORITY: u8 = 60;
const RECEIVER_PRIORITY: u8 = 50;
/// How long the receiver and the stream run before anything is injected: a virtual machine compiles meanwhile.
const SETTLE: Duration = Duration::from_millis(1_500);
/// What a chase may take beyond the time that it measures.
const CHASE_BEYOND: Duration = Duration::from_secs(90);
const BIND_WITHIN: Duration = Duration::from_secs(15);

/// What is the same in all runs of a matrix.
pub(super) struct Bench {
    pub(super) quaver: PathBuf,
    pub(super) out: PathBuf,
    pub(super) seconds: u32,
    /// Whether the source skips slots when it was late, instead of sending them in a burst.
    pub(super) skip: bool,
    pub(super) port: u16,
    /// Set when the user wants an end.
    pub(super) interrupted: Arc<AtomicBool>,
}

/// One run's conditions.
pub(super) struct Conditions<'a> {
    pub(super) receiver: &'a Receiver,
    pub(super) fifo: bool,
    pub(super) deed: &'static str,
    pub(super) inject: Option<fn(&Target) -> io::Result<Guard>>,
}

/// How a run ended.
pub(super) enum Ending {
    /// The chase's summary.
    Measured(Value),
    /// The chase refused; what it said.
    Refused(String),
    /// The injection cannot be made on this host.
    NotAvailable(String),
}

impl Bench {
    /// Runs once and leaves what the chase wrote in `folder`.
    ///
    /// # Errors
    /// A program does not start, the receiver ends or never listens, the chase hangs, or the user ends the matrix.
    pub(super) fn run(&self, conditions: &Conditions, folder: &Path) -> anyhow::Result<Ending> {
        std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let command = conditions.receiver.command(&self.out, self.port, conditions.deed);
        let priority = conditions.fifo.then_some(RECEIVER_PRIORITY);
        let mut receiver =
            Program::start(command, RECEIVER_CPU, priority).context("starting the receiver")?;
        self.wait_for_bind(&mut receiver)?;
        let source = self.start_source()?;
        let pid = receiver.0.id();
        let before_ns = cpu_time_ns(pid)?;
        self.pause(SETTLE)?;
        if let Some(status) = receiver.0.try_wait()? {
            bail!("the receiver ended with {status}");
        }
        let used_share = (cpu_time_ns(pid)? - before_ns) as f64 / SETTLE.as_nanos() as f64;
        let target = Target { receiver: pid, source: source.0.id(), used_share, folder: &self.out };
        // Dropped before the receiver and the source are.
        let _injection = match conditions.inject.map(|inject| inject(&target)) {
            None => None,
            Some(Ok(guard)) => Some(guard),
            Some(Err(error)) if error.kind() == io::ErrorKind::Unsupported => {
                return Ok(Ending::NotAvailable(error.to_string()));
            }
            Some(Err(error)) => return Err(error).context("injecting"),
        };
        self.chase(pid, folder)
    }

    fn start_source(&self) -> anyhow::Result<Program> {
        let mut command = silent(&self.quaver.display().to_string());
        command.args(["source", &format!("127.0.0.1:{}", self.port), "--period", PERIOD, "--pace", "hybrid"]);
        command.args(["--for", &format!("{}s", u64::from(self.seconds) + CHASE_BEYOND.as_secs())]);
        if !self.skip {
            command.arg("--catch-up");
        }
        Program::start(command, SOURCE_CPU, Some(SOURCE_PRIORITY)).context("starting the source")
    }

    fn chase(&self, receiver: u32, folder: &Path) -> anyhow::Result<Ending> {
        let (json, said) = (folder.join("summary.json"), folder.join("stderr.txt"));
        let mut command = Command::new(&self.quaver);
        command.args(["chase", "--no-cost", "--json", "--tier", "bpf", "--pid", &receiver.to_string()]);
        command.args(["--for", &format!("{}s", self.seconds), "--output"]).arg(folder);
        command.stdout(std::fs::File::create(&json)?).stderr(std::fs::File::create(&said)?);
        let mut chase = Program::start(command, SOURCE_CPU, None).context("starting the chase")?;
        let started = Instant::now();
        let status = loop {
            if let Some(status) = chase.0.try_wait()? {
                break status;
            }
            if started.elapsed() > CHASE_BEYOND + Duration::from_secs(self.seconds.into()) {
                return Ok(Ending::Refused("did not end in time".into()));
            }
            self.pause(Duration::from_millis(20))?;
        };
        if status.success() {
            let text = std::fs::read_to_string(&json)?;
            let summary: Value = serde_json::from_str(&text).with_context(|| json.display().to_string())?;
            let received = summary.pointer("/losses/received").and_then(Value::as_u64);
            return Ok(match received {
                Some(0) => Ending::Refused("ended well, with no packet".into()),
                _ => Ending::Measured(summary),
            });
        }
        let said = std::fs::read_to_string(&said)?;
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        Ok(Ending::Refused(format!("{status}: {}", last.trim())))
    }

    fn wait_for_bind(&self, receiver: &mut Program) -> anyhow::Result<()> {
        let bound = format!(":{:04X} ", self.port);
        let started = Instant::now();
        // A virtual machine binds to an IPv4 address by a socket of IPv6.
        let listens = || ["udp", "udp6"].iter().any(|table| listed(table, &bound));
        while !listens() {
            if let Some(status) = receiver.0.try_wait()? {
                bail!("the receiver ended with {status}");
            }
            if started.elapsed() > BIND_WITHIN {
                bail!("the receiver does not listen");
            }
            self.pause(Duration::from_millis(10))?;
        }
        Ok(())
    }

    fn pause(&self, time: Duration) -> anyhow::Result<()> {
        std::thread::sleep(time);
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

fn listed(table: &str, bound: &str) -> bool {
    // A kernel without IPv6 has no table of it.
    std::fs::read_to_string(format!("/proc/net/{table}")).is_ok_and(|text| text.contains(bound))
}

/// Time that the threads of a process have run.
fn cpu_time_ns(process: u32) -> anyhow::Result<u64> {
    let tasks =
        std::fs::read_dir(format!("/proc/{process}/task")).context("reading the receiver's threads")?;
    let times = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Ok(times.sum())
}
