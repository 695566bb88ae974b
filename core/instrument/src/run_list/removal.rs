//! Removing runs, and nothing else.

use super::row::RunRow;
use crate::exit_code::{ExitCode, failure};
use anyhow::Context;
use quaver_store::run::RunDir;
use quaver_view::Cell;
use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

/// A run without an end whose files changed so recently may still be recorded by somebody whose files we cannot see.
const RECENT: Duration = Duration::from_secs(60);

/// Rows, which come newest first, that must go so that `keep` stay and all together are no larger than `below` bytes. Tagged runs
/// stay, and count.
pub(super) fn surplus(rows: &[RunRow], keep: usize, below: u64) -> Vec<usize> {
    let tagged = |row: &RunRow| !row.listed.tags.is_empty();
    let mut count = rows.len();
    let mut bytes: u64 = rows.iter().map(|row| row.bytes).sum();
    let mut chosen = Vec::new();
    for (at, row) in rows.iter().enumerate().rev().filter(|(_, row)| !tagged(row)) {
        if count > keep || bytes > below {
            chosen.push(at);
            count -= 1;
            bytes -= row.bytes;
        }
    }
    chosen
}

/// Removes runs, after a person said yes.
pub(super) fn remove(runs: &[RunDir], yes: bool) -> anyhow::Result<ExitCode> {
    for run in runs {
        check(run)?;
        writeln!(std::io::stdout().lock(), "{}", run.path().display())?;
    }
    if !yes && !agreed(runs.len())? {
        crate::tell!("nothing was removed");
        return Ok(ExitCode::Done);
    }
    let mut code = ExitCode::Done;
    for run in runs {
        // Asking takes time, in which a reader may come.
        if let Some(reason) = use_of(run, Path::new("/proc")) {
            crate::tell!("quaver: {} was kept: {reason}", run.path().display());
            code = ExitCode::Output;
            continue;
        }
        delete(run)?;
    }
    Ok(code)
}

fn agreed(runs: usize) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let message = "remove runs: nobody is there to be asked; say --yes";
        return Err(failure(ExitCode::Usage, message));
    }
    write!(std::io::stderr().lock(), "Remove {}? [y/N] ", Cell::several(runs as u64, "run"))?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("reading the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Whether a directory is a run that a verb made: no link, a manifest, and a name of its verb.
fn check(run: &RunDir) -> anyhow::Result<()> {
    let refuse = |reason: &str| {
        let message = format!("remove {}: {reason}; remove it by hand if it may go", run.path().display());
        failure(ExitCode::BadInput, message)
    };
    if !fs::symlink_metadata(run.path())?.is_dir() {
        return Err(refuse("it is a symbolic link"));
    }
    let manifest = run.read_manifest()?;
    let verb = &manifest.verb;
    // `chase-20261120T165800Z-7f3a`
    let own = fs::canonicalize(run.path())?;
    let name = own.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = if manifest.scrubbed.is_some() { name.trim_end_matches("-scrubbed") } else { &name };
    let shape = |rest: &str| {
        let (stamp, number) = rest.split_once('-').unwrap_or_default();
        stamp.len() == 16
            && stamp.ends_with('Z')
            && number.len() == 4
            && number.bytes().all(|b| b.is_ascii_hexdigit())
    };
    if !name.strip_prefix(&format!("{verb}-")).is_some_and(shape) {
        return Err(refuse("its name is not one that a verb gives"));
    }
    Ok(())
}

/// Who uses a run, or why it may be in use. `processes` is `/proc`.
fn use_of(run: &RunDir, processes: &Path) -> Option<String> {
    let place = fs::canonicalize(run.path()).ok()?;
    for process in fs::read_dir(processes).into_iter().flatten().flatten() {
        let path = process.path();
        let number = process.file_name().to_string_lossy().into_owned();
        if !number.bytes().all(|letter| letter.is_ascii_digit()) {
            continue;
        }
        let files = fs::read_dir(path.join("fd")).into_iter().flatten().flatten().map(|file| file.path());
        let open = files
            .chain([path.join("cwd")])
            .any(|link| fs::read_link(link).is_ok_and(|to| to.starts_with(&place)));
        let maps = || fs::read_to_string(path.join("maps")).unwrap_or_default();
        let below = format!("{}/", place.display());
        if open || maps().contains(&below) {
            return Some(format!("process {number} uses it"));
        }
    }
    let unended = run.read_manifest().is_ok_and(|manifest| manifest.ended_realtime_ns.is_none());
    let entries = fs::read_dir(&place).into_iter().flatten().flatten();
    let age = |entry: fs::DirEntry| entry.metadata().ok()?.modified().ok()?.elapsed().ok();
    let recent = unended && entries.filter_map(age).any(|age| age < RECENT);
    recent.then(|| "it may still be recorded".to_owned())
}

/// The manifest goes last: what a kill leaves is still a run, which can be removed again. What somebody else removes meanwhile
/// is gone as asked.
fn delete(run: &RunDir) -> anyhow::Result<()> {
    let failed = || format!("removing {}", run.path().display());
    let entries = match fs::read_dir(run.path()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(failed)?,
    };
    for entry in entries {
        let entry = entry.with_context(failed)?;
        let path = entry.path();
        if path == run.manifest() {
            continue;
        }
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        gone(removed).with_context(failed)?;
    }
    gone(fs::remove_file(run.manifest())).and_then(|()| gone(fs::remove_dir(run.path()))).with_context(failed)
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_store::listing::Listed;
    use quaver_store::manifest::Manifest;
    use serde_json::json;

    fn run(place: &Path, ended: bool) -> RunDir {
        let run = RunDir::create(place, "chase").unwrap();
        let mut manifest = Manifest::begin("0.1.0", "chase", json!({}), json!({}), 1);
        if ended {
            manifest.end(2, None);
        }
        run.write_manifest(&manifest).unwrap();
        run
    }

    #[test]
    fn a_run_goes_and_what_it_links_to_stays() {
        let place = tempfile::tempdir().unwrap();
        let outside = place.path().join("precious");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "x").unwrap();
        let run = run(place.path(), true);
        fs::create_dir(run.path().join("cells")).unwrap();
        std::os::unix::fs::symlink(&outside, run.path().join("cells/link")).unwrap();
        std::os::unix::fs::symlink(&outside, run.path().join("link")).unwrap();
        assert_eq!(remove(std::slice::from_ref(&run), true).unwrap(), ExitCode::Done);
        assert!(!run.path().exists() && outside.join("file").exists());
    }

    #[test]
    fn a_run_that_somebody_else_removes_is_gone_as_asked() {
        let place = tempfile::tempdir().unwrap();
        let (first, last) = (run(place.path(), true), run(place.path(), true));
        fs::remove_dir_all(first.path()).unwrap();
        delete(&first).unwrap();
        assert_eq!(remove(&[last.clone(), last.clone()], true).unwrap(), ExitCode::Done);
        assert!(!last.path().exists());
    }

    #[test]
    fn what_is_no_run_of_a_verb_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let made = run(place.path(), true);
        let renamed = place.path().join("chase-of-mine");
        fs::rename(made.path(), &renamed).unwrap();
        let link = place.path().join("chase-20261120T165800Z-7f3a");
        std::os::unix::fs::symlink(&renamed, &link).unwrap();
        for (path, why) in [(&renamed, "its name"), (&link, "symbolic link")] {
            let error = remove(&[RunDir::open(path).unwrap()], true).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(renamed.join("manifest.json").exists());
    }

    #[test]
    fn a_run_in_use_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let (used, begun) = (run(place.path(), true), run(place.path(), false));
        let file = fs::File::open(used.manifest()).unwrap();
        assert_eq!(remove(&[used.clone(), begun.clone()], true).unwrap(), ExitCode::Output);
        assert!(used.manifest().exists() && begun.manifest().exists());
        assert_eq!(use_of(&begun, Path::new("/proc")).unwrap(), "it may still be recorded");
        drop(file);
        assert_eq!(remove(std::slice::from_ref(&used), true).unwrap(), ExitCode::Done);
        assert!(!used.path().exists());
    }

    #[test]
    fn the_oldest_without_a_tag_go_first() {
        let place = tempfile::tempdir().unwrap();
        let row = |bytes: u64, tags: &[&str]| {
            let run = run(place.path(), true);
            let manifest = run.read_manifest().unwrap();
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            RunRow { listed: Listed { run, manifest, tags }, bytes, headline: None, summary: json!(null) }
        };
        let rows = [row(10, &[]), row(20, &[]), row(30, &["kept"]), row(40, &[])];
        assert_eq!(surplus(&rows, 4, 100), [0usize; 0]);
        assert_eq!(surplus(&rows, 3, 100), [3]);
        assert_eq!(surplus(&rows, 4, 60), [3]);
        assert_eq!(surplus(&rows, 4, 59), [3, 1]);
        assert_eq!(surplus(&rows, 0, 100), [3, 1, 0], "a tagged run stays");
    }
}
