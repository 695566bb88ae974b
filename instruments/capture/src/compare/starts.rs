//! Starts of the program: where its code and data lie differs from start to start, and so does what a stamp costs.
//!
//! At the end of a start the process replaces itself by the same program, which goes on with the run. A comparison is
//! one process throughout: whoever interrupts or kills it ends all of it, and each finished start is in the run.

use super::far::Far;
use super::plan::Plan;
use super::samples::{read_compare_samples, write_compare_samples};
use anyhow::Context;
use quaver_capture_analysis::compare::{CompareFacts, CompareTable};
use quaver_clock::realtime_ns;
use quaver_instrument::interrupt::Interrupt;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Names the run that a start goes on with.
const RUN: &str = "QUAVER_COMPARE_RUN";

/// What the starts so far have measured.
pub(super) struct Starts {
    pub(super) manifest: Manifest,
    pub(super) facts: CompareFacts,
    pub(super) table: CompareTable,
}

impl Starts {
    /// What the starts before this one left; none at the first.
    pub(super) fn before() -> anyhow::Result<Option<(RunDir, Self)>> {
        let Some(path) = std::env::var_os(RUN) else { return Ok(None) };
        let run = RunDir::open(Path::new(&path))?;
        let manifest = run.read_manifest()?;
        let facts = run.read_facts(manifest.compare.as_ref())?.context("the start before left no facts")?;
        let table = read_compare_samples(&run.samples())?;
        Ok(Some((run, Self { manifest, facts, table })))
    }

    /// Starts that are finished.
    pub(super) fn count(&self) -> u32 {
        self.facts.patterns.iter().map(|pattern| pattern.user_blocks.len()).max().unwrap_or(0) as u32
    }

    /// Seed of the start to come: orders of blocks differ from start to start, yet come from the seed.
    pub(super) fn seed(&self) -> u64 {
        self.facts.seed.wrapping_add(u64::from(self.count()).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Tells `far` how many streams the starts before have asked for, as far as its server still counts them.
    pub(super) fn tell(&self, far: &Far, plan: &Plan) {
        let streams = plan.patterns.len() * if plan.kernel { 2 } else { 1 } * self.count() as usize;
        let by_module = self.facts.patterns.iter().map(|pattern| pattern.module_blocks.len()).sum::<usize>();
        let since = Duration::from_nanos((realtime_ns() - self.manifest.started_realtime_ns).max(1) as u64);
        far.asked_before(streams + by_module, since);
    }

    /// Stores them.
    pub(super) fn store(&mut self, run: &RunDir) -> anyhow::Result<()> {
        write_compare_samples(&run.samples(), &self.table)?;
        self.manifest.compare = Some(serde_json::to_value(&self.facts)?);
        Ok(run.write_manifest(&self.manifest)?)
    }
}

/// Starts the program again in this process, to go on with `run`. Returns where the user ended the comparison.
pub(super) fn again(run: &RunDir, interrupt: &Interrupt) -> anyhow::Result<()> {
    // A signal from here on waits until the next start hears it.
    mask_requests(libc::SIG_BLOCK);
    if interrupt.requested() {
        mask_requests(libc::SIG_UNBLOCK);
        return Ok(());
    }
    let program = std::env::current_exe().context("finding this program's file")?;
    let mut words = std::env::args_os();
    let mut next = Command::new(&program);
    next.arg0(words.next().unwrap_or_default()).args(words).env(RUN, run.path());
    Err(next.exec()).with_context(|| format!("starting {} again", program.display()))
}

/// Hears requests to end that came between two starts.
pub(super) fn hear_requests() {
    mask_requests(libc::SIG_UNBLOCK);
}

fn mask_requests(how: libc::c_int) {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: `sigemptyset` fills `set` before it is used, and the numbers are those of signals. No thread of ours
    // waits for these signals itself.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut());
    }
}
