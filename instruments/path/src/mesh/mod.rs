//! `quaver probe --mesh` and several DSCPs: a schedule of tests to several hosts, kept as one run.
//!
//! Each test is a run of its own in `tests/`, so that a test that ended is safe whatever becomes of the rest.

pub mod digest;
pub mod facts;
mod hosts;
mod metrics;
mod view;

use crate::args::ProbeArgs;
use crate::probe::{Record, options};
use crate::test_facts::{cut_short, of_test};
use anyhow::Context;
use digest::{MeshDigest, TESTS, analyze, analyze_of};
use facts::{MeshFacts, MeshTest, Pair};
use hosts::MeshHost;
use metrics::MeshFigures;
#[cfg(test)]
pub(crate) use metrics::some_families;
use quaver_abi::wire::jitlat::Singleton;
use quaver_arrivals::path::direction::Direction;
use quaver_host::facts::HostFacts;
use quaver_host::root::HostRoot;
use quaver_instrument::args::DirectionName;
use quaver_instrument::exit_code::{ExitCode, failure, sentence};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::results::{self, Found};
use quaver_instrument::rights;
use quaver_path_record::{ClientOptions, PathError, Shown, TestOutcome, run_client};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_view::Document;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// The verb of its runs.
pub(crate) const VERB: &str = "probe-mesh";

/// How often a wait for the next round looks for an end that was asked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Measures round by round, analyses, prints.
pub(crate) fn run(args: &ProbeArgs, interrupt: &Interrupt) -> anyhow::Result<ExitCode> {
    refuse_for_one_test(args)?;
    let mut mesh = Mesh::begin(args)?;
    give_up_rights(&mesh);
    let measured = mesh.measure(interrupt);
    if measured.is_err() && mesh.facts.tests.is_empty() {
        // One that is left over is found to be empty by whoever opens it.
        let _ = std::fs::remove_dir_all(mesh.run.path());
        return measured.map(|()| ExitCode::Done);
    }
    let cut_short = match &measured {
        Ok(()) => interrupt.requested().then(|| "interrupted by the user".to_owned()),
        Err(error) => Some(sentence(error)),
    };
    mesh.store(Some(cut_short))?;
    let digest = analyze(&mesh.run)?;
    digest.store(&mesh.run)?;
    measured?;
    let summary = serde_json::to_value(&digest.summary)?;
    let ended = match (interrupt.requested(), !digest.summary.unreachable.is_empty()) {
        (true, _) => Some(ExitCode::Interrupted),
        (false, true) => Some(ExitCode::Peer),
        (false, false) => None,
    };
    let page = || results::with_report(digest.document(), &mesh.run);
    let found = Found::of_run(&summary, &mesh.run).ended(ended);
    let code = results::print(&found, page, args.output.json, &args.output.fail_if)?;
    if code == ExitCode::Peer {
        let hosts = digest.summary.unreachable.join(", ");
        quaver_instrument::tell!("quaver: {hosts} could not be measured; the page has the reasons");
    }
    Ok(code)
}

/// Before the first answer: all but what it sends and stores with. Keys are read for each test.
fn give_up_rights(mesh: &Mesh<'_>) {
    let keys = mesh.hosts.iter().filter_map(|host| host.key_file.as_ref());
    let read = keys.chain(&mesh.args.key_file).chain(&mesh.args.trace).map(PathBuf::as_path);
    rights::keep_to_send(&read.collect::<Vec<_>>(), &[mesh.run.path()]);
}

/// What is of one test and not of many.
fn refuse_for_one_test(args: &ProbeArgs) -> anyhow::Result<()> {
    let asked = [
        ("--stamp", args.stamp.is_some()),
        ("--twamp", args.twamp.is_some()),
        ("--owamp", args.owamp.is_some()),
        ("--live", args.live),
        ("--json-lines", args.json_lines),
        ("--plots", args.plots),
        ("--gnuplot", args.gnuplot.is_some()),
        ("--log", args.log.is_some()),
        ("--rolling", args.rolling == Some(true)),
        ("--source-port", args.source_port != 0),
        ("--legacy with several DSCPs", args.legacy && args.dscp.len() > 1),
    ];
    match asked.into_iter().find(|(_, asked)| *asked) {
        Some((option, _)) => {
            let message =
                format!("{option} is for a single test: leave it out, or leave out --mesh and further DSCPs");
            Err(failure(ExitCode::Usage, message))
        }
        None => Ok(()),
    }
}

/// A mesh under way.
struct Mesh<'a> {
    args: &'a ProbeArgs,
    hosts: Vec<MeshHost>,
    run: RunDir,
    manifest: Manifest,
    facts: MeshFacts,
    progress: Progress,
    /// What `--metrics` exports meanwhile.
    shown: Option<Shown<MeshFigures>>,
}

impl<'a> Mesh<'a> {
    fn begin(args: &'a ProbeArgs) -> anyhow::Result<Self> {
        let here = args.here.clone().unwrap_or_else(own_name);
        let hosts = match (&args.mesh, &args.host) {
            (Some(path), _) => hosts::read(path, &here)?,
            (None, host) => {
                let name = host.clone().unwrap_or_default();
                vec![MeshHost { name, ..MeshHost::default() }]
            }
        };
        let joined = args.join.iter().map(|run| pairs_of(run)).collect::<anyhow::Result<Vec<_>>>()?.concat();
        let ways = match args.direction {
            DirectionName::Up => vec![Direction::Up],
            DirectionName::Down => vec![Direction::Down],
            DirectionName::Both if args.legacy => vec![Direction::Up],
            DirectionName::Both => vec![Direction::Up, Direction::Down],
        };
        let shown = args.metrics.metrics.map(|_| Shown::<MeshFigures>::default());
        let progress = Progress::shares(args.output.quiet);
        if let Some(shown) = shown.clone() {
            let place = args.metrics.serve("quaver_mesh", move || shown.read().families())?;
            place.iter().for_each(|place| progress.tell(place));
        }
        let every_ns = args.every.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let run = RunDir::create(&args.output.output, VERB)?;
        let command: Vec<String> = std::env::args().collect();
        let host = serde_json::to_value(HostFacts::read(&HostRoot::system()))?;
        let asked = serde_json::json!({"command": command.join(" ")});
        let manifest =
            Manifest::begin(env!("CARGO_PKG_VERSION"), VERB, asked, host, quaver_clock::realtime_ns());
        let facts = MeshFacts { here, ways, every_ns, joined, ..MeshFacts::default() };
        let mut mesh = Self { args, hosts, run, manifest, facts, progress, shown };
        mesh.store(None)?;
        Ok(mesh)
    }

    /// Stores what is known; with the reason why it was cut short, if any, at the end.
    fn store(&mut self, end: Option<Option<String>>) -> anyhow::Result<()> {
        self.manifest.path = Some(serde_json::to_value(&self.facts)?);
        if let Some(cut_short) = end {
            self.manifest.end(quaver_clock::realtime_ns(), cut_short);
        }
        Ok(self.run.write_manifest(&self.manifest)?)
    }

    fn measure(&mut self, interrupt: &Interrupt) -> anyhow::Result<()> {
        // With a schedule and no number of rounds, they go on until they are stopped.
        let rounds = self.args.rounds.or(self.args.every.is_none().then_some(1));
        let mut due = Instant::now();
        while rounds.is_none_or(|rounds| self.facts.rounds < rounds) {
            while !interrupt.requested() && Instant::now() < due {
                std::thread::sleep(LOOK_EVERY.min(due.saturating_duration_since(Instant::now())));
            }
            if interrupt.requested() {
                break;
            }
            let round = self.facts.rounds;
            self.facts.rounds += 1;
            for host in self.hosts.clone() {
                let first = self.facts.tests.len();
                if !interrupt.requested() {
                    self.measure_host(&host, round, interrupt)?;
                }
                self.show(first);
            }
            let Some(every) = self.args.every else { continue };
            due = due.checked_add(every).unwrap_or(due);
            let (now, more) = (Instant::now(), rounds.is_none_or(|rounds| self.facts.rounds < rounds));
            if now > due && more {
                self.facts.late_rounds += 1;
                due = now;
            }
        }
        Ok(())
    }

    /// Shows the tests from the number `first` on.
    fn show(&self, first: usize) {
        let Some(shown) = &self.shown else { return };
        for test in &self.facts.tests[first..] {
            // One that cannot be read is a failed one here and on the page, which says why.
            let digest = analyze_of(&self.run, test).and_then(Result::ok);
            shown.change(|figures| {
                (figures.rounds, figures.late_rounds) = (self.facts.rounds, self.facts.late_rounds);
                for way in &self.facts.ways {
                    figures.add(&self.facts.here, test, *way, digest.as_ref());
                }
            });
        }
    }

    /// Measures to a host, by all DSCPs at the same time.
    fn measure_host(&mut self, host: &MeshHost, round: u64, interrupt: &Interrupt) -> anyhow::Result<()> {
        let started_ns = quaver_clock::realtime_ns();
        let begun =
            |dscp| MeshTest { round, host: host.name.clone(), dscp, started_ns, ..MeshTest::default() };
        self.progress.say(format!("round {}, {}", round + 1, host.name));
        let args = args_for(self.args, host);
        if let Err(error) = options::resolve(host.address(), args.port) {
            let reason = sentence(&error);
            let tests =
                args.dscp.iter().map(|dscp| MeshTest { reason: Some(reason.clone()), ..begun(*dscp) });
            self.facts.tests.extend(tests);
            self.progress.tell(&format!("{}: {reason}", host.name));
            return self.store(None);
        }
        let mut asked = Vec::new();
        for dscp in &args.dscp {
            let options = ClientOptions { dscp: *dscp, ..options::client_options(&args)? };
            asked.push((options, Record::begin_in(&self.run.path().join(TESTS))?));
        }
        let outcomes: Vec<(Record, Result<TestOutcome, PathError>)> = std::thread::scope(|scope| {
            let measure = |options: ClientOptions| {
                let run = move || run_client(&options, interrupt.flag(), &mut |_| {});
                quaver_waiting::start_in(scope, "quaver-mesh", run).map_err(|source| PathError::Os {
                    operation: "start a thread".into(),
                    source,
                    remedy: "",
                })
            };
            let threads: Vec<_> =
                asked.into_iter().map(|(options, record)| (record, measure(options))).collect();
            let outcomes = threads.into_iter().map(|(record, thread)| {
                let join =
                    |thread: ScopedJoinHandle<_>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
                (record, thread.and_then(join))
            });
            outcomes.collect()
        });
        for (dscp, (record, outcome)) in args.dscp.iter().zip(outcomes) {
            match conclude(record, outcome)? {
                Ended::NothingAsked => {}
                Ended::Test { run, reason } => {
                    if let Some(reason) = &reason {
                        self.progress.tell(&format!("{}: {reason}", host.name));
                    }
                    self.facts.tests.push(MeshTest { run, reason, ..begun(*dscp) });
                }
            }
        }
        self.store(None)
    }
}

/// How a test ended.
enum Ended {
    /// The user stopped it before it had begun.
    NothingAsked,
    /// It has a run, or a reason why not, or a run and the reason why that is short.
    Test { run: Option<String>, reason: Option<String> },
}

fn conclude(record: Record, outcome: Result<TestOutcome, PathError>) -> anyhow::Result<Ended> {
    match outcome {
        Ok(outcome) => {
            let packets: Vec<&[Singleton]> =
                outcome.flows.iter().map(|flow| flow.singletons.as_slice()).collect();
            let (run, facts, whole) = (record.name(), of_test(&outcome), cut_short(&outcome));
            let of_flow = facts.flows.iter().find_map(|flow| flow.cut_short.clone());
            record.conclude(facts, &packets, whole.clone())?;
            Ok(Ended::Test { run: Some(run), reason: whole.or(of_flow) })
        }
        Err(error) => {
            record.discard();
            match error {
                PathError::Interrupted => Ok(Ended::NothingAsked),
                // It would be the same with every host.
                PathError::Options(_) => Err(error.into()),
                error => Ok(Ended::Test { run: None, reason: Some(sentence(&error.into())) }),
            }
        }
    }
}

/// What is asked of a test to one host.
fn args_for(args: &ProbeArgs, host: &MeshHost) -> ProbeArgs {
    ProbeArgs {
        host: Some(host.address().to_owned()),
        port: host.port.unwrap_or(args.port),
        key_file: host.key_file.clone().or_else(|| args.key_file.clone()),
        rolling: Some(false),
        ..args.clone()
    }
}

/// This host's name without its domain.
fn own_name() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = read.map(|name| name.trim().to_owned()).unwrap_or_default();
    name.split('.').next().filter(|name| !name.is_empty()).unwrap_or("here").to_owned()
}

/// The pairs of a mesh that another host measured.
fn pairs_of(path: &Path) -> anyhow::Result<Vec<Pair>> {
    let asked = || format!("--join {}", path.display());
    let run = RunDir::open(path).with_context(asked)?;
    if run.read_manifest().with_context(asked)?.verb != VERB {
        let message = format!("{}: it is no run of `quaver probe --mesh`", asked());
        return Err(failure(ExitCode::BadInput, message));
    }
    Ok(analyze(&run).with_context(asked)?.summary.pairs)
}

impl MeshDigest {
    /// Writes `summary.json` and `report.html`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn store(&self, run: &RunDir) -> anyhow::Result<()> {
        run.write_summary(&self.summary)?;
        results::store_report(run, &self.document())
    }

    /// What a person sees of it.
    pub fn document(&self) -> Document {
        view::document(self)
    }
}

/// What is wrong with the text of a file for `--mesh`; none where its hosts can be measured to.
pub fn hosts_fault(text: &str) -> Option<String> {
    hosts::parse(text, Path::new(""), "").err()
}
