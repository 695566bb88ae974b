//! The programs: traced now, traces of the user, or the small ones that come with Quaver.

use crate::file;
use crate::paper::args::SimPaperArgs;
use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_launch::recorder::DIRECTORY_VARIABLE;
use quaver_sim::paper::{BUNDLED, Program};
use quaver_sync_analysis::bench::paper::{PROGRAMS, PaperProgram};
use quaver_trace::file::{ReadAt, TraceReader};
use quaver_waiting as waiting;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How the programs are traced here: 16 threads in all, one a core, which pools and pipelines have beside those that `-p` gives;
/// a parallel part of 2 to 9 ms on the simulated chip. Where one time step of a problem is enough for that, it is one step of a
/// larger problem, since a small one meets more often than the paper's did.
///
/// Barriers are those of the thread library, of which the trace knows who met. One made of a mutex and a condition is to the
/// replay just that: who came last in QEMU did not wait there, and would pass though it comes first.
const TRACED: [(&str, &str); 17] = [
    ("barnes", "-p16 -n3072 -s1 -bposix"),
    ("fmm", "-p16 -n4096 -s1 -bposix"),
    ("lu", "-p16 -n288 -bposix"),
    ("ocean", "-p16 -n256 -s1 -bposix"),
    ("radix", "-p16 -n524288 -bposix"),
    ("raytrace", "-p16 -n128"),
    ("water-nsquared", "-p16 -n512 -s1 -bposix"),
    ("water-spatial", "-p16 -n512 -s1 -bposix"),
    ("facesim", "-p15 -n192 -s1"),
    ("ferret", "-p12 -n200"),
    ("bodytrack", "-p15 -n1024 -s1"),
    ("x264", "-p16 -n16"),
    ("raytrace-pool", "-p15 -n128 -s1"),
    ("vips", "-p14 -n384"),
    ("dedup", "-p13 -n1024"),
    ("fluidanimate", "-p16 -n5000 -s1 -bposix"),
    ("streamcluster", "-p16 -n1500 -bposix"),
];
/// Longer traces do not fit into memory, in instructions.
const MOST_INSTRUCTIONS: u64 = 200_000_000;
/// Time between looks at a program that is traced.
const LOOK: Duration = Duration::from_millis(20);

/// Where a program's steps are from.
#[derive(Debug)]
pub(super) enum Source {
    /// It can be run; its trace may have been cut short.
    Ready { program: Box<Program>, from: String, cut_short: bool },
    /// It cannot, and why.
    Missing(String),
}

/// The traces of all programs that are asked for, as they were found or made before the first of them ran.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// By program: its file and where that is from, or why there is none.
    found: BTreeMap<&'static str, Result<(PathBuf, Origin), String>>,
}

/// Where a trace is from.
#[derive(Debug)]
enum Origin {
    Traced,
    User,
    /// One of those that come with Quaver, and why.
    Bundled(String),
}

impl Traces {
    /// Finds the traces of these programs, or makes them in `directory`, which in the end has all that are not the user's.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub(super) fn gather(
        wanted: &[&'static PaperProgram],
        args: &SimPaperArgs,
        directory: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let progress = Progress::shares(args.output.quiet);
        let mut traces = Self::default();
        for (done, row) in wanted.iter().enumerate() {
            if interrupt.requested() {
                break;
            }
            let share = done as f64 / wanted.len() as f64;
            progress.reach(share, format!("tracing {} ({} of {})", row.program, done + 1, wanted.len()));
            traces.found.insert(row.program, find(row.program, args, directory, interrupt)?);
        }
        Ok(traces)
    }

    /// Reads the trace of a program.
    ///
    /// # Errors
    /// It is none (status 5).
    pub(super) fn read(&self, name: &str) -> anyhow::Result<Source> {
        match self.found.get(name) {
            Some(Ok((path, from))) => read(name, path, from),
            Some(Err(reason)) => Ok(Source::Missing(reason.clone())),
            None => Ok(Source::Missing("interrupted before it was traced".to_owned())),
        }
    }
}

/// The programs that are asked for, in the paper's order; all of them where none is named.
pub(super) fn wanted(names: &[String]) -> anyhow::Result<Vec<&'static PaperProgram>> {
    if let Some(unknown) = names.iter().find(|name| PROGRAMS.iter().all(|one| one.program != *name)) {
        let all: Vec<&str> = PROGRAMS.iter().map(|one| one.program).collect();
        let message = format!("there is no program {unknown}; there are {}", all.join(", "));
        return Err(failure(ExitCode::Usage, message));
    }
    let wanted =
        PROGRAMS.iter().filter(|one| names.is_empty() || names.iter().any(|name| name == one.program));
    Ok(wanted.collect())
}

/// The trace of a program, or why there is none.
fn find(
    name: &str,
    args: &SimPaperArgs,
    directory: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Result<(PathBuf, Origin), String>> {
    if let Some(own) = &args.traces {
        let files = [format!("{name}.qtrace"), format!("{name}.qtrace.txt")].map(|file| own.join(file));
        if let Some(path) = files.into_iter().find(|path| path.is_file()) {
            return Ok(Ok((path, Origin::User)));
        }
    }
    let made = match built(name, args) {
        _ if args.no_tracing => Err("not traced: --no-tracing was given".to_owned()),
        Some(kernel) => traced(name, &kernel, directory, interrupt)?,
        None => Err(ABSENT.to_owned()),
    };
    let reason = match made {
        Ok(path) => return Ok(Ok((path, Origin::Traced))),
        Err(reason) => reason,
    };
    if interrupt.requested() {
        return Ok(Err(reason));
    }
    let Some((_, text)) = BUNDLED.iter().find(|(own, _)| *own == name) else { return Ok(Err(reason)) };
    // Kept beside the others, so that the directory gives the same run again.
    make(directory)?;
    let path = directory.join(format!("{name}.qtrace.txt"));
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(Ok((path, Origin::Bundled(reason))))
}

const ABSENT: &str =
    "not traced: the program was not found; `make -C kernels` builds it, --kernels names where it is";

fn read(name: &str, path: &Path, from: &Origin) -> anyhow::Result<Source> {
    let trace = file::open(path)?;
    let program = whole(name, &trace.reader)
        .map_err(|error| failure(ExitCode::BadInput, format!("{}: {error}", path.display())))?;
    let instructions = program.instructions(1);
    if instructions > MOST_INSTRUCTIONS {
        let words = format!(
            "{}: {} million instructions are more than fit into memory; trace a smaller size of it",
            path.display(),
            instructions / 1_000_000
        );
        return Ok(Source::Missing(words));
    }
    let command = command_line(&trace.reader.facts.program);
    let from = match from {
        Origin::Traced => format!("{command}, traced for this run"),
        Origin::User => format!("{command}, of --traces"),
        Origin::Bundled(reason) => format!("{command}, the small trace that comes with Quaver ({reason})"),
    };
    Ok(Source::Ready { program: Box::new(program), from, cut_short: trace.reader.cut_short })
}

/// What was traced, without the place where the program lies.
fn command_line(words: &[String]) -> String {
    let name = words.first().map(|first| first.rsplit('/').next().unwrap_or(first));
    name.into_iter().chain(words.iter().skip(1).map(String::as_str)).collect::<Vec<_>>().join(" ")
}

fn whole<R: ReadAt>(name: &str, reader: &TraceReader<R>) -> Result<Program, String> {
    let last = reader.threads().max().ok_or("there are no steps in it")?;
    let steps = (0..=last).map(|thread| reader.steps(thread));
    Program::read(name, (*reader.dictionary).clone(), steps).map_err(|error| error.to_string())
}

/// The built program, where it is.
fn built(name: &str, args: &SimPaperArgs) -> Option<PathBuf> {
    let mut places: Vec<PathBuf> = args.kernels.iter().cloned().collect();
    if args.kernels.is_none() {
        match std::env::var_os(DIRECTORY_VARIABLE).filter(|named| !named.is_empty()) {
            Some(named) => places.push(Path::new(&named).join("kernels")),
            None => {
                let executable = std::env::current_exe().ok()?;
                let beside = executable.parent()?;
                places.push(beside.join("kernels"));
                places.extend(beside.parent().map(|above| above.join("kernels")));
                places.extend(beside.parent().map(|above| above.join("lib/quaver/kernels")));
            }
        }
    }
    places.into_iter().map(|place| place.join(name)).find(|path| path.is_file())
}

fn make(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))
}

/// Traces a program by `quaver sim trace`; why not, where that cannot be.
fn traced(
    name: &str,
    kernel: &Path,
    directory: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Result<PathBuf, String>> {
    make(directory)?;
    let path = directory.join(format!("{name}.qtrace"));
    let options = TRACED.iter().find(|(own, _)| *own == name).map_or("", |(_, options)| options);
    let ourselves = std::env::current_exe().context("finding this program's own path")?;
    let mut command = Command::new(ourselves);
    command.args(["trace", "--quiet", "--output"]).arg(&path).arg("--").arg(kernel);
    command.args(options.split_whitespace());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting quaver sim trace")?;
    let status = loop {
        if let Some(status) = child.try_wait().context("waiting for quaver sim trace")? {
            break status;
        }
        if interrupt.requested() {
            end(&mut child)?;
            return Ok(Err("not traced: interrupted".to_owned()));
        }
        std::thread::sleep(LOOK);
    };
    let mut said = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        // What it said is for the page only.
        let _ = std::io::Read::read_to_string(&mut pipe, &mut said);
    }
    if status.success() && path.is_file() {
        return Ok(Ok(path));
    }
    // What there is of it is no trace of the program: nobody shall take it for one.
    let _ = std::fs::remove_file(&path);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Ok(Err(format!("not traced: {}", last.trim().trim_start_matches("quaver: "))))
}

fn end(child: &mut Child) -> anyhow::Result<()> {
    waiting::end_program(child).context("waiting for quaver sim trace")?;
    Ok(())
}
