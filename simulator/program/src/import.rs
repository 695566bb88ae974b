//! `quaver sim import`: traces of other tools.

pub(crate) mod args;

use crate::import::args::{ImportFormat, SimImportArgs};
use quaver_instrument::deliver::deliver;
use quaver_instrument::envelope::Envelope;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_instrument::{results, rights};
use quaver_trace::import::{Format, ImportError, Imported, Input, import};
use quaver_view::{Cell, Document, text};
use serde_json::json;
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Version of what `--json` prints.
const SCHEMA: &str = "quaver.sim-import/1";
/// Time between two changes of the progress line.
const SHOWN_EACH: Duration = Duration::from_millis(200);

/// Reads, writes and prints.
pub(super) fn run(args: &SimImportArgs) -> anyhow::Result<ExitCode> {
    rights::keep_files();
    let paths = files(args)?;
    let read: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    rights::keep(&read, &[rights::place_of(&args.output)]);
    let interrupt = Interrupt::catch()?;
    let going = Going::new(&paths, args.quiet, &interrupt);
    let mut inputs = Vec::with_capacity(paths.len());
    for path in &paths {
        inputs.push(open(path, &going)?);
    }
    // What the import says is kept from what writing says.
    let mut outcome = None;
    let written = deliver(&args.output, |out| {
        let done = import(format(args.from), inputs, out).map(|(_, imported)| imported);
        let well = done.is_ok();
        outcome = Some(done);
        anyhow::ensure!(well, "nothing was imported");
        Ok(())
    });
    drop(going);
    match outcome {
        Some(Err(_)) if interrupt.requested() => Ok(ExitCode::Interrupted),
        Some(Err(error)) => Err(refused(args, error)),
        Some(Ok(imported)) => {
            written?;
            print(args, &imported)?;
            Ok(ExitCode::Done)
        }
        None => written.map(|()| ExitCode::Done),
    }
}

fn format(from: ImportFormat) -> Format {
    match from {
        ImportFormat::Drmemtrace => Format::Drmemtrace,
        ImportFormat::Champsim => Format::Champsim,
        ImportFormat::Synchrotrace => Format::Synchrotrace,
        ImportFormat::Lackey => Format::Lackey,
    }
}

fn refused(args: &SimImportArgs, error: ImportError) -> anyhow::Error {
    match error {
        ImportError::Damaged { .. } | ImportError::Inputs(_) => {
            let name = clap::ValueEnum::to_possible_value(&args.from);
            let name = name.as_ref().map_or("it", |name| name.get_name());
            failure(ExitCode::BadInput, format!("import from {name}: {error}"))
        }
        ImportError::Read { .. } => anyhow::Error::new(error),
        ImportError::Write(error) => failure(
            ExitCode::Output,
            format!("{}: {error}; choose another place with -o", args.output.display()),
        ),
    }
}

/// The files that make up the trace: directories stand for those in them that are of the format.
fn files(args: &SimImportArgs) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for input in &args.inputs {
        if !input.is_dir() {
            files.push(input.clone());
            continue;
        }
        let before = files.len();
        let cannot = |error: io::Error| {
            failure(ExitCode::BadInput, format!("read the directory {}: {error}", input.display()))
        };
        for entry in fs::read_dir(input).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            if path.is_file() && belongs(args.from, &path) {
                files.push(path);
            }
        }
        if files.len() == before {
            let message = format!("there is nothing of the format in the directory {}", input.display());
            return Err(failure(ExitCode::BadInput, message));
        }
        files[before..].sort();
    }
    Ok(files)
}

/// Whether a file of a directory is of the format, by its name.
fn belongs(from: ImportFormat, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match from {
        ImportFormat::Drmemtrace => name.contains(".trace") && !name.ends_with(".raw"),
        ImportFormat::Champsim => name.contains("champsim"),
        ImportFormat::Synchrotrace => {
            name.starts_with("sigil.events.out-") || name.starts_with("sigil.pthread.out")
        }
        ImportFormat::Lackey => false,
    }
}

fn open<'a>(path: &Path, going: &'a Going<'_>) -> anyhow::Result<Input<'a>> {
    let name = path.display().to_string();
    if path == Path::new("-") {
        return Ok(Input::new("standard input", Watched { octets: io::stdin().lock(), going }));
    }
    let file = File::open(path).map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::PermissionDenied => ExitCode::Unsupported,
            _ => ExitCode::BadInput,
        };
        failure(code, format!("open {name}: {error}"))
    })?;
    Ok(Input::new(name, Watched { octets: file, going }))
}

/// How far it is.
struct Going<'a> {
    interrupt: &'a Interrupt,
    began: Instant,
    /// Bytes of all inputs; none where one of them is no file.
    all: Option<u64>,
    seen: RefCell<ShownProgress>,
}

struct ShownProgress {
    line: Progress,
    octets: u64,
    shown: Instant,
}

impl<'a> Going<'a> {
    fn new(paths: &[PathBuf], quiet: bool, interrupt: &'a Interrupt) -> Self {
        let length =
            |path: &PathBuf| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|file| file.len());
        let now = Instant::now();
        let seen = ShownProgress { line: Progress::shares(quiet), octets: 0, shown: now };
        Self { interrupt, began: now, all: paths.iter().map(length).sum(), seen: RefCell::new(seen) }
    }

    fn read(&self, octets: usize) {
        let mut seen = self.seen.borrow_mut();
        seen.octets += octets as u64;
        if seen.shown.elapsed() < SHOWN_EACH {
            return;
        }
        seen.shown = Instant::now();
        let seconds = self.began.elapsed().as_secs_f64();
        let megabytes = seen.octets as f64 / 1e6;
        let words = format!("{megabytes:.0} MB read · {:.0} MB/s", megabytes / seconds);
        match self.all.filter(|all| *all > 0) {
            None => seen.line.say(words),
            Some(all) => {
                let share = seen.octets as f64 / all as f64;
                let left = seconds * (1.0 / share.min(1.0) - 1.0);
                let words = format!("{:.0} % · {words} · {left:.0} s left", 100.0 * share);
                seen.line.reach(share, words);
            }
        }
    }
}

/// Bytes that are counted as they are read, and end when the user wants it.
struct Watched<'a, R> {
    octets: R,
    going: &'a Going<'a>,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.going.interrupt.requested() {
            return Err(io::Error::other("interrupted by the user"));
        }
        let octets = self.octets.read(buffer)?;
        self.going.read(octets);
        Ok(octets)
    }
}

fn print(args: &SimImportArgs, imported: &Imported) -> anyhow::Result<()> {
    let standard = args.output == Path::new("-");
    let octets = fs::metadata(&args.output).ok().filter(fs::Metadata::is_file).map(|file| file.len());
    let text = if args.json { json_of(args, imported, octets)? } else { page(args, imported, octets) };
    if standard {
        // The trace is there already.
        quaver_instrument::tell!("{}", text.trim_end());
        return Ok(());
    }
    results::to_stdout(text.as_bytes())
}

fn json_of(args: &SimImportArgs, imported: &Imported, octets: Option<u64>) -> anyhow::Result<String> {
    let summary = json!({
        "schema": SCHEMA,
        "threads": imported.threads,
        "instructions": imported.instructions,
        "accesses": imported.accesses,
        "sync_steps": imported.syncs,
        "octets": octets,
        "left_out": imported.left_out,
        "lacks": imported.lacks,
    });
    let mut document = Document::new("quaver sim import", args.output.display().to_string());
    let [instructions, threads] = [imported.instructions, imported.threads.into()].map(Cell::Count);
    document.verdict = Some(text!("{instructions} instructions of {threads} threads were imported."));
    document.warnings = imported.lacks.iter().map(|lack| text!("it cannot say {lack}")).collect();
    Envelope::of(&document, None, ExitCode::Done).beside(&summary)
}

fn page(args: &SimImportArgs, imported: &Imported, octets: Option<u64>) -> String {
    let many = |number: u64, one: &str, more: &str| {
        format!("{} {}", Cell::Count(number), if number == 1 { one } else { more })
    };
    let mut page = format!(
        "{}: {}, {}, {}, {}\n",
        args.output.display(),
        many(u64::from(imported.threads), "thread", "threads"),
        many(imported.instructions, "instruction", "instructions"),
        many(imported.accesses, "access", "accesses"),
        many(imported.syncs, "synchronization operation", "synchronization operations"),
    );
    if let Some(octets) = octets {
        let kilobytes = octets as f64 / 1e3;
        let each = kilobytes / (imported.instructions.max(1) as f64 / 1e6);
        page.push_str(&format!("{} bytes, {each:.1} kB per million instructions\n", Cell::Count(octets)));
    }
    for (what, number) in &imported.left_out {
        page.push_str(&format!("skipped: {} {what}\n", Cell::Count(*number)));
    }
    page.push_str("It cannot say\n");
    for lack in &imported.lacks {
        page.push_str(&format!("  {lack}\n"));
    }
    page
}
