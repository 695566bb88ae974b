//! Each kind of runs, and the exports that `docs/formats.md` says it has.

use super::sim_made::spinning;
use super::{done, drawn_by_gnuplot, perfetto, python, quaver, simulator, sync_run, text};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// A run of `quaver probe` against a server of our own.
fn probe(runs: &Path) {
    let words = ["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0"];
    let mut server =
        quaver(runs, &words).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
    let mut said = BufReader::new(server.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("listening on 127.0.0.1:") {
        line.clear();
        assert!(said.read_line(&mut line).expect("it says its port") > 0, "it ended before it listened");
    }
    let digits = line.split("listening on 127.0.0.1:").nth(1).expect("just found");
    let port: String = digits.chars().take_while(char::is_ascii_digit).collect();
    // The rest is read to the end, so that the server can always write.
    let reader = std::thread::spawn(move || said.read_to_string(&mut String::new()));
    let probed = quaver(runs, &["probe", "127.0.0.1", "--port", &port, "--for", "1s", "--quiet"]).output();
    server.kill().expect("it runs");
    server.wait().expect("it ended");
    let _ = reader.join();
    let probed = probed.expect("starts");
    assert_eq!(probed.status.code(), Some(0), "{}", String::from_utf8_lossy(&probed.stderr));
}

/// Makes a run of a kind.
pub(super) fn measure(runs: &Path, verb: &str) {
    match verb {
        "probe" => probe(runs),
        "noise" => {
            done(runs, &["noise", "--for", "1s", "--tier", "user", "--json"]);
        }
        "sync bench" => {
            let words = ["sync", "bench", "--command", "true", "-r", "3", "-q"];
            let recorder = sync_run::recorder_directory();
            let output = quaver(runs, &words).env("QUAVER_LIBDIR", recorder).output().expect("starts");
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
        "sim sweep" => {
            simulator::build_simulator();
            spinning(&runs.join("spin.qtrace"), 100);
            let plan =
                "[sweep]\ntraces = ['spin.qtrace']\n[[axis]]\nkey = 'machine.l2.kib'\nvalues = [128, 256]\n";
            let file = runs.join("sweep.toml");
            std::fs::write(&file, plan).expect("written");
            done(runs, &["sim", "sweep", "run", file.to_str().expect("a path"), "-q"]);
        }
        "sim paper" => {
            simulator::build_simulator();
            let words = "sim paper --quick --programs barnes,fmm --seeds 1 --length 1us --no-tracing --only table6 -q";
            done(runs, &words.split(' ').collect::<Vec<_>>());
        }
        _ => {
            let stream = "chase --for 1s --period 1ms --pace sleep --receive block --lab loopback --tier user --quiet --no-cost";
            done(runs, &stream.split(' ').collect::<Vec<_>>());
        }
    }
}

/// The rows of the table of exports: a kind of runs, and by option whether it has the export.
fn documented() -> Vec<(String, Vec<(String, bool)>)> {
    let page = include_str!("../../../docs/formats.md");
    let (_, section) = page.split_once("\n## Exported files\n").expect("the page has a section");
    let table =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut rows = table
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
    let heads = rows.next().expect("a heading");
    let row = |cells: Vec<String>| {
        let named = heads
            .iter()
            .zip(&cells)
            .skip(1)
            .map(|(head, cell)| (head.trim_matches('`').to_owned(), cell != "-"));
        (cells[0].clone(), named.collect())
    };
    rows.skip(1).map(row).collect()
}

/// Kinds that are made here, with a table of theirs.
const KINDS: [(&str, &str); 6] = [
    ("noise", "gaps"),
    ("chase", "samples"),
    ("probe", "samples"),
    ("sync bench", "numbers"),
    ("sim sweep", "points"),
    ("sim paper", "numbers"),
];

/// What the last run timed, nanoseconds, by its own files; nothing of kinds that keep samples.
fn timed(runs: &Path, verb: &str) -> Vec<i64> {
    let run = quaver_store::listing::named(Path::new("last"), runs).expect("just made");
    let summary: Value = run.read_summary().expect("written");
    let number = |value: &Value| value.as_i64().expect("a number");
    let mut all: Vec<i64> = match verb {
        "sync bench" => {
            let pairs = summary["programs"][0]["pairs_ns"].as_array().expect("pairs").iter();
            pairs.flat_map(|pair| [number(&pair[0]), number(&pair[1])]).collect()
        }
        "sim sweep" => {
            let points = summary["points"].as_array().expect("points").iter();
            let simulated = points.map(|point| number(&point["figures"]["duration_fs"]) / 1_000_000);
            // And how long each took to simulate, which the log has.
            simulated.clone().chain(simulated).collect()
        }
        "sim paper" => {
            let text = std::fs::read_to_string(run.path().join("points.jsonl")).expect("written");
            text.lines().map(|_| 0).collect()
        }
        _ => Vec::new(),
    };
    all.sort_unstable();
    all
}

/// Samples in all histograms of the last run's log, as HdrHistogram's package of Python counts them.
fn in_histograms(runs: &Path) -> u64 {
    const SCRIPT: &str = "import sys
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
log, count = HistogramLogReader(sys.argv[1], HdrHistogram(1, 3600 * 10**9, 3)), 0
while (one := log.get_next_interval_histogram()) is not None:
    count += one.get_total_count()
print(count)";
    let file = runs.join("histograms.hlog");
    done(runs, &["export", "last", "--hdr", "-o", file.to_str().expect("a path")]);
    let counted = Command::new(python()).args(["-c", SCRIPT]).arg(&file).output().expect("starts");
    text(&counted).trim().parse().unwrap_or_else(|_| panic!("{counted:?}"))
}

#[test]
fn each_export_is_there_or_refused_as_the_table_says() {
    let table = documented();
    assert_eq!(table.len(), 13, "kinds of runs");
    for (verb, own_table) in KINDS {
        let place = tempfile::tempdir().expect("a directory");
        measure(place.path(), verb);
        let (_, cells) = table.iter().find(|(kinds, _)| kinds.starts_with(verb)).expect("documented");
        for (option, there) in cells {
            let given: &[&str] = match option.as_str() {
                "--csv" => &[own_table],
                "--json-lines" => &["numbers"],
                _ => &[],
            };
            let target = place.path().join("out");
            let words =
                [&["export", "last", option], given, &["-o", target.to_str().expect("a path")]].concat();
            let output = quaver(place.path(), &words).output().expect("starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(if *there { 0 } else { 2 }), "{verb} {option}: {said}");
            assert_eq!(target.exists(), *there, "{verb} {option}");
            if target.is_dir() {
                std::fs::remove_dir_all(&target).expect("ours");
            } else if *there {
                assert!(std::fs::metadata(&target).expect("written").len() > 0);
                if option == "--gnuplot" {
                    drawn_by_gnuplot(&target, place.path());
                }
                std::fs::remove_file(&target).expect("ours");
            }
        }
        let expected = timed(place.path(), verb);
        if !expected.is_empty() {
            assert_eq!(in_histograms(place.path()), expected.len() as u64, "{verb}");
        }
    }
}

#[test]
fn runs_of_a_bench_are_slices_of_perfettos_as_long_as_they_took() {
    let place = tempfile::tempdir().expect("a directory");
    measure(place.path(), "sync bench");
    let trace = place.path().join("trace");
    done(place.path(), &["export", "last", "--perfetto", "-o", trace.to_str().expect("a path")]);
    let found = perfetto(&trace, &["SELECT name, ts, dur FROM slice ORDER BY dur"]);
    let durations: Vec<i64> = found[0].iter().map(|row| row["dur"].as_i64().expect("a number")).collect();
    assert_eq!(durations, timed(place.path(), "sync bench"));
    // Of a pair, one begins when the other has ended.
    let mut runs: Vec<[i64; 2]> =
        found[0].iter().map(|row| ["ts", "dur"].map(|name| row[name].as_i64().expect("a number"))).collect();
    runs.sort_unstable();
    assert!(runs.windows(2).all(|pair| pair[0][0] + pair[0][1] <= pair[1][0]), "{runs:?}");
}
