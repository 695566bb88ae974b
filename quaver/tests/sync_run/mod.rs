//! Builds the recorder and programs to measure, and runs `quaver sync` as a user does.

#![allow(dead_code, reason = "each test file uses a part")]

use quaver_store::run::RunDir;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// Where the recorder is, as this source builds it. Cargo does not build the library of another package for the tests of this
/// one; where no `cargo build --workspace` came before, or the source is newer, this does, in the same target directory and
/// profile.
pub(crate) fn recorder_directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let profile = Path::new(env!("CARGO_BIN_EXE_quaver")).parent().expect("it lies in a directory");
        let library = profile.join("libquaver_preload.so");
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recorders/preload");
        let sources = [package.join("src"), package.join("../../core/abi/src")];
        let changed = sources.iter().filter_map(|path| newest(path)).max();
        if newest(&library).is_none_or(|built| changed.is_some_and(|changed| changed > built)) {
            build_recorder(&package, profile);
        }
        assert!(library.is_file(), "{} is missing: cargo build -p quaver-preload", library.display());
        profile.to_owned()
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
    let name = match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
    let output = Command::new(cargo)
        .current_dir(package)
        .args(["build", "--quiet", "--offline", "--lib", "--package", "quaver-preload", "--profile", name])
        .arg("--target-dir")
        .arg(profile.parent().expect("target/PROFILE"))
        .stdin(Stdio::null())
        .output()
        .expect("cargo can be run");
    assert!(
        output.status.success(),
        "cargo build -p quaver-preload: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A place with a program in it, and room for runs.
pub(crate) struct Bench {
    place: tempfile::TempDir,
    program: PathBuf,
}

impl Bench {
    /// Compiles `tests/sync_programs/NAME.c`.
    pub(crate) fn of(name: &str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/sync_programs/{name}.c"));
        Self::compiled(&source, name, &[])
    }

    /// Compiles `kernels/NAME.c`.
    pub(crate) fn of_kernel(name: &str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../kernels/{name}.c"));
        Self::compiled(&source, name, &["-std=gnu11", "-lm"])
    }

    /// Compiles this text.
    pub(crate) fn of_text(text: &str, flags: &[&str]) -> Self {
        let place = tempfile::tempdir().expect("a directory");
        let source = place.path().join("program.c");
        std::fs::write(&source, text).expect("it can be written");
        Self::compiled(&source, "program", flags)
    }

    fn compiled(source: &Path, name: &str, flags: &[&str]) -> Self {
        let place = tempfile::tempdir().expect("a directory");
        let program = place.path().join(name);
        let compiled = Command::new("cc")
            .args(["-O1", "-pthread", "-o"])
            .arg(&program)
            .arg(source)
            .args(flags)
            .output()
            .expect("a C compiler, as the BPF programs need one too");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Self { place, program }
    }

    /// Compiles this text by a compiler of any language: `COMPILER FLAGS -o PROGRAM SOURCE`.
    pub(crate) fn by(compiler: &str, file: &str, text: &str, flags: &[&str]) -> Self {
        let place = tempfile::tempdir().expect("a directory");
        let (source, program) = (place.path().join(file), place.path().join("program"));
        std::fs::write(&source, text).expect("it can be written");
        let mut command = Command::new(compiler);
        command.args(flags).arg("-o").arg(&program).arg(&source).env("GOCACHE", place.path().join("cache"));
        let compiled = command.output().expect("the compiler can be run");
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        Self { place, program }
    }

    /// The program.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A directory of the test's own.
    pub(crate) fn place(&self) -> &Path {
        self.place.path()
    }

    /// `quaver` with the recorder and a directory for runs.
    pub(crate) fn quaver(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command
            .args(words)
            .env("QUAVER_LIBDIR", recorder_directory())
            .env("QUAVER_RUNS", self.place.path().join("runs"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    /// `quaver sync OPTIONS -- PROGRAM`.
    pub(crate) fn sync(&self, options: &[&str]) -> Command {
        let mut command = self.quaver(&["sync"]);
        command.args(options).arg("--").arg(&self.program);
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, options: &[&str]) -> Output {
        self.sync(options).output().expect("the program runs")
    }

    /// The run that was made last.
    pub(crate) fn last_run(&self) -> PathBuf {
        let listed = std::fs::read_dir(self.place.path().join("runs")).expect("runs were made");
        let paths = listed.map(|entry| entry.expect("it can be listed").path());
        let made = |path: &PathBuf| {
            std::fs::metadata(path.join("manifest.json")).and_then(|data| data.modified()).ok()
        };
        paths.max_by_key(made).expect("a run was made")
    }

    /// Its summary.
    pub(crate) fn summary(&self) -> Value {
        RunDir::open(&self.last_run()).and_then(|run| run.read_summary()).expect("it was written")
    }
}

/// One test after the other, and what it starts before whoever else computes here, as root: a thread that is kept from its CPU waits
/// by its own clock, too, but not in any call.
pub(crate) fn before_others() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Not as a real-time thread: the Go compiler would never end. Without the right nothing changes.
    let _ = quaver_testbed::inject::schedule::before_others();
    alone
}

/// A number in a document.
pub(crate) fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer} in {value}"))
}
