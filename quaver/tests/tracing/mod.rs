//! Programs to trace, the libraries that tracing needs, and traces read whole.

use crate::simulator;
use quaver_abi::sync::{SyncKind, SyncOutcome, outcome_flags};
use quaver_sync_store::SegmentReader;
use quaver_testbed::privileged::{Feature, Lack, skip};
use quaver_trace::file::TraceReader;
use quaver_trace::step::{Access, Step, Steps};
use quaver_trace::summary::{SyncCounts, summary_of};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// Whether there is no emulator to trace in, which is told. Continuous integration, which installs it, must not skip.
pub(crate) fn is_skipped(name: &str) -> bool {
    if cfg!(not(target_arch = "x86_64")) {
        skip(name, Lack::Feature(Feature::X86_64));
        return true;
    }
    let there = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|place| place.join("qemu-x86_64").is_file()));
    if !there {
        skip(name, Lack::Installed("qemu-x86_64"));
    }
    !there
}

/// When the youngest file in there was written; none where there is none.
fn newest(path: &Path) -> Option<SystemTime> {
    if !path.is_dir() {
        return path.metadata().ok()?.modified().ok();
    }
    std::fs::read_dir(path).ok()?.filter_map(|entry| newest(&entry.ok()?.path())).max()
}

/// Directory of the recorder and the plugin, as this source builds them: cargo builds a package's shared library only when it
/// is asked for that package or for the whole workspace. Where that came before, and no source is newer, it is not asked again.
pub(crate) fn libraries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let directory = Path::new(env!("CARGO_BIN_EXE_quaver")).parent().expect("target/PROFILE/quaver");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let sources = ["recorders/preload", "recorders/qemu-plugin", "core/abi", "simulator/trace"];
        let changed = sources.iter().filter_map(|name| newest(&root.join(name).join("src"))).max();
        let oldest =
            ["libquaver_preload.so", "libquaver_qemu_plugin.so"].map(|name| newest(&directory.join(name)));
        if oldest.iter().all(|built| built.is_some() && *built >= changed) {
            return directory.to_owned();
        }
        let profile = match directory.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(other) => other,
        };
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--offline", "--lib", "--profile", profile])
            .args(["--package", "quaver-preload", "--package", "quaver-qemu-plugin"])
            .arg("--target-dir")
            .arg(directory.parent().expect("target"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .output()
            .expect("cargo can be run");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        directory.to_owned()
    })
}

/// A program, and a place for its traces.
pub(crate) struct Bench {
    place: tempfile::TempDir,
    program: PathBuf,
}

impl Bench {
    /// Compiles this text.
    pub(crate) fn of(text: &str, flags: &[&str]) -> Self {
        let place = tempfile::tempdir().expect("a directory");
        let (source, program) = (place.path().join("program.c"), place.path().join("program"));
        std::fs::write(&source, text).expect("it can be written");
        let compiled = Command::new("cc")
            .args(["-O1", "-pthread", "-o"])
            .args([&program, &source])
            .args(flags)
            .output()
            .expect("a C compiler, as the BPF programs need one too");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Self { place, program }
    }

    /// A program that was built already.
    pub(crate) fn at(program: PathBuf) -> Self {
        Self { place: tempfile::tempdir().expect("a directory"), program }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Where the trace goes.
    pub(crate) fn trace(&self) -> PathBuf {
        self.place.path().join("it.qtrace")
    }

    /// `quaver sim trace -o TRACE -- WORDS`.
    pub(crate) fn tracing(&self, words: &[&str]) -> Command {
        simulator::build_simulator();
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command
            .args(["sim", "trace", "-o"])
            .arg(self.trace())
            .arg("--")
            .args(words)
            .env("QUAVER_LIBDIR", libraries())
            .stdin(Stdio::null());
        command
    }

    /// Traces the program with these arguments.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let program = self.program.to_str().expect("a temporary path is text");
        let words: Vec<&str> = std::iter::once(program).chain(arguments.iter().copied()).collect();
        self.tracing(&words).output().expect("quaver can be run")
    }

    /// The same; it must succeed.
    pub(crate) fn traced(&self, arguments: &[&str]) -> Trace {
        let output = self.run(arguments);
        assert!(output.status.success(), "{output:?}");
        self.read()
    }

    /// The trace that there is.
    pub(crate) fn read(&self) -> Trace {
        Trace::read(&self.trace())
    }

    /// The program run on the machine itself, under the recorder.
    pub(crate) fn recorded(&self, arguments: &[&str]) -> SyncCounts {
        let recordings = self.place.path().join("recordings");
        std::fs::create_dir(&recordings).expect("a directory");
        let output = Command::new(&self.program)
            .args(arguments)
            .env("LD_PRELOAD", libraries().join("libquaver_preload.so"))
            .env("QUAVER_SYNC_DIR", &recordings)
            .stdin(Stdio::null())
            .output()
            .expect("it can be run");
        assert!(output.status.success(), "{output:?}");
        counts(&recordings)
    }
}

/// What a recording counts, in the words of traces. Of waits it does not tell who ended them; an unlock does not say of what.
fn counts(recordings: &Path) -> SyncCounts {
    let entries =
        std::fs::read_dir(recordings).expect("it is there").map(|entry| entry.expect("it is").path());
    let mut segments = entries.filter(|path| path.extension().is_some_and(|ending| ending == "seg"));
    let segment = SegmentReader::open(&segments.next().expect("a recording")).expect("it is whole");
    assert!(segments.next().is_none(), "one program makes one recording");
    let moments: Vec<_> = segment.merge().collect::<Result<_, _>>().expect("it is whole");
    let ended = |kind: SyncKind| {
        let good = |outcome| matches!(outcome, SyncOutcome::Ok | SyncOutcome::Serial);
        let of = moments.iter().filter(|moment| moment.record.kind() == Some(kind));
        of.filter(|moment| {
            moment.record.outcome & outcome_flags::INSIDE_WAIT == 0 && good(moment.record.outcome())
        })
        .count() as u64
    };
    let mut free = quaver_sync_store::SyncCounts::default();
    segment.threads().iter().for_each(|thread| free += thread.counts);
    SyncCounts {
        creates: ended(SyncKind::CreateExit),
        joins: ended(SyncKind::JoinExit),
        locks: free.free_locks + ended(SyncKind::LockExit),
        unlocks: free.free_unlocks + ended(SyncKind::UnlockExit),
        read_locks: free.free_read_locks + ended(SyncKind::ReadLockExit),
        read_unlocks: 0,
        waits: ended(SyncKind::WaitExit) + ended(SyncKind::SemWaitExit) + free.free_semaphore_waits,
        woken: 0,
        signals: ended(SyncKind::SignalExit) + ended(SyncKind::PostExit) + free.quiet_posts,
        broadcasts: ended(SyncKind::BroadcastExit),
        barriers: ended(SyncKind::BarrierExit),
    }
}

/// A trace, read whole.
pub(crate) struct Trace {
    pub(crate) reader: TraceReader<Vec<u8>>,
}

impl Trace {
    fn read(path: &Path) -> Self {
        let octets = std::fs::read(path).expect("there is a trace");
        Self { reader: TraceReader::open(octets).expect("it is one") }
    }

    /// Steps of all threads together, by kind.
    pub(crate) fn counts(&self) -> SyncCounts {
        let each =
            self.reader.threads().map(|thread| summary_of(&self.reader, thread).expect("it is whole").syncs);
        each.fold(SyncCounts::default(), |all, thread| all.and(&thread))
    }

    /// Instructions of a thread.
    pub(crate) fn instructions(&self, thread: u32) -> u64 {
        summary_of(&self.reader, thread).expect("it is whole").instructions
    }

    /// Steps of a thread, each with its accesses.
    pub(crate) fn steps(&self, thread: u32) -> Vec<(Step, Vec<Access>)> {
        let (mut steps, mut accesses, mut all) = (self.reader.steps(thread), Vec::new(), Vec::new());
        loop {
            match steps.step(&mut accesses).expect("it is whole") {
                Step::End => return all,
                step @ Step::Block { .. } => all.push((step, accesses.clone())),
                step => all.push((step, Vec::new())),
            }
        }
    }
}
