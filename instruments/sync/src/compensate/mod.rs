//! `quaver sync --compensate`: gives the time that a program's threads lose back by speed, while it runs.
//!
//! ```text
//! rings of the recorder ──> Live: events in time order ──> Cutter: subframes ──> Compensator: a controller a thread
//!                                                                                      │ points
//!                                   /sys/.../cpufreq  <── session of the tune journal <── Cores: highest of a CPU's threads
//! ```

pub mod view;

mod clock;
mod cores;
mod live;
mod pilot;
mod place;

use crate::args::SyncArgs;
use crate::args::compensation::{Compensate, CompensateArgs, ControllerName};
use crate::digest::CompensationFacts;
use anyhow::Context;
use cores::Cores;
use live::Live;
use pilot::Pilot;
use quaver_dvfs::dvfs::{ControllerConfig, CriticalPath, Kind};
use quaver_host::cpufreq::Way;
use quaver_host::root::HostRoot;
use quaver_host::segment::SegmentAppender;
use quaver_host::settings::JournalPlace;
use quaver_host::settings::journal::DIRECTORY;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::host_state::allowed_cpus;
use quaver_sync_analysis::sync::Settings;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What has been taken over before the program starts. Dropped, it is put back.
pub(super) struct Prepared {
    cores: Option<Cores>,
    config: ControllerConfig,
    settings: Settings,
    facts: CompensationFacts,
}

/// Takes the CPUs' frequencies over, where that is asked for; none where it is not.
///
/// # Errors
/// The machine lets nobody set them, or not us, or leaves no room above rest (status 3).
pub(super) fn prepare(args: &SyncArgs, settings: Settings) -> anyhow::Result<Option<Prepared>> {
    let asked = &args.compensation;
    let Some(how) = asked.compensate else { return Ok(None) };
    let mut config = ControllerConfig {
        reactivity: asked.compensate_reactivity,
        kind: kind(asked.compensate_controller),
        subframe_ns: subframe_ns(asked)?,
        // As `what-if`: a thread that always comes last is not made faster for what its waiters lost within their slack.
        critical_path: CriticalPath::Slack,
        ..ControllerConfig::default()
    };
    let unpaced_share = f64::from(asked.compensate_memory) / 100.0;
    let facts =
        CompensationFacts { dry: how == Compensate::Dry, unpaced_share, ..CompensationFacts::default() };
    if facts.dry {
        config.table = quaver_dvfs::dvfs::what_if::limited(&config.table, asked.compensate_limit);
        return Ok(Some(Prepared { cores: None, config, settings, facts }));
    }
    let root = asked.root.as_ref().map_or_else(HostRoot::system, HostRoot::at);
    let cpus = allowed_cpus().context("finding the CPUs that the program may use")?;
    let policies = cores::look(&root, &cpus)?;
    let limit = asked.compensate_limit;
    config.table = cores::table(&policies, limit).ok_or_else(|| {
        let message = format!(
            "--compensate: {} has no frequency above rest within {limit} times as much; raise --compensate-limit, or \
             scaling_max_freq there",
            policies[0].directory
        );
        failure(ExitCode::Unsupported, message)
    })?;
    let journal = asked.journal.as_deref().unwrap_or(Path::new(DIRECTORY));
    let place = JournalPlace::at(journal, root);
    let cores = Cores::take(&place, &policies, &config.table, limit, clock::now_ns())
        .context("--compensate: taking over the CPUs' frequencies")?;
    let way = match policies[0].way {
        Way::SetSpeed => "scaling_setspeed (governor userspace)",
        Way::Limits => "scaling_min_freq and scaling_max_freq",
    };
    let facts = CompensationFacts {
        way: way.to_owned(),
        driver: policies[0].driver.clone(),
        policies: cores.facts(),
        recovered: cores.recovered.clone(),
        ..facts
    };
    Ok(Some(Prepared { cores: Some(cores), config, settings, facts }))
}

fn kind(name: ControllerName) -> Kind {
    match name {
        ControllerName::Reactive => Kind::Reactive,
        ControllerName::Predictive => Kind::Predictive,
    }
}

fn subframe_ns(args: &CompensateArgs) -> anyhow::Result<u64> {
    let ns = u64::try_from(args.compensate_subframe.as_nanos()).unwrap_or(u64::MAX);
    if (50_000..=1_000_000_000).contains(&ns) {
        return Ok(ns);
    }
    Err(failure(ExitCode::Usage, "--compensate-subframe: from 50us to 1s"))
}

/// Someone looks at the recordings and sets frequencies, until this is ended or dropped.
pub(super) struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<CompensationFacts>>,
}

impl Prepared {
    /// Begins to look at the recordings of `directory`, and keeps what is decided in `log`.
    ///
    /// # Errors
    /// The log cannot be made, or the system gives no thread.
    pub(super) fn start(self, directory: &Path, log: &Path) -> anyhow::Result<Running> {
        let Self { cores, config, settings, facts } = self;
        let log = SegmentAppender::create(log)?;
        let pilot = Pilot::new(config.clone(), facts.unpaced_share, cores, log);
        let live = Live::new(directory, settings, config.subframe_ns, pilot);
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = quaver_waiting::start("compensate", move || live.run(&told, facts))
            .context("starting the thread that sets frequencies")?;
        Ok(Running { stop, thread: Some(thread) })
    }
}

impl Running {
    /// The program has ended: puts all settings back and says what was done. None where whoever looked met a bug of ours; even then
    /// the settings are put back.
    pub(super) fn finish(mut self) -> Option<CompensationFacts> {
        self.stop.store(true, Ordering::Release);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
