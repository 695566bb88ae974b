//! The programs of the bench: which there are, and where.

use crate::cli::sync_bench::SyncBenchArgs;
use crate::exit_code::{ExitCode, failure};
use anyhow::Context;
use quaver_analysis::sync_bench::paper::{PROGRAMS, PaperProgram};
use quaver_measure::sync::recorder::DIRECTORY_VARIABLE;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Directory of the programs below a library directory.
const DIRECTORY: &str = "kernels";

/// A program that is there.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) program: &'static PaperProgram,
    pub(super) path: PathBuf,
}

/// The programs that are asked for, in the paper's order.
pub(super) fn find(args: &SyncBenchArgs) -> anyhow::Result<Vec<Found>> {
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
                "none of {} has the threaded programs (or not all of them); build them with `make -C kernels` in the source \
                 directory, and name where they are with --kernels DIR",
                looked.join(", ")
            ),
        ));
    };
    Ok(wanted.into_iter().map(|program| Found { program, path: directory.join(program.program) }).collect())
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

/// The arguments that a program is run with.
pub(super) fn arguments(args: &SyncBenchArgs, threads: u32) -> Vec<OsString> {
    let barrier = match args.barrier {
        crate::cli::sync_bench::BarrierKind::Cond => "-bcond",
        crate::cli::sync_bench::BarrierKind::Posix => "-bposix",
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
