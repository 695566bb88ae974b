//! Runs below a directory, their names and their tags.

use crate::error::StoreError;
use crate::manifest::Manifest;
use crate::run::{RunDir, write_atomically};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Runs lie at most so many directories below a root.
const DEEPEST: usize = 3;
/// So many directories below a root may be no runs, and so many more for each run that is found: a whole file system, or a home,
/// has more, and is no place of runs.
const MOST_OTHERS: usize = 3_000;
const MOST_OTHERS_A_RUN: usize = 10;
/// Its tags, one a line, in the run's directory.
const TAGS: &str = "tags.txt";

/// A run with its manifest.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Where it is.
    pub run: RunDir,
    /// What was asked, and when.
    pub manifest: Manifest,
    /// Names that people gave it.
    pub tags: Vec<String>,
}

/// Where verbs put their runs unless asked otherwise: `QUAVER_RUNS`, else `runs`.
pub fn usual_root() -> PathBuf {
    std::env::var_os("QUAVER_RUNS").map_or_else(|| PathBuf::from("runs"), PathBuf::from)
}

/// Opens a run by its path, or by a name below the usual root as [`named`] has it.
///
/// # Errors
/// There is no such run.
pub fn open(word: &Path) -> Result<RunDir, StoreError> {
    named(word, &usual_root())
}

/// The runs below `root`, the newest first. What is no run, or cannot be read, is passed over; symbolic links are not followed,
/// and a run within a run is part of it.
///
/// # Errors
/// Too many directories that are no runs lie there.
pub fn runs_below(root: &Path) -> Result<Vec<Listed>, StoreError> {
    let (mut found, mut others) = (Vec::new(), 0);
    let is_all = root.canonicalize().is_ok_and(|real| real.parent().is_none());
    if is_all || collect(root, DEEPEST, &mut found, &mut others, MOST_OTHERS).is_none() {
        return Err(StoreError::NoPlaceOfRuns { root: root.to_owned() });
    }
    found.sort_by(|one, other| {
        // Of a run and its copy without names, the run.
        let key = |listed: &Listed| {
            let manifest = &listed.manifest;
            (manifest.started_realtime_ns, manifest.scrubbed.is_none(), listed.run.name())
        };
        key(other).cmp(&key(one))
    });
    Ok(found)
}

/// None where too many directories are no runs; `others` counts them, and `most` may be where no run is.
fn collect(
    place: &Path,
    depth: usize,
    into: &mut Vec<Listed>,
    others: &mut usize,
    most: usize,
) -> Option<()> {
    if let Ok(run) = RunDir::open(place) {
        if let Ok(manifest) = run.read_manifest() {
            into.push(Listed { tags: tags(&run), run, manifest });
        }
        return Some(());
    }
    *others += 1;
    if *others > most + MOST_OTHERS_A_RUN * into.len() {
        return None;
    }
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        collect(&entry.path(), depth - 1, into, others, most)?;
    }
    Some(())
}

/// The tags of a run; none where it has none.
pub fn tags(run: &RunDir) -> Vec<String> {
    let text = fs::read_to_string(run.path().join(TAGS)).unwrap_or_default();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Replaces the tags of a run.
///
/// # Errors
/// The file cannot be written.
pub fn write_tags(run: &RunDir, tags: &[String]) -> Result<(), StoreError> {
    let text: String = tags.iter().map(|tag| format!("{tag}\n")).collect();
    write_atomically(&run.path().join(TAGS), text.as_bytes())
}

/// The run that a word names: a path that exists; else, below `root`, `last`, `last~2` (the third newest), a run's own name, or
/// a tag (the newest that has it).
///
/// # Errors
/// There is no such run, or `root` is no place of runs.
pub fn named(word: &Path, root: &Path) -> Result<RunDir, StoreError> {
    let plain = matches!(word.components().collect::<Vec<_>>().as_slice(), [Component::Normal(_)]);
    let name = word.to_str().filter(|_| plain && !word.exists());
    let Some(name) = name else { return RunDir::open(word) };
    let mut all = runs_below(root)?.into_iter();
    let back = match name.strip_prefix("last") {
        Some("") => Some(0),
        Some(rest) => rest.strip_prefix('~').and_then(|back| back.parse::<usize>().ok()),
        None => None,
    };
    let found = match back {
        Some(back) => all.nth(back),
        None => all.find(|listed| listed.run.name() == name || listed.tags.iter().any(|tag| tag == name)),
    };
    let missing = || StoreError::NoSuchRun { name: name.to_owned(), root: root.to_owned() };
    found.map(|listed| listed.run).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(place: &Path, verb: &str, started_ns: i64) -> RunDir {
        let run = RunDir::create(place, verb).unwrap();
        run.write_manifest(&Manifest::begin("0.1.0", verb, json!({}), json!({}), started_ns)).unwrap();
        run
    }

    #[test]
    fn a_place_with_too_many_other_directories_is_refused_and_many_runs_are_not() {
        let root = tempfile::tempdir().unwrap();
        let directory = |at: usize| fs::create_dir(root.path().join(format!("d{at}"))).unwrap();
        // The root is one of them.
        (1..MOST_OTHERS).for_each(directory);
        assert!(runs_below(root.path()).unwrap().is_empty());
        directory(MOST_OTHERS);
        assert!(runs_below(root.path()).is_err());
        fs::remove_dir(root.path().join("d1")).unwrap();
        let held = run(root.path(), "chase", 1);
        (0..=MOST_OTHERS).for_each(|at| fs::create_dir(held.path().join(at.to_string())).unwrap());
        assert_eq!(runs_below(root.path()).unwrap().len(), 1, "of a run nothing is counted");
        // A fleet's runs lie in a directory of each host and day.
        let fleet = tempfile::tempdir().unwrap();
        for at in 0..9 {
            run(&fleet.path().join(format!("host/{at}")), "chase", 1);
        }
        let (mut found, mut others) = (Vec::new(), 0);
        assert_eq!(collect(fleet.path(), DEEPEST, &mut found, &mut others, 3), Some(()));
        assert_eq!((found.len(), others), (9, 11));
        (0..=MOST_OTHERS_A_RUN).for_each(|at| fs::create_dir(root.path().join(format!("e{at}"))).unwrap());
        assert!(matches!(runs_below(Path::new("/")), Err(StoreError::NoPlaceOfRuns { .. })));
        let refused = runs_below(root.path()).unwrap_err();
        assert!(matches!(&refused, StoreError::NoPlaceOfRuns { root: at } if at == root.path()));
        assert!(refused.is_bad_input() && refused.to_string().contains("name the directory of the runs"));
        assert!(matches!(named(Path::new("last"), root.path()), Err(StoreError::NoPlaceOfRuns { .. })));
    }

    #[test]
    fn runs_are_named_by_age_name_tag_and_path() {
        let root = tempfile::tempdir().unwrap();
        let (old, new) = (run(root.path(), "chase", 1), run(&root.path().join("deep/er"), "noise", 2));
        fs::create_dir(root.path().join("empty")).unwrap();
        fs::create_dir(new.path().join("cells")).unwrap();
        run(&new.path().join("cells"), "chase", 3);
        write_tags(&old, &["before".to_owned()]).unwrap();
        let of = |word: &str| named(Path::new(word), root.path());
        assert_eq!(of("last").unwrap(), new, "a run within a run is part of it");
        assert_eq!(of("last~1").unwrap(), old);
        assert_eq!(of("before").unwrap(), old);
        assert_eq!(of(&new.name()).unwrap(), new);
        assert_eq!(of(old.path().to_str().unwrap()).unwrap(), old);
        for none in ["last~2", "after", "last~x", "last~"] {
            assert!(matches!(of(none), Err(StoreError::NoSuchRun { .. })), "{none}");
        }
        // The copy without names has the time of its run.
        let copy = RunDir::create(root.path(), "zz-scrubbed").unwrap();
        let mut manifest = new.read_manifest().unwrap();
        manifest.scrubbed = Some(json!({}));
        copy.write_manifest(&manifest).unwrap();
        assert_eq!((of("last").unwrap(), of("last~1").unwrap()), (new, copy));
        assert!(matches!(of("../last"), Err(StoreError::Io { .. })), "a path is no name");
    }
}
