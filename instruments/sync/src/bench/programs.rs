//! The programs of the bench: which there are, and where; and those of the user's own.

use crate::args::bench::SyncBenchArgs;
use crate::record::program;
use crate::record::recorder::DIRECTORY_VARIABLE;
use anyhow::Context;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_sync_analysis::bench::paper::{PROGRAMS, PaperProgram, Suite};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Directory of the programs below a library directory.
const DIRECTORY: &str = "kernels";

/// A program that is there.
#[derive(Clone, Debug)]
pub(super) struct BenchProgram {
    /// What it is called in tables; of the user's own, its command.
    pub(super) name: String,
    pub(super) suite: Suite,
    /// What directories of its recordings are called.
    pub(super) file: String,
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// What the recorder does not see of it.
    pub(super) obstacles: Vec<String>,
}

/// All that are asked for: the paper's, then the user's own.
pub(super) fn all(args: &SyncBenchArgs, threads: u32) -> anyhow::Result<Vec<BenchProgram>> {
    let bundled = args.commands.is_empty() || !args.only.is_empty();
    let mut found = if bundled { find(args, threads)? } else { Vec::new() };
    found.extend(args.commands.iter().enumerate().map(|(number, command)| own(command, number)));
    Ok(found)
}

/// A command of the user's, for a shell.
fn own(command: &str, number: usize) -> BenchProgram {
    let search = std::env::var_os("PATH");
    // Of a command that is more than a program and its words, the first word is as good a guess as any.
    let seen =
        command.split_whitespace().next().and_then(|word| program::find(OsStr::new(word), search.as_deref()));
    let seen = seen.map(|path| program::inspect(&path, search.as_deref()));
    let obstacles = seen.iter().flat_map(|seen| {
        let path = seen.interpreter.as_deref().unwrap_or(&seen.path);
        seen.obstacles.iter().map(|obstacle| obstacle.sentence(path))
    });
    BenchProgram {
        name: command.to_owned(),
        suite: Suite::Own,
        file: format!("own-{}", number + 1),
        path: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".into(), command.into()],
        obstacles: obstacles.collect(),
    }
}

/// The programs that come with Quaver and are asked for, in the paper's order.
fn find(args: &SyncBenchArgs, threads: u32) -> anyhow::Result<Vec<BenchProgram>> {
    let wanted = wanted(&args.only)?;
    let executable = std::env::current_exe().context("finding this program's own path")?;
    let named = std::env::var_os(DIRECTORY_VARIABLE);
    let directories = match &args.kernels {
        Some(directory) => vec![directory.clone()],
        None => directories(named.as_deref(), &executable),
    };
    let directory =
        directories.iter().find(|directory| wanted.iter().all(|one| directory.join(one.program).is_file()));
    let Some(directory) = directory else {
        let looked: Vec<String> = directories.iter().map(|path| path.display().to_string()).collect();
        return Err(failure(
            ExitCode::Unsupported,
            format!(
                "none of {} has the threaded programs (or not all of them); build them with `make build` in the source \
                 directory, or name where they are with --kernels DIR",
                looked.join(", ")
            ),
        ));
    };
    let arguments = arguments(args, threads);
    let found = |program: &PaperProgram| BenchProgram {
        name: program.program.to_owned(),
        suite: program.suite,
        file: program.program.to_owned(),
        path: directory.join(program.program),
        arguments: arguments.clone(),
        obstacles: Vec::new(),
    };
    Ok(wanted.into_iter().map(found).collect())
}

fn wanted(only: &[String]) -> anyhow::Result<Vec<&'static PaperProgram>> {
    if let Some(unknown) = only.iter().find(|name| PROGRAMS.iter().all(|program| program.program != *name)) {
        let names: Vec<&str> = PROGRAMS.iter().map(|program| program.program).collect();
        return Err(failure(
            ExitCode::Usage,
            format!("there is no program {unknown}; there are {}", names.join(", ")),
        ));
    }
    Ok(PROGRAMS
        .iter()
        .filter(|program| only.is_empty() || only.iter().any(|name| name == program.program))
        .collect())
}

/// Where they are looked for: in the directory that `QUAVER_LIBDIR` names (and then nowhere else), beside the executable, one
/// above it (a build directory), and in `../lib/quaver`.
fn directories(named: Option<&OsStr>, executable: &Path) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return vec![Path::new(named).join(DIRECTORY)];
    }
    let beside = executable.parent().unwrap_or(Path::new("/"));
    let above = beside.parent().unwrap_or(beside);
    vec![beside.join(DIRECTORY), above.join(DIRECTORY), above.join("lib/quaver").join(DIRECTORY)]
}

/// The arguments that a program of ours is run with.
fn arguments(args: &SyncBenchArgs, threads: u32) -> Vec<OsString> {
    let barrier = match args.barrier {
        crate::args::bench::BarrierKind::Cond => "-bcond",
        crate::args::bench::BarrierKind::Posix => "-bposix",
    };
    let mut words = vec![format!("-p{threads}"), format!("-r{}", args.seed), barrier.to_owned()];
    words.extend(args.size.map(|size| format!("-n{size}")));
    words.into_iter().map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_directory_is_the_only_one() {
        let executable = Path::new("/opt/quaver/bin/quaver");
        let named = directories(Some(OsStr::new("/srv/lib")), executable);
        assert_eq!(named, [PathBuf::from("/srv/lib/kernels")]);
        let unnamed = directories(None, executable);
        let want = ["/opt/quaver/bin/kernels", "/opt/quaver/kernels", "/opt/quaver/lib/quaver/kernels"];
        assert_eq!(unnamed, want.map(PathBuf::from));
        assert_eq!(directories(Some(OsStr::new("")), executable), unnamed);
    }

    #[test]
    fn programs_come_in_the_papers_order() {
        let names = |only: &[&str]| -> Vec<&str> {
            let only: Vec<String> = only.iter().map(ToString::to_string).collect();
            wanted(&only).expect("they exist").iter().map(|program| program.program).collect()
        };
        assert_eq!(names(&["vips", "barnes"]), ["barnes", "vips"]);
        assert_eq!(names(&[]).len(), 17);
        let unknown = wanted(&["doom".to_owned()]).expect_err("there is no such program");
        assert!(unknown.to_string().contains("streamcluster"), "{unknown}");
    }
}
