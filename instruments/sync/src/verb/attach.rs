//! A process that already runs: its futex calls, as the kernel sees them.

use super::kernel::{self, KernelWatch, now_ns};
use crate::args::SyncArgs;
use crate::digest as sync;
use crate::digest::SyncFacts;
use crate::record::kernel::Followed;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::allowed_cpus;
use quaver_instrument::interrupt::Interrupt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(20);

/// Looks until the time is over, the process ends or the user interrupts, then tells.
pub(super) fn run(args: &SyncArgs, pid: u32) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    if args.no_kernel {
        let message =
            "--pid looks at the kernel's side of a process and at nothing else, so not with --no-kernel";
        return Err(failure(ExitCode::Usage, message));
    }
    let task = PathBuf::from(format!("/proc/{pid}"));
    if !task.join("task").is_dir() {
        return Err(failure(ExitCode::Usage, format!("--pid {pid}: there is no such process")));
    }
    let path =
        std::fs::read_link(task.join("exe")).map(|path| path.display().to_string()).unwrap_or_default();
    let facts = SyncFacts {
        program: words(pid),
        path,
        pid,
        attached: true,
        cpus: allowed_cpus().ok().map(|cpus| cpus.len() as u32),
        threshold_ns: args.threshold.as_nanos() as u64,
        system_call_threshold_ns: args.system_call_threshold.as_nanos() as u64,
        count_all: args.count_all,
        started_ns: now_ns(),
        ..SyncFacts::default()
    };
    let (run, mut manifest) = super::begin(args, &facts)?;
    std::fs::create_dir(sync::directory(&run))?;
    let choice = kernel::choose(args, Followed::Process(pid))?;
    let mut watch =
        KernelWatch::begin(choice, &sync::kernel_segment(&run), kernel::throttled_permille(args))?;
    if !watch.is_looking() {
        let reason = watch.finish().reason.unwrap_or_default();
        let _ = std::fs::remove_dir_all(run.path());
        let message =
            format!("--pid looks at the kernel's side of a process, which nobody may here: {reason}");
        return Err(failure(ExitCode::Unsupported, message));
    }
    if args.uprobes
        && let Err(error) = watch.probe(pid)
    {
        let _ = std::fs::remove_dir_all(run.path());
        return Err(error.into());
    }
    sync::keep_maps(&run, pid)?;
    let start = Instant::now();
    let over = || args.duration.is_some_and(|length| start.elapsed() >= length);
    while !interrupt.requested() && !over() && task.join("task").is_dir() {
        std::thread::sleep(TICK);
        watch.drain();
    }
    // Libraries may have been loaded meanwhile; of a process that is gone, what was read before stays.
    let _ = sync::keep_maps(&run, pid);
    let facts = SyncFacts { ended_ns: now_ns(), kernel: watch.finish(), ..facts };
    manifest.lost.events = facts.kernel.lost;
    sync::set_facts(&mut manifest, &facts)?;
    // The user's word is how such a run ends.
    manifest.end(quaver_clock::realtime_ns(), None);
    let digest = super::conclude(&run, manifest, args.quiet)?;
    super::print(args, &digest, &run, 0)?;
    Ok(ExitCode::Done)
}

/// The process's command line.
fn words(pid: u32) -> Vec<String> {
    let text = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    text.split(|octet| *octet == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}
