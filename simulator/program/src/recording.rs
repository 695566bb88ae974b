//! Reading what a run of `quaver sync` recorded, to inject it.

use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_sim::inject::{Recording, RecordingFacts};
use quaver_store::run::RunDir;
use quaver_sync_analysis::sync::{Settings, SyncEvent, SyncResults, ThreadId};
use quaver_sync_store::{PackedReader, SyncThread, facts_path};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A recording, and what is to be said of it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The run.
    pub path: PathBuf,
    /// The recorded program and its arguments.
    pub program: Vec<String>,
    /// What is injected.
    pub recording: Arc<Recording>,
    /// Records that found no room.
    pub records_lost: u64,
    /// CPUs that the program had; none where they are not known.
    pub cpus: Option<u32>,
}

/// What the summary of such a run says, as far as it is needed here.
#[derive(serde::Deserialize)]
struct Summary {
    results: SyncResults,
}

/// Reads the lateness of the process image with the most events, in a run that is named.
///
/// # Errors
/// It is no run of `quaver sync`, was not analysed, or no operation ended in it (status 5).
pub(super) fn read(run: &Path) -> anyhow::Result<Recorded> {
    let refused = |what: String| failure(ExitCode::BadInput, format!("{}: {what}", run.display()));
    let kept = quaver_store::listing::open(run)?;
    let manifest = kept.read_manifest()?;
    let verb = manifest.verb;
    if verb != "sync" {
        return Err(refused(format!(
            "a run of quaver {verb}; lateness is injected from runs of quaver sync"
        )));
    }
    let summary: Summary = kept.read_summary().map_err(|error| {
        refused(format!("no results of quaver sync ({error}); quaver analyze {} makes them", run.display()))
    })?;
    let mut best: Option<(PathBuf, PackedReader)> = None;
    for path in packed(&kept)? {
        let table = PackedReader::open(&path).map_err(|error| refused(error.to_string()))?;
        if best.as_ref().is_none_or(|(_, best)| best.events() < table.events()) {
            best = Some((path, table));
        }
    }
    let Some((path, table)) = best else {
        return Err(refused("there is no recording of a program in it; record it again".to_owned()));
    };
    let settings = summary.results.settings;
    let facts = RecordingFacts {
        run: kept.name().to_owned(),
        sha256: sha256(&path).map_err(|error| refused(error.to_string()))?,
        threshold_ns: settings.threshold_ns,
    };
    let recording = of_table(&table, settings, facts).map_err(|error| refused(error.to_string()))?;
    if recording.is_empty() {
        let what = "no thread of it woke or waited for another in the thread library, so there is no lateness to inject";
        return Err(refused(what.to_owned()));
    }
    Ok(Recorded {
        path: kept.path().to_owned(),
        program: serde_json::from_value(manifest.asked["facts"]["program"].clone()).unwrap_or_default(),
        recording: Arc::new(recording),
        records_lost: table.facts().records_lost,
        cpus: summary.results.oversubscription.cpus,
    })
}

/// Recordings of a run, in the order of their names.
fn packed(run: &RunDir) -> anyhow::Result<Vec<PathBuf>> {
    let directory = run.path().join("sync");
    let listed = std::fs::read_dir(&directory)
        .map_err(|error| failure(ExitCode::BadInput, format!("listing {}: {error}", directory.display())))?;
    let mut found = Vec::new();
    for entry in listed {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") && facts_path(&path).is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Of the table and its facts.
fn sha256(path: &Path) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    for path in [path, &facts_path(path)] {
        std::io::copy(&mut std::fs::File::open(path)?, &mut hash)?;
    }
    Ok(hash.finalize().iter().map(|octet| format!("{octet:02x}")).collect())
}

/// Numbers of threads as traces have them: the first is 0, the n-th that was created is n. Threads whose creation was not seen come
/// behind all others.
fn numbers(threads: &[SyncThread]) -> Vec<u32> {
    let created = threads.iter().map(|thread| thread.creation).max().unwrap_or(0);
    let mut unseen = created;
    let number = |thread: &SyncThread| match thread.creation {
        _ if thread.initial => 0,
        0 => {
            unseen = unseen.saturating_add(1);
            unseen
        }
        creation => creation,
    };
    threads.iter().map(number).collect()
}

fn of_table(table: &PackedReader, settings: Settings, facts: RecordingFacts) -> anyhow::Result<Recording> {
    let numbers = numbers(table.threads());
    let mut builder = Recording::builder(settings);
    table.for_each(|moment| {
        let event = SyncEvent::from_record(&moment.record, moment.at_ns, ThreadId(moment.tid), 0);
        if let (Some(event), Some(number)) = (event, numbers.get(moment.thread as usize)) {
            builder.event(&event, *number);
        }
    })?;
    Ok(builder.finish(facts))
}

/// The recording that a configuration names.
///
/// # Errors
/// It is another one (status 5).
pub(super) fn named<'a>(
    named: &RecordingFacts,
    read: Option<&'a Arc<Recording>>,
) -> anyhow::Result<&'a Arc<Recording>> {
    read.filter(|recording| recording.facts.sha256 == named.sha256).ok_or_else(|| {
        let message = format!("the recording {} is not there any more as it was read first", named.run);
        failure(ExitCode::BadInput, message)
    })
}

/// Whether each thread of a trace has one of the recording.
///
/// # Errors
/// It has not (status 5).
pub(super) fn fits(recording: &Recording, threads: u32) -> anyhow::Result<()> {
    if recording.threads >= threads {
        return Ok(());
    }
    let message = format!(
        "the trace has {threads} threads and {} has {}: thread n has the lateness of thread n, counted as they were \
         created; record the program with at least as many threads",
        recording.facts.run, recording.threads
    );
    Err(failure(ExitCode::BadInput, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_numbered_as_they_were_created() {
        let thread = |creation, initial| SyncThread { creation, initial, ..SyncThread::default() };
        let threads =
            [thread(0, true), thread(2, false), thread(1, false), thread(0, false), thread(0, false)];
        assert_eq!(numbers(&threads), [0, 2, 1, 3, 4]);
    }
}
