//! What verbs do when the system fails them, and the document that says it (`docs/faults.md`).

mod confined;
mod elsewhere;
mod links;
mod page;
mod row;
mod rows;

use elsewhere::{ELSEWHERE, EXCUSED};
use quaver_testbed::privileged::privileged;
use row::{Ground, How, Tried, try_it};
use rows::TRIED;
use std::path::Path;
use std::sync::Mutex;

/// Rows that are tried at the same time: most of their time is sleep.
const LANES: usize = 4;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn each_row_is_as_it_says() {
    if !privileged("each_row_is_as_it_says") {
        return;
    }
    let ground = Ground::make();
    let rows = Mutex::new(TRIED.iter().flat_map(|tried| tried.rows));
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let Some(row) = rows.lock().unwrap().next() else { return };
                    wrong.lock().unwrap().extend(row.judge(&ground));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_document_is_what_the_rows_make() {
    let path = root().join("docs/faults.md");
    let made = page::page();
    if std::env::var_os("QUAVER_BLESS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == made, "docs/faults.md differs; QUAVER_BLESS=1 rewrites it");
}

#[test]
fn tests_that_the_document_names_are_there_and_so_are_its_verbs() {
    for shown in ELSEWHERE {
        let text = std::fs::read_to_string(root().join(shown.file)).unwrap_or_default();
        let named = format!("fn {}() {{", shown.test);
        let before = text.split(&named).next().filter(|before| before.len() < text.len());
        let is_test = before.is_some_and(|before| before.trim_end().ends_with("#[test]"));
        assert!(is_test, "{} has no test {}", shown.file, shown.test);
    }
    let verbs = page::verbs();
    for verb in EXCUSED.iter().flat_map(|excused| excused.verbs) {
        assert!(verbs.iter().any(|known| known == verb), "there is no verb {verb}");
    }
}

/// Commands that read a run, and how far apart the writes are at which they are tried: a copy is written block by block, and
/// every fifth is enough.
const READERS: [(&str, usize); 4] = [
    ("analyze {run} --late 1ns", 1),
    ("report {run}", 1),
    ("export {run} --csv samples", 1),
    ("scrub {run} -o out", 5),
];

/// Tries a command with the fault at each of its writes, and judges each.
fn at_each_write(
    ground: &Ground,
    words: &str,
    step: usize,
    how: fn(usize) -> How,
    judge: impl Fn(usize, &Tried),
) {
    for number in (1..).step_by(step) {
        let tried = try_it(ground, words, how(number));
        assert!(!tried.said.contains("panicked"), "{words}, {number}: {}", tried.said);
        if tried.calls < number {
            assert!(number > 2 && tried.status == 0, "{words}, {number}: {}", tried.said);
            return;
        }
        judge(number, &tried);
    }
}

/// Whether the run in a place is as it was, or can still be analysed with what it has.
fn is_readable(ground: &Ground, words: &str, number: usize, tried: &Tried) {
    if tried.spares(ground) {
        return;
    }
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_quaver"));
    let output = command.arg("analyze").arg(tried.place.path().join(ground.name())).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}, {number}: {said}");
}

#[test]
fn at_each_write_a_full_disk_ends_readers_and_spoils_no_run() {
    let ground = Ground::make();
    for (words, step) in READERS {
        at_each_write(&ground, words, step, How::Full, |number, tried| {
            // Behind the last write only a sync or a removal may be left, which needs no space.
            let remedies = ["free some", "choose another place", "name another place"];
            let full = tried.status == 6 && remedies.iter().any(|remedy| tried.said.contains(remedy));
            assert!(full || tried.status == 0, "{words}, {number}: {}: {}", tried.status, tried.said);
            is_readable(&ground, words, number, tried);
        });
    }
}

#[test]
fn killed_at_each_write_readers_spoil_no_run() {
    let ground = Ground::make();
    for (words, step) in READERS {
        at_each_write(&ground, words, step, How::Killed, |number, tried| {
            assert_eq!(tried.status, 137, "{words}, {number}: {}", tried.said);
            is_readable(&ground, words, number, tried);
        });
    }
}

#[test]
fn another_programs_trace_is_left_as_it_is() {
    if !privileged("another_programs_trace_is_left_as_it_is") {
        return;
    }
    // In a mount namespace of its own, where tracefs may be mounted.
    let script = r#"
        mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
        cd /sys/kernel/tracing/instances && mkdir "$2" || exit 9
        trap 'cd /; rmdir "/sys/kernel/tracing/instances/$2"' EXIT
        echo 1 > "$2/events/sched/sched_switch/enable"
        echo 4096 > "$2/buffer_size_kb"
        state() { for i in "$2" ..; do cat "$i/events/sched/sched_switch/enable" "$i/buffer_size_kb" "$i/current_tracer" \
            "$i/tracing_on" "$i/trace_clock" "$i/set_event"; done; ls; }
        before=$(state "$@")
        "$1" noise --for 200ms --tier tracefs -q -o "$3" > /dev/null || exit 8
        after=$(state "$@")
        [ "$before" = "$after" ] || { echo "$before"; echo "$after"; exit 7; }
        grep -q '[1-9]' "$2/per_cpu/cpu0/stats" || exit 6
    "#;
    let runs = tempfile::tempdir().unwrap();
    let name = format!("another-{}", std::process::id());
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_quaver"), &name]);
    let output = command.arg(runs.path()).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&said));
    assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 1);
}
