//! The command line from outside: help, refusals, exit codes, output that cannot be written.

mod narrow;
mod simulator;

use std::fs::File;
use std::process::{Command, Output, Stdio};

fn quaver(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(args).env("COLUMNS", "100").env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    quaver(args).output().expect("the program was built for this test")
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails with code 2 and says `words`.
#[track_caller]
fn refused(args: &[&str], words: &str) {
    let output = run(args);
    assert_eq!(code(&output), Some(2), "{args:?}: {}", stderr(&output));
    assert!(stderr(&output).contains(words), "{args:?}: {}", stderr(&output));
    assert!(output.stdout.is_empty(), "{args:?} printed to standard output");
}

#[test]
fn help_of_every_verb() {
    simulator::build_simulator();
    trycmd::TestCases::new().case("tests/cmd/*.toml");
}

#[test]
fn quantities_need_known_units_and_sensible_values() {
    refused(&["chase", "--period", "3fortnights"], "unknown unit `fortnights`");
    refused(&["chase", "--period", "7.41"], "`7.41` has no unit");
    refused(&["chase", "--for", "10"], "`10` has no unit");
    refused(&["source", "127.0.0.1:9", "--rate", "135000"], "has no unit");
    refused(&["source", "127.0.0.1:9", "--rate", "100Gbit/s"], "out of reach");
    refused(&["source", "127.0.0.1:9", "--period", "1ns"], "out of reach");
    refused(&["probe", ""], "a value is required for '[HOST[:PORT]]'");
    refused(&["probe", "127.0.0.1", "--port", "0"], "0 is not in 1..");
    refused(&["serve", "--max-rate", "0"], "0 is not in 1..");
    refused(&["source", "nowhere"], "name a host and a port, HOST:PORT");
    refused(&["source", "127.0.0.1:0"], "nothing listens on port 0: give a port from 1 to 65535");
    refused(&["chase", "--listen", "70000"], "a port is a number up to 65535");
    refused(&["probe", "127.0.0.1:70000"], "127.0.0.1:70000: a port is a number from 1 to 65535");
    refused(&["chase", "--pid", "receiver"], "give a whole number without a sign");
    refused(&["source", "127.0.0.1:9", "--cpu", "4000"], "--cpu 4000: this process may use CPUs");
    refused(&["chase", "--fail-if", "lateness.packets"], "has no operator");
    refused(&["export", "runs/x"], "--perfetto|--late-csv");
}

#[test]
fn a_missing_interface_is_named_with_those_that_are_there() {
    for args in [&["source", "239.1.1.1:9"][..], &["sink", "239.1.1.1:9"], &["sink", "[ff02::1]:9"]] {
        let mut args = args.to_vec();
        args.extend(["--interface", "quaver-none"]);
        refused(&args, "--interface quaver-none: there is no such interface here; there are ");
    }
    refused(&["source", "127.0.0.1:9", "--interface", "lo"], "127.0.0.1 is no multicast address");
}

#[test]
fn what_this_machine_lacks_ends_with_3_and_the_remedy() {
    // The loopback interface has no queueing discipline that keeps times.
    let output = run(&["source", "127.0.0.1:9", "--period", "1ms", "--count", "1", "--pace", "txtime"]);
    assert_eq!(code(&output), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("install fq"), "{}", stderr(&output));
}

#[test]
fn nothing_to_receive_ends_with_4() {
    let runs = tempfile::tempdir().unwrap();
    let output = quaver(&["sink", "127.0.0.1:0", "--for", "200ms", "-o"]).arg(runs.path()).output().unwrap();
    assert_eq!(code(&output), Some(4), "{}", stderr(&output));
    assert!(stderr(&output).contains("no packet came to 127.0.0.1:0"), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(runs.path()).unwrap().count(), 0, "no run is left of nothing");
}

#[test]
fn an_output_directory_that_cannot_be_made_ends_with_6() {
    let args =
        ["chase", "--for", "100ms", "--period", "1ms", "--lab", "loopback", "-o", "/proc/version/runs"];
    let output = run(&args);
    assert_eq!(code(&output), Some(6), "{}", stderr(&output));
    assert!(stderr(&output).contains("/proc/version/runs"), "{}", stderr(&output));
}

#[test]
fn a_full_device_behind_standard_output_ends_with_6() {
    for args in [&["doctor"][..], &["doctor", "--json"], &["completions", "bash"], &["man"], &["--help"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = quaver(args).stdout(full).output().unwrap();
        assert_eq!(code(&output), Some(6), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("writing to standard output: "), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_path_that_leads_nowhere_is_named_with_the_remedy() {
    for (args, status) in [
        (&["tune", "apply", "/nowhere/profile"][..], 5),
        (&["capture", "-i", "lo", "-o", "/nowhere/x.pcapng", "--for", "1s"], 6),
    ] {
        let output = run(args);
        let said = stderr(&output);
        assert_eq!(code(&output), Some(status), "{args:?}: {said}");
        assert!(
            said.contains("/nowhere/") && said.trim_end().ends_with("; check the path"),
            "{args:?}: {said}"
        );
    }
}

#[test]
fn what_is_no_file_is_bad_input_with_a_remedy() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    std::fs::create_dir(at("directory")).unwrap();
    std::os::unix::fs::symlink("loop", at("loop")).unwrap();
    std::fs::write(at("empty"), "").unwrap();
    let through_a_file = at("empty/x");
    for file in [&at("directory"), &at("loop"), &through_a_file] {
        for verb in [
            &["serve", "--port", "0", "--test-port", "0", "--key-file"][..],
            &["probe", "127.0.0.1", "--port", "9", "--key-file"],
            &["study", "run", "--lab", "loopback"],
            &["jitlat", "-f"],
        ] {
            let output = run(&[verb, &[file]].concat());
            assert_eq!(code(&output), Some(5), "{verb:?} {file}: {}", stderr(&output));
            assert!(stderr(&output).ends_with("; check the path\n"), "{verb:?} {file}: {}", stderr(&output));
        }
    }
    let output = run(&["analyze", &through_a_file]);
    assert_eq!(code(&output), Some(5), "{}", stderr(&output));
    for verb in [&["analyze"][..], &["runs", "--root"]] {
        let output = run(&[verb, &["/"]].concat());
        assert_eq!(code(&output), Some(5), "{verb:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("list /: it is no place of runs"), "{verb:?}: {}", stderr(&output));
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    for args in [&["doctor"][..], &["completions", "zsh"], &["man"], &["chase", "--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = quaver(args).stdout(writer).output().unwrap();
        assert_eq!((code(&output), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn completions_for_every_shell_know_the_verbs() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("chase") && script.contains("late-csv"), "{shell}: {script}");
    }
    refused(&["completions", "tcl"], "invalid value 'tcl'");
}

#[test]
fn manual_pages_of_the_program_and_its_verbs() {
    let output = run(&["man"]);
    let pages = String::from_utf8(output.stdout).unwrap();
    for name in ["quaver 1", "quaver-chase 1", "quaver-export 1"] {
        assert!(pages.contains(&format!(".TH {name}")), "{name}");
    }
    let place = tempfile::tempdir().unwrap();
    assert_eq!(quaver(&["man", "-o"]).arg(place.path()).status().unwrap().code(), Some(0));
    assert!(place.path().join("quaver-chase.1").is_file() && place.path().join("quaver.1").is_file());
}

#[test]
fn what_is_no_terminal_gets_no_colour() {
    let output = quaver(&["doctor"]).env("NO_COLOR", "1").output().unwrap();
    assert!(!output.stdout.contains(&0x1b));
    assert!(!run(&["doctor"]).stdout.contains(&0x1b));
}

#[test]
fn the_source_reports_its_schedule_as_json() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap().to_string();
    let output = run(&["source", &address, "--period", "1ms", "--count", "50", "--pace", "sleep", "--json"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let achieved: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(achieved["schema"], "quaver.source/1");
    assert_eq!((achieved["packets"].as_u64(), achieved["sent"].as_u64()), (Some(50), Some(50)));
    assert_eq!(achieved["lateness"]["count"], 50);
    assert_eq!(achieved["interrupted"], false);
    receiver.set_nonblocking(true).unwrap();
    let received = (0..).take_while(|_| receiver.recv(&mut [0; 2_000]).is_ok()).count();
    assert_eq!(received, 50);
}
