//! Process images: how they end, what they become, whom they start, and what keeps them from being recorded.

mod recording;

use quaver_abi::sync::SyncKind;
use quaver_sync_store::SyncEnding;
use recording::{Recording, Trap, recorder};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Status as a shell tells it: 128 and the signal.
fn status(output: &std::process::Output) -> i32 {
    output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap())
}

fn signals(recording: &Recording) -> u64 {
    assert!(recording.is_whole());
    recording.count(SyncKind::SignalEntry)
}

#[test]
fn no_end_loses_what_was_written() {
    for (how, code, ended) in [
        ("exit", 0, SyncEnding::Exit),
        ("main", 0, SyncEnding::Exit),
        ("_exit", 3, SyncEnding::ImmediateExit),
        ("raw", 4, SyncEnding::Unsaid),
        ("segv", 128 + libc_number("SEGV"), SyncEnding::Unsaid),
        ("abort", 128 + libc_number("ABRT"), SyncEnding::Unsaid),
        ("kill", 128 + libc_number("KILL"), SyncEnding::Unsaid),
    ] {
        let trap = Trap::traps();
        let output = trap.run(&format!("ends 700 {how}"));
        assert_eq!(status(&output), code, "{how}: {output:?}");
        let recording = trap.only();
        assert_eq!((signals(&recording), recording.segment.facts().ended), (1400, ended), "{how}");
    }
}

fn libc_number(name: &str) -> i32 {
    match name {
        "ABRT" => 6,
        "KILL" => 9,
        _ => 11,
    }
}

#[test]
fn forks_have_files_of_their_own() {
    let trap = Trap::traps();
    let output = trap.run("forks 100");
    assert_eq!((status(&output), output.stderr.as_slice()), (0, b"".as_slice()));
    let own = trap.of_program();
    let mut counts: Vec<(u64, SyncEnding)> =
        own.iter().map(|recording| (signals(recording), recording.segment.facts().ended)).collect();
    counts.sort_by_key(|count| count.0);
    // By `fork`, by a raw clone, and the parent, whose children by `vfork` ended nothing of its.
    assert_eq!(counts, [(300, SyncEnding::Exit), (300, SyncEnding::Exit), (400, SyncEnding::Exit)]);
    let others = trap.recordings().len() - own.len();
    assert_eq!(others, 1, "/bin/true, by vfork and exec");
}

#[test]
fn an_exec_begins_another_file() {
    let trap = Trap::traps();
    assert_eq!(status(&trap.run("exec 10")), 0);
    let images = trap.recordings();
    assert_eq!(images.len(), 2);
    let facts: Vec<_> = images.iter().map(|image| image.segment.facts()).collect();
    assert_eq!((facts[0].pid, facts[0].start_ticks), (facts[1].pid, facts[1].start_ticks));
    assert_eq!((facts[0].exec_number, facts[1].exec_number), (0, 1));
    assert_eq!((facts[0].ended, facts[1].ended), (SyncEnding::Unsaid, SyncEnding::Exit));
    assert_eq!((signals(&images[0]), signals(&images[1])), (10, 10));
    assert_eq!((images[0].counts().free_locks, images[1].counts().free_locks), (1, 81));
}

#[test]
fn wrappers_do_not_overwrite() {
    let trap = Trap::traps();
    for wrapper in [&["timeout", "60"][..], &["env"], &["sh", "-c", "\"$0\" \"$@\"; exit $?"]] {
        let status = trap
            .recorded(Path::new(wrapper[0]))
            .args(&wrapper[1..])
            .arg(&trap.program)
            .args(["quiet", "7"])
            .status()
            .unwrap();
        assert!(status.success(), "{wrapper:?}");
    }
    let own = trap.of_program();
    assert_eq!(own.iter().map(signals).collect::<Vec<_>>(), [7, 7, 7]);
}

#[test]
fn descriptors_that_the_program_closes_do_not_matter() {
    let (_, recording) = Trap::traps().record("closes 3000");
    assert_eq!((signals(&recording), recording.locks()), (6000, 3001));
}

#[test]
fn locked_memory_is_what_is_used() {
    let trap = Trap::traps();
    let (_, recording) = trap.record("locked 100");
    assert_eq!(signals(&recording), 100);
    let path = recording.segment.path().to_owned();
    let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&path).unwrap());
    assert!(blocks * 512 <= 16 << 20, "{blocks} blocks");
    quaver_sync_store::trim(&path).unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() <= 16 << 20);
    assert_eq!(signals(&trap.only()), 100);
}

#[test]
fn what_finds_no_room_is_counted() {
    let trap = Trap::traps();
    let output = trap
        .recorded(&trap.program)
        .env("QUAVER_SYNC_MAX_MIB", "1")
        .args(["ends", "30000", "exit"])
        .output()
        .unwrap();
    assert_eq!(status(&output), 0);
    let recording = trap.only();
    let facts = recording.segment.facts();
    let is_call = |kind: Option<SyncKind>| kind.is_none_or(SyncKind::is_call);
    let kept = recording.moments.iter().filter(|m| is_call(m.record.kind())).count() as u64;
    // 60,000 signals; creation and join; start and end of two threads. All with two events but the last.
    assert_eq!(kept + facts.records_lost, 120_000 + 4 + 4);
    assert!(facts.records_lost > 80_000 && kept > 20_000, "{facts:?}");
}

#[test]
fn a_program_that_cannot_be_recorded_runs() {
    let trap = Trap::traps();
    let gone = trap.recordings.path().join("gone");
    for (directory, reason) in [(gone.as_path(), "no such directory"), (&trap.program, "not a directory")] {
        let output = trap
            .recorded(&trap.program)
            .env("QUAVER_SYNC_DIR", directory)
            .args(["quiet", "3"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(status(&output), 0);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("quaver: process ") && said.contains("runs unrecorded"), "{said}");
        assert!(said.contains(reason), "{said}");
    }
    assert_eq!(trap.recordings().len(), 0);
}

#[test]
fn without_the_variable_nothing_is_recorded() {
    let trap = Trap::traps();
    for mode in ["quiet 50", "turns 50", "many 50", "cancelled", "forks 5", "ends 5 exit"] {
        let output = Command::new(&trap.program)
            .args(mode.split_whitespace())
            .env("LD_PRELOAD", recorder())
            .env_remove("QUAVER_SYNC_DIR")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!((status(&output), output.stderr.as_slice()), (0, b"".as_slice()), "{mode}");
    }
    assert_eq!(std::fs::read_dir(trap.recordings.path()).unwrap().count(), 0);
}

#[test]
fn a_static_program_leaves_no_recording() {
    let trap = Trap::new("traps.c", &["-static"]);
    let output = trap.run("quiet 5");
    assert_eq!((status(&output), output.stderr.as_slice()), (0, b"".as_slice()));
    assert_eq!(trap.recordings().len(), 0);
}

#[test]
fn a_program_without_threads_is_silent() {
    let trap = Trap::traps();
    let status = trap.recorded(Path::new("/bin/true")).status().unwrap();
    assert!(status.success());
    let recording = trap.only();
    assert!(recording.segment.is_silent().unwrap());
    let maps = recording.segment.path().with_extension("maps");
    assert!(std::fs::read_to_string(maps).unwrap().contains("libquaver_preload.so"));
}
