//! Builds the recorder and the programs under measurement, runs one under the other, and reads what was recorded.

#![allow(dead_code, reason = "each test file uses a part")]

use quaver_abi::sync::{SyncKind, SyncOutcome, outcome_flags};
use quaver_sync_store::{Segment, SegmentReader, SyncCounts, SyncMoment};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// The recorder's shared object, as this source builds it. Cargo does not build a cdylib for its own package's
/// tests; where no `cargo build --workspace` came before, or the source is newer, this does, in the same target
/// directory and profile.
pub(crate) fn recorder() -> &'static Path {
    static RECORDER: OnceLock<PathBuf> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().and_then(Path::parent).expect("target/PROFILE/deps/test");
        let library = profile.join("libquaver_preload.so");
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let sources = [package.join("src"), package.join("../../core/abi/src")];
        if newest(&library)
            .is_none_or(|built| sources.iter().filter_map(|path| newest(path)).any(|t| t > built))
        {
            build_recorder(package, profile);
        }
        assert!(library.is_file(), "{} is missing: cargo build -p quaver-preload", library.display());
        library
    })
}

/// When the youngest file in there was written; none where there is none.
fn newest(path: &Path) -> Option<SystemTime> {
    if !path.is_dir() {
        return path.metadata().ok()?.modified().ok();
    }
    std::fs::read_dir(path).ok()?.filter_map(|entry| newest(&entry.ok()?.path())).max()
}

fn build_recorder(package: &Path, profile: &Path) {
    let name = match profile.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .current_dir(package)
        .args(["build", "--quiet", "--offline", "--lib", "--package", "quaver-preload", "--profile", name])
        .arg("--target-dir")
        .arg(profile.parent().unwrap())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cargo build -p quaver-preload: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A directory for recordings and a program to record.
pub(crate) struct Trap {
    pub(crate) program: PathBuf,
    pub(crate) recordings: tempfile::TempDir,
}

fn build(source: &str, flags: &[&str], program: &Path) {
    let compiler = if source.ends_with(".cc") { "c++" } else { "cc" };
    let status = Command::new(compiler)
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(program)
        .arg(programs().join(source))
        .args(flags)
        .status()
        .unwrap_or_else(|e| panic!("{compiler}: {e}; a C and C++ compiler is needed (make setup)"));
    assert!(status.success(), "{source} does not build");
}

impl Trap {
    /// Builds a source of `tests/programs`, once for all tests of a file.
    pub(crate) fn new(source: &str, flags: &[&str]) -> Self {
        static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
        let mut built = BUILT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let test = std::env::current_exe().unwrap();
        let name = format!("{}-{source}{}", test.file_name().unwrap().display(), flags.concat());
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        if built.insert(program.clone()) {
            // Another run of the same tests may use the old one just now: it keeps it.
            let new = program.with_extension(std::process::id().to_string());
            build(source, flags, &new);
            std::fs::rename(&new, &program).unwrap();
        }
        Self { program, recordings: tempfile::tempdir().unwrap() }
    }

    /// `traps.c` in one of its modes.
    pub(crate) fn traps() -> Self {
        Self::new("traps.c", &[])
    }

    /// A command that is recorded.
    pub(crate) fn recorded(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", recorder())
            .env("QUAVER_SYNC_DIR", self.recordings.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program recorded, with these arguments (separated by spaces).
    pub(crate) fn run(&self, arguments: &str) -> Output {
        self.recorded(&self.program).args(arguments.split_whitespace()).output().unwrap()
    }

    /// The same; it must succeed and leave one recording.
    pub(crate) fn record(&self, arguments: &str) -> (Output, Recording) {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        (output, self.only())
    }

    /// All recordings, by name.
    pub(crate) fn recordings(&self) -> Vec<Recording> {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(self.recordings.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "seg"))
            .collect();
        paths.sort();
        paths.iter().map(|path| Recording::read(path)).collect()
    }

    /// The one recording that there is.
    pub(crate) fn only(&self) -> Recording {
        let mut all = self.recordings();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    /// Recordings of images of the program itself.
    pub(crate) fn of_program(&self) -> Vec<Recording> {
        let mut all = self.recordings();
        let own = self.program.to_str().unwrap();
        all.retain(|recording| recording.segment.facts().exe == own);
        all
    }
}

/// A recording, read whole.
pub(crate) struct Recording {
    pub(crate) segment: Segment,
    pub(crate) moments: Vec<SyncMoment>,
}

impl Recording {
    fn read(path: &Path) -> Self {
        let segment = SegmentReader::open(path).unwrap();
        let moments: Vec<SyncMoment> = segment.merge().collect::<Result<_, _>>().unwrap();
        assert!(moments.is_sorted_by_key(|moment| moment.at_ns));
        assert_eq!(segment.facts().threads_lost, 0);
        Self { segment, moments }
    }

    pub(crate) fn of(&self, kind: SyncKind) -> impl Iterator<Item = &SyncMoment> {
        self.moments.iter().filter(move |moment| moment.record.kind() == Some(kind))
    }

    /// How many events of a kind there are.
    pub(crate) fn count(&self, kind: SyncKind) -> u64 {
        self.of(kind).count() as u64
    }

    /// How many events of a kind ended so.
    pub(crate) fn ended(&self, kind: SyncKind, outcome: SyncOutcome) -> u64 {
        self.of(kind).filter(|moment| moment.record.outcome() == outcome).count() as u64
    }

    /// Counts of all threads together.
    pub(crate) fn counts(&self) -> SyncCounts {
        let mut sum = SyncCounts::default();
        for thread in self.segment.threads() {
            sum += thread.counts;
        }
        sum
    }

    /// Locks that were got, whether anybody had to wait or not.
    pub(crate) fn locks(&self) -> u64 {
        self.counts().free_locks + self.ended(SyncKind::LockExit, SyncOutcome::Ok)
    }

    /// Unlocks by call.
    pub(crate) fn unlocks(&self) -> u64 {
        let inside = |moment: &&SyncMoment| moment.record.outcome & outcome_flags::INSIDE_WAIT == 0;
        self.counts().free_unlocks + self.of(SyncKind::UnlockEntry).filter(inside).count() as u64
    }

    /// Nothing was lost, and what was entered was left (unless the image was killed).
    pub(crate) fn is_whole(&self) -> bool {
        let pairs = [
            (SyncKind::LockEntry, SyncKind::LockExit),
            (SyncKind::UnlockEntry, SyncKind::UnlockExit),
            (SyncKind::SignalEntry, SyncKind::SignalExit),
            (SyncKind::BroadcastEntry, SyncKind::BroadcastExit),
            (SyncKind::WaitEntry, SyncKind::WaitExit),
            (SyncKind::Create, SyncKind::CreateExit),
            (SyncKind::JoinEntry, SyncKind::JoinExit),
            (SyncKind::BarrierEntry, SyncKind::BarrierExit),
            (SyncKind::ReadLockEntry, SyncKind::ReadLockExit),
            (SyncKind::PostEntry, SyncKind::PostExit),
            (SyncKind::SemWaitEntry, SyncKind::SemWaitExit),
        ];
        self.segment.facts().records_lost == 0
            && pairs.iter().all(|(entry, exit)| self.count(*entry) == self.count(*exit))
    }
}
