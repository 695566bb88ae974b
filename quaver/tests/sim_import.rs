//! `quaver sim import`: files and standard input become a trace, and what is none is refused with its place and status 5.

mod simulator;

use quaver_testbed::refusal::{self, Answer, Call};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn import(arguments: &[&str], place: &Path, input: &[u8]) -> Output {
    simulator::build_simulator();
    let mut child = Command::new(env!("CARGO_BIN_EXE_quaver"))
        .args(["sim", "import"])
        .args(arguments)
        .current_dir(place)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8(octets.to_vec()).unwrap()
}

const LACKEY: &[u8] = b"==7== Lackey\nI  04001090,3\n L 1fff000118,8\nI  04001093,2\n";

#[test]
fn standard_input_becomes_a_trace_that_runs() {
    let place = tempfile::tempdir().unwrap();
    let done = import(&["--from", "lackey", "-o", "a.qtrace", "-"], place.path(), LACKEY);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let page = text(&done.stdout);
    let first = "a.qtrace: 1 thread, 2 instructions, 1 access, 0 synchronization operations\n";
    assert!(page.starts_with(first), "{page}");
    assert!(page.contains("It cannot say\n  threads: what several did is in one\n"), "{page}");
    let whole = std::fs::read(place.path().join("a.qtrace")).unwrap();
    assert!(whole.starts_with(b"QTRACE\r\n"));
    let piped = import(&["--from", "lackey", "-o", "-", "-"], place.path(), LACKEY);
    assert_eq!((piped.status.code(), piped.stdout), (Some(0), whole));
}

#[test]
fn a_directory_stands_for_the_files_of_the_format() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::write(run.join("sigil.events.out-1"), "@ 1,0,1,0 * 0x10 0x17\n^ 3^0x5\n^ 4^0x5\n").unwrap();
    std::fs::write(run.join("sigil.events.out-2"), "@ 2,0,0,1 $ 0x10 0x17\n").unwrap();
    std::fs::write(run.join("sigil.pthread.out"), "##5,2\n").unwrap();
    std::fs::write(run.join("notes.txt"), "nothing").unwrap();
    let done = import(&["--from", "synchrotrace", "-o", "a.qtrace", "--json", "run"], place.path(), b"");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told["schema"], "quaver.sim-import/1");
    let counts =
        ["threads", "instructions", "accesses", "sync_steps"].map(|name| told[name].as_u64().unwrap());
    assert_eq!(counts, [2, 5, 2, 2]);
    let octets = std::fs::metadata(place.path().join("a.qtrace")).unwrap().len();
    assert_eq!(told["octets"], octets);
}

#[test]
fn what_is_no_trace_is_refused_with_its_place_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("x"), "hello, world").unwrap();
    std::fs::create_dir(place.path().join("empty")).unwrap();
    for (arguments, status, said) in [
        (
            vec!["--from", "drmemtrace", "-o", "a", "x"],
            5,
            "import from drmemtrace: x, byte 0: it does not begin",
        ),
        (
            vec!["--from", "champsim", "-o", "a", "x"],
            5,
            "import from champsim: x, byte 0: it ends in the middle",
        ),
        (
            vec!["--from", "synchrotrace", "-o", "a", "x"],
            5,
            "files of SynchroTrace are named sigil.events.out-1",
        ),
        (
            vec!["--from", "lackey", "-o", "a", "x"],
            5,
            "import from lackey: x, line 1: it is no line of lackey's",
        ),
        (vec!["--from", "lackey", "-o", "a", "nowhere"], 5, "open nowhere: No such file"),
        (
            vec!["--from", "drmemtrace", "-o", "a", "empty"],
            5,
            "there is nothing of the format in the directory empty",
        ),
        (vec!["--from", "lackey", "-o", "no/where", "x"], 6, "writing no/where: No such file"),
        (
            vec!["--from", "pin", "-o", "a", "x"],
            2,
            "possible values: drmemtrace, champsim, synchrotrace, lackey",
        ),
        (vec!["--from", "lackey", "x"], 2, "--output <FILE>"),
    ] {
        let done = import(&arguments, place.path(), b"");
        let message = text(&done.stderr);
        assert_eq!(done.status.code(), Some(status), "{arguments:?}: {message}");
        assert!(message.contains(said), "{message}: {said}");
        assert!(!place.path().join("a").exists() && !place.path().join("a.part").exists());
    }
}

#[test]
fn an_import_has_given_up_rights_before_it_opens_what_others_wrote() {
    simulator::build_simulator();
    let place = tempfile::tempdir().unwrap();
    let (input, other) = (place.path().join("in/trace"), place.path().join("other"));
    std::fs::create_dir(place.path().join("in")).unwrap();
    std::fs::create_dir(place.path().join("out")).unwrap();
    for path in [&input, &other] {
        std::fs::write(path, LACKEY).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command
        .args(["sim", "import", "--from", "lackey", "-o"])
        .arg(place.path().join("out/a.qtrace"))
        .arg(&input);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (noted, waited, swapped) = (seen.clone(), input.clone(), other.clone());
    let judge = move |call: &Call| {
        // The rule that permits it needs it, too (O_PATH).
        let read = call.arguments[2] as i32 & libc::O_PATH == 0;
        if read && call.text(1).is_some_and(|name| Path::new(&name) == waited) {
            let status = std::fs::read_to_string(format!("/proc/{}/status", call.thread)).unwrap();
            noted.lock().unwrap().push(status);
            // From here on the name leads elsewhere.
            std::fs::remove_file(&waited).unwrap();
            std::os::unix::fs::symlink(&swapped, &waited).unwrap();
        }
        Answer::GoOn
    };
    let output = refusal::start(&mut command, &[libc::SYS_openat], judge).unwrap().output().unwrap();
    let seen = seen.lock().unwrap();
    let [status] = &seen[..] else { panic!("it is opened once: {seen:?}") };
    assert!(status.contains("\nNoNewPrivs:\t1\n") && !status.contains("\nSeccomp_filters:\t1\n"), "{status}");
    let said = text(&output.stderr);
    assert!(output.status.code() != Some(0) && said.contains("ermission denied"), "{said}");
}
