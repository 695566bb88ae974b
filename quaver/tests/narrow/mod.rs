//! Pages on terminals of 40 columns and more: nothing is wider, and nothing is left out.

use crate::simulator;
use quaver_testbed::terminal;
use rustix::termios::{Winsize, tcsetwinsize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// What a verb writes on a terminal of its own.
fn page(place: &Path, words: &[&str], columns: u16) -> String {
    let (person, program) = terminal::open().unwrap();
    tcsetwinsize(&program, Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let end = || Stdio::from(program.try_clone().unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command
        .args(words)
        .current_dir(place)
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .env_remove("QUAVER_RUNS");
    let mut child = command.stdin(Stdio::null()).stdout(end()).stderr(end()).spawn().unwrap();
    drop((command, program));
    let mut written = Vec::new();
    // A terminal without programs ends with EIO.
    let _ = std::fs::File::from(person).read_to_end(&mut written);
    child.wait().unwrap();
    String::from_utf8(written).unwrap().replace("\r\n", "\n")
}

/// Runs of each kind, files of other tools, and a capture.
fn runs(place: &Path) -> Vec<PathBuf> {
    simulator::build_simulator();
    let kept = Path::new(ROOT).join("quaver/tests/migrate/kept");
    let mut runs = Vec::new();
    for entry in std::fs::read_dir(kept).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), place.join(entry.unwrap().file_name()));
        quaver_testbed::kept::copy(&from, &to);
        runs.push(to);
    }
    page(place, &["sync", "-o", "made", "--", "sleep", "0.01"], 80);
    runs.extend(std::fs::read_dir(place.join("made")).unwrap().map(|run| run.unwrap().path()));
    let peers = Path::new(ROOT).join("instruments/peers/tests/data");
    runs.extend(
        ["cyclictest.json", "irtt.json", "rtla-timerlat-hist.txt", "sockperf.csv"]
            .map(|file| peers.join(file)),
    );
    let capture = place.join("some.pcap");
    // One Ethernet frame with an IPv4 datagram of UDP.
    let frame = b"\0\0\0\0\0\x01\0\0\0\0\0\x02\x08\0E\0\0\x1c\0\0\0\0\x40\x11\0\0\x0a\0\0\x01\x0a\0\0\x02\0\x07\0\x08\0\x08\0\0";
    let mut octets = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    octets.extend([1, 0, frame.len() as u32, frame.len() as u32].map(u32::to_le_bytes).concat());
    octets.extend(frame);
    std::fs::write(&capture, octets).unwrap();
    runs.push(capture);
    runs
}

/// Lines that are wider than the terminal, without those that are to be copied whole: the path of a report.
fn wide(page: &str, columns: u16) -> Vec<&str> {
    let wide = |line: &&str| line.chars().count() > usize::from(columns) && !line.starts_with("Report  ");
    page.lines().filter(wide).collect()
}

#[test]
fn every_page_fits_every_terminal_from_40_columns() {
    let place = tempfile::tempdir().unwrap();
    let runs = runs(place.path());
    let shown = runs.iter().map(|run| run.to_str().unwrap());
    let mut asked: Vec<Vec<&str>> = shown.clone().map(|run| vec!["analyze", run]).collect();
    asked.push(vec!["compare", runs[0].to_str().unwrap(), runs[0].to_str().unwrap()]);
    asked.push(vec!["runs", "--root", "."]);
    asked.push(vec!["tune", "audit", "--no-watch"]);
    asked.push(vec!["doctor"]);
    for words in asked {
        for columns in [40, 57, 80, 132] {
            let page = page(place.path(), &words, columns);
            assert!(page.lines().count() > 3, "{words:?}: {page}");
            let wide = wide(&page, columns);
            assert!(wide.is_empty(), "{words:?} at {columns} columns:\n{}\nin\n{page}", wide.join("\n"));
        }
    }
}

#[test]
fn no_word_of_a_help_is_cut() {
    let words = |page: &str| page.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let place = tempfile::tempdir().unwrap();
    for verb in ["--help", "chase", "watch", "capture", "probe", "cure", "study", "sync", "runs"] {
        let asked = if verb == "--help" { vec![verb] } else { vec![verb, "--help"] };
        let [narrow, wide] = [40, 100].map(|columns| words(&page(place.path(), &asked, columns)));
        assert_eq!(narrow, wide, "{verb}");
    }
}
