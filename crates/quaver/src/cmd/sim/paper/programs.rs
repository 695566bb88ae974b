//! The programs: traces that come with Quaver, of the user, or traced now.

use crate::cli::sim_paper::SimPaperArgs;
use crate::cmd::sim::file;
use crate::exit_code::{ExitCode, failure};
use crate::interrupt::Interrupt;
use anyhow::Context;
use quaver_analysis::sync_bench::paper::{PROGRAMS, PaperProgram};
use quaver_measure::sync::recorder::DIRECTORY_VARIABLE;
use quaver_sim::paper::{BUNDLED, Program};
use quaver_trace::armour;
use quaver_trace::file::{ReadAt, TraceReader};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Sizes of the programs that are traced here, so that a trace has some million instructions.
const SIZES: [(&str, u32); 9] = [
    ("facesim", 8),
    ("ferret", 40),
    ("bodytrack", 64),
    ("x264", 2),
    ("raytrace-pool", 16),
    ("vips", 64),
    ("dedup", 32),
    ("fluidanimate", 200),
    ("streamcluster", 200),
];
/// Threads of a traced program: one a core.
const THREADS: u32 = 16;
/// Longer traces do not fit into memory, in instructions.
const MOST_INSTRUCTIONS: u64 = 150_000_000;
/// Time between looks at a program that is traced.
const LOOK: Duration = Duration::from_millis(100);

/// Where a program's steps are from.
#[derive(Debug)]
pub(super) enum Source {
    /// It can be run.
    Ready { program: Box<Program>, from: String },
    /// It cannot, and why.
    Missing(String),
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

/// Finds the trace of a program, or makes it in `directory`.
pub(super) fn find(
    name: &str,
    args: &SimPaperArgs,
    directory: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Source> {
    if let Some(own) = &args.traces {
        let files = [format!("{name}.qtrace"), format!("{name}.qtrace.txt")].map(|file| own.join(file));
        if let Some(path) = files.iter().find(|path| path.is_file()) {
            return read(name, path);
        }
    }
    if let Some((_, text)) = BUNDLED.iter().find(|(own, _)| *own == name) {
        let broken =
            |error: String| failure(ExitCode::Bug, format!("the trace of {name} that we have: {error}"));
        let octets = armour::decode(text.as_bytes()).map_err(|error| broken(error.to_string()))?;
        let reader = TraceReader::open(octets).map_err(|error| broken(error.to_string()))?;
        let program = whole(name, &reader).map_err(broken)?;
        return Ok(Source::Ready { program: Box::new(program), from: reader.facts.program.join(" ") });
    }
    if args.no_tracing {
        return Ok(Source::Missing("not traced: --no-tracing was given".to_owned()));
    }
    let Some(kernel) = built(name, args) else {
        let words =
            "not traced: the program was not found; `make -C kernels` builds it, --kernels names where it is";
        return Ok(Source::Missing(words.to_owned()));
    };
    match traced(name, &kernel, directory, interrupt)? {
        Ok(path) => read(name, &path),
        Err(reason) => Ok(Source::Missing(format!("not traced: {reason}"))),
    }
}

fn read(name: &str, path: &Path) -> anyhow::Result<Source> {
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
    let from = format!("{} ({})", trace.reader.facts.program.join(" "), path.display());
    Ok(Source::Ready { program: Box::new(program), from })
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

/// Traces a program by `quaver sim trace`; why not, where that cannot be.
fn traced(
    name: &str,
    kernel: &Path,
    directory: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Result<PathBuf, String>> {
    std::fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    let path = directory.join(format!("{name}.qtrace"));
    let size = SIZES.iter().find(|(own, _)| *own == name).map_or(16, |(_, size)| *size);
    let ourselves = std::env::current_exe().context("finding this program's own path")?;
    let mut command = Command::new(ourselves);
    command.args(["sim", "trace", "--quiet", "--output"]).arg(&path).arg("--").arg(kernel);
    command.args([format!("-p{THREADS}"), format!("-n{size}")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting quaver sim trace")?;
    let status = loop {
        if let Some(status) = child.try_wait().context("waiting for quaver sim trace")? {
            break status;
        }
        if interrupt.requested() {
            end(&mut child)?;
            return Ok(Err("interrupted".to_owned()));
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
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Ok(Err(last.trim().trim_start_matches("quaver: ").to_owned()))
}

fn end(child: &mut Child) -> anyhow::Result<()> {
    // It may have ended just now.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    child.wait().context("waiting for quaver sim trace")?;
    Ok(())
}
