//! What each kind of runs is exported to, as `docs/formats.md` has it, and read by programs that are not ours.

mod kinds;
#[path = "../sim_made/mod.rs"]
mod sim_made;
#[path = "../simulator/mod.rs"]
mod simulator;
#[path = "../sync_run/mod.rs"]
mod sync_run;

use kinds::measure;
use quaver_testbed::privileged::{Lack, privileged, skip};
use quaver_view::{
    Axis, BarSeries, Bars, Binned, Chart, Colour, Data, Distribution, DistributionView, Document, Group,
    Lane, Matrix, Numbers, Quantity, Range, Ranges, Section, Series, Span, Timeline, Xy,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Debian's, which has Debian's packages.
const PYTHON: &str = "/usr/bin/python3";

fn quaver(runs: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words).env("QUAVER_RUNS", runs).env_remove("QUAVER_KEY_FILE").stdin(Stdio::null());
    command
}

#[track_caller]
fn done(runs: &Path, words: &[&str]) -> Output {
    let output = quaver(runs, words).output().expect("the program was built for this test");
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// gnuplot says nothing about the script, and makes a PNG of each drawing.
fn drawn_by_gnuplot(script: &Path, place: &Path) {
    let drawn = Command::new("gnuplot").arg(script).current_dir(place).output();
    let drawn = drawn.expect("scripts/setup.sh test installs it");
    let said = String::from_utf8_lossy(&drawn.stderr);
    // Equal values have no range of their own.
    let is_calm = said.lines().all(|line| line.is_empty() || line.starts_with("Warning: empty"));
    assert!(drawn.status.success() && is_calm, "{said}");
    let script = std::fs::read_to_string(script).expect("text");
    let pictures: Vec<&str> =
        script.lines().filter_map(|line| line.strip_prefix("set output '")?.strip_suffix('\'')).collect();
    assert!(!pictures.is_empty());
    for picture in pictures {
        let octets = std::fs::read(place.join(picture)).expect("drawn");
        assert!(octets.starts_with(b"\x89PNG"), "{picture}");
        std::fs::remove_file(place.join(picture)).expect("ours");
    }
}

/// A document with a drawing of each kind, and one that has nothing to draw.
fn every_drawing() -> Document {
    let (x, y) = (Axis::log("delay it's", Quantity::Duration), Axis::linear("packets", Quantity::Count));
    let numbers = || Numbers(vec![1.0, f64::NAN, 3.0]);
    let data = [
        Data::Line { x: numbers(), y: numbers(), marks: true },
        Data::Steps { x: numbers(), y: numbers() },
        Data::Columns { x: numbers(), y: numbers(), width: 1.0 },
        Data::Points { x: numbers(), y: numbers() },
        Data::Rug { x: numbers() },
        Data::Spread { x: numbers(), y: numbers(), low: numbers(), high: numbers() },
        Data::Slices { start: 1.0, step: 2.0, low: numbers(), high: numbers() },
    ];
    let mut xy = Xy::new(x.clone(), y.clone()).guide_x(2.0, "a").guide_y(2.0, "b");
    xy.series = data.into_iter().map(|data| Series::new("series", Colour::Muted, data)).collect();
    let colour = Colour::Muted;
    let binned = Binned {
        name: "bins".into(),
        colour,
        edges: vec![1.0, 2.0, 4.0].into(),
        counts: vec![6.0, 2.0].into(),
        below: 0.0,
        above: 0.0,
    };
    let bars = |stacked| Bars {
        value: y.clone(),
        categories: vec!["a".into(), "b".into(), "c".into()],
        series: vec![BarSeries::new("first", colour, numbers()), BarSeries::new("second", colour, numbers())],
        stacked,
        ..Bars::default()
    };
    let range =
        |at, interval| Range { name: format!("row {at}"), at, interval, colour, words: String::new() };
    let span = Span { start: 5.0, end: 9.0, label: "irq".into(), depth: 1, colour };
    let lane = |name: &str| Lane { name: name.into(), spans: vec![span.clone()], ..Lane::default() };
    let matrix = Matrix {
        rows: vec!["a".into(), "b".into()],
        columns: vec!["c".into(), "d".into()],
        values: vec![1.0, 2.0, f64::NAN, 4.0].into(),
        ..Matrix::default()
    };
    let tail = Distribution {
        x: x.clone(),
        of: "packets".into(),
        views: vec![DistributionView::Tail],
        series: vec![binned],
        guides: Vec::new(),
    };
    let charts = [
        Chart::new("xy", "Series", xy),
        Chart::new("tail-of", "Tail", tail),
        Chart::new("bars", "Bars", bars(false)),
        Chart::new("stacked", "Stacked", bars(true)),
        Chart::new(
            "ranges",
            "Ranges",
            Ranges { value: y, rows: vec![range(1.0, Some((0.5, 2.0))), range(3.0, None)], zero: None },
        ),
        Chart::new("matrix", "Matrix", matrix),
        Chart::new(
            "lanes",
            "Lanes",
            Timeline { span: (0.0, 10.0), lanes: vec![lane("CPU 0"), lane("CPU 1")], ..Timeline::default() },
        ),
        Chart::new("nothing", "Nothing", Xy::default()),
    ];
    let mut document = Document::new("quaver test", "drawings");
    document.section(Section::new("all", "All").with(Group::beside(charts)));
    document
}

#[test]
fn gnuplot_draws_every_kind_of_drawing() {
    let place = tempfile::tempdir().expect("a directory");
    let script = quaver_view::gnuplot(&every_drawing()).expect("there are drawings");
    let drawn: Vec<&str> = script.lines().filter_map(|line| line.strip_prefix("set output ")).collect();
    let names =
        ["xy", "tail-of", "bars", "stacked", "ranges", "matrix", "lanes"].map(|name| format!("'{name}.png'"));
    assert_eq!(drawn, names, "the empty one is left out");
    // The second of two stacked parts ends where both together end, and is drawn first.
    let stacked = script.split("$d_stacked_0 << END\n").nth(1).and_then(|rest| rest.split("END").next());
    assert_eq!(stacked, Some("0 2 0.8\n1 0 0.8\n2 6 0.8\n"));
    assert_eq!(quaver_view::gnuplot(&Document::new("quaver test", "none")), None);
    let file = place.path().join("plots.gp");
    std::fs::write(&file, script).expect("written");
    drawn_by_gnuplot(&file, place.path());
}

/// A thread that waits for another's lock.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *run(void *own)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	return own;
}
int main(void)
{
	pthread_t other;
	pthread_mutex_lock(&lock);
	pthread_create(&other, 0, run, 0);
	usleep(100000);
	pthread_mutex_unlock(&lock);
	return pthread_join(other, 0);
}
"#;

/// Python with the packages that `scripts/setup.sh test` puts aside.
fn python() -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/interop/python-venv.sh");
    let place = text(&Command::new(script).arg("--where").output().expect("it starts"));
    format!("{}/bin/python", place.trim())
}

/// Counts kinds of events in CSV, by pyarrow.
const COUNTED: &str = "import collections, json, sys, pyarrow.csv as csv\n\
    table = csv.read_csv(sys.argv[1])\n\
    print(json.dumps({'kinds': collections.Counter(table['kind_name'].to_pylist()), 'details': sorted(set(table['detail_name'].to_pylist()))}))";

#[test]
fn a_recording_is_a_table_by_its_place() {
    let bench = sync_run::Bench::of_text(PROGRAM, &[]);
    let recorded = bench.run(&["--quiet", "--threshold", "1ns"]);
    assert_eq!(recorded.status.code(), Some(0), "{}", String::from_utf8_lossy(&recorded.stderr));
    let run = bench.last_run();
    let tables = std::fs::read_dir(run.join("sync")).expect("a folder");
    let names = tables.map(|entry| entry.expect("a file").path());
    let table = names.into_iter().find(|path| path.extension().is_some_and(|end| end == "parquet"));
    let name =
        table.as_ref().and_then(|table| table.file_stem()).expect("it is packed").to_str().expect("text");
    let (run, target) = (run.to_str().expect("text"), bench.place().join("events.csv"));
    let place = format!("sync/{name}");
    done(bench.place(), &["export", run, "--csv", &place, "-o", target.to_str().expect("text")]);
    let python = Command::new(python()).args(["-c", COUNTED]).arg(&target).output();
    let found = text(&python.expect("scripts/setup.sh test puts it there"));
    let found: serde_json::Value = serde_json::from_str(&found).expect("pyarrow reads the file");
    for (kind, least) in [("lock-entry", 1), ("lock-exit", 1), ("create", 1), ("thread-start", 2)] {
        assert!(found["kinds"][kind].as_u64() >= Some(least), "{kind}: {found}");
    }
    assert!(found["details"].as_array().expect("a list").contains(&"mutex".into()), "{found}");
    late_waits_are_in_every_export(&bench, run);
    let refused = quaver(bench.place(), &["export", run, "--csv", "sync"]).output().expect("starts");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains(name), "{refused:?}");
}

/// The late waits of a run of `quaver sync`, once as rows and once as a histogram.
fn late_waits_are_in_every_export(bench: &sync_run::Bench, run: &str) {
    let export = |words: &[&str]| text(&done(bench.place(), &[&["export", run, "-o", "-"], words].concat()));
    let mut waits = BTreeSet::new();
    for row in export(&["--json-lines", "waits"]).lines() {
        let row: serde_json::Value = serde_json::from_str(row).expect("an object");
        waits.insert(
            ["thread", "wait_start_ns", "wait_end_ns"].map(|name| row[name].as_u64().expect("a number")),
        );
    }
    assert!(!waits.is_empty());
    let file = bench.place().join("histograms.hlog");
    std::fs::write(&file, export(&["--hdr"])).expect("written");
    let script = "import sys\nfrom hdrh.histogram import HdrHistogram\nfrom hdrh.log import HistogramLogReader\n\
        log = HistogramLogReader(sys.argv[1], HdrHistogram(1, 3600 * 10**9, 3))\nprint(log.get_next_interval_histogram().get_total_count())";
    let counted = Command::new(python()).args(["-c", script]).arg(&file).output().expect("starts");
    assert_eq!(text(&counted).trim(), waits.len().to_string(), "{counted:?}");
    let plots = bench.place().join("plots.gp");
    std::fs::write(&plots, export(&["--gnuplot"])).expect("written");
    drawn_by_gnuplot(&plots, bench.place());
    let numbers = export(&["--csv", "numbers"]);
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(Path::new(run).join("summary.json")).expect("written"))
            .expect("JSON");
    let late = summary["results"]["late"]["total_ns"].to_string();
    assert!(numbers.lines().any(|line| line == format!("results.late.total_ns,{late}")), "{numbers}");
    assert!(!export(&["--openmetrics"]).is_empty());
}

/// What Perfetto's trace processor answers about a trace.
fn perfetto(trace: &Path, queries: &[&str]) -> Vec<Vec<serde_json::Value>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perfetto/ask.py");
    let mut asked = Command::new(python());
    asked.arg(script).arg(trace).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut asked = asked.spawn().expect("scripts/setup.sh test puts it there");
    let queries = serde_json::to_vec(queries).expect("text");
    asked.stdin.take().expect("piped").write_all(&queries).expect("it reads");
    let answer = asked.wait_with_output().expect("it ends");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    serde_json::from_slice(&answer.stdout).expect("JSON")
}

#[test]
fn perfetto_finds_our_thread_states_and_blames_nobody_for_an_interrupt() {
    if !privileged("perfetto_finds_our_thread_states_and_blames_nobody_for_an_interrupt") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let root = place.path();
    // Short: a timeline shows no more than a part of a large run.
    let stream = "chase --for 500ms --period 1ms --pace sleep --receive block --quiet --no-cost --json";
    done(root, &stream.split(' ').collect::<Vec<_>>());
    let trace = root.join("trace");
    done(root, &["export", "last", "--perfetto", "-o", trace.to_str().expect("a path")]);
    let mut intervals = BTreeSet::new();
    let mut wakeups = BTreeMap::new();
    for event in text(&done(root, &["export", "last", "--json-lines", "events", "-o", "-"])).lines() {
        let event: serde_json::Value = serde_json::from_str(event).expect("an object");
        let of = |name: &str| event[name].as_u64().expect("a number");
        let (thread, start, end) = (of("id"), of("start_ns"), of("end_ns"));
        if event["kind_name"] == "thread" && thread != 0 && end > start {
            intervals.insert([of("cpu"), start, end - start, thread]);
        }
        if event["kind_name"] == "wakeup" {
            // From any context but that of a thread.
            wakeups.insert((start, thread), of("aux") >> 16 & 0xf != 1);
        }
    }
    let run = quaver_store::listing::named(Path::new("last"), root).expect("just made");
    let manifest = std::fs::read(run.manifest()).expect("written");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    let sink = manifest["analysis"]["receiver"]["threads"][0].as_u64().expect("a thread");
    let path = "SELECT t.tid, sum(p.dur) AS ns FROM _thread_executing_span_critical_path(\
        (SELECT utid FROM thread WHERE tid = SINK), trace_start(), trace_dur()) AS p \
        JOIN thread AS t USING (utid) GROUP BY t.utid ORDER BY ns DESC";
    let path = path.replace("SINK", &sink.to_string());
    let queries = [
        "SELECT name FROM stats WHERE value > 0 AND severity != 'info'",
        "SELECT cpu, ts, dur, tid FROM thread_state JOIN thread USING (utid) WHERE state = 'Running' AND tid != 0",
        "SELECT ts, tid, irq_context FROM thread_state JOIN thread USING (utid) WHERE irq_context IS NOT NULL",
        "INCLUDE PERFETTO MODULE sched.thread_executing_span",
        &path,
    ];
    let found = perfetto(&trace, &queries);
    assert_eq!(found[0], [] as [serde_json::Value; 0], "it understood all of the trace");
    let number = |row: &serde_json::Value, name: &str| row[name].as_u64().expect("a number");
    let theirs = found[1].iter().map(|row| ["cpu", "ts", "dur", "tid"].map(|name| number(row, name)));
    let mut theirs: BTreeSet<_> = theirs.collect();
    // As far as the timeline has all CPUs: the last interval of each was open when recording ended.
    let mut ends = BTreeMap::new();
    for [cpu, start, ..] in &theirs {
        let (first, last) = ends.entry(*cpu).or_insert((*start, *start));
        (*first, *last) = ((*first).min(*start), (*last).max(*start));
    }
    let first = ends.values().map(|(first, _)| *first).max().expect("threads ran");
    let last = ends.values().map(|(_, last)| *last).min().expect("threads ran");
    intervals.retain(|[_, start, ..]| (first..last).contains(start));
    theirs.retain(|[_, start, ..]| (first..last).contains(start));
    assert!(theirs.len() > 100, "{}", theirs.len());
    let apart: Vec<_> = theirs.symmetric_difference(&intervals).collect();
    assert!(apart.is_empty(), "{} of {}: {apart:?}", apart.len(), theirs.len());
    assert!(found[2].len() > 20, "{}", found[2].len());
    for row in &found[2] {
        let key = (row["ts"].as_u64().expect("a number"), row["tid"].as_u64().expect("a number"));
        assert_eq!(
            wakeups.get(&key).map(|from_interrupt| u64::from(*from_interrupt)),
            row["irq_context"].as_u64(),
            "{row}"
        );
    }
    let of_sink = |path: &[serde_json::Value]| {
        let of = |is_sink: bool| -> i64 {
            let rows = path.iter().filter(|row| (row["tid"] == sink) == is_sink);
            rows.map(|row| row["ns"].as_i64().expect("a number")).sum()
        };
        (of(true), of(false))
    };
    // A packet woke it: whatever thread the interrupt took the CPU of has no part in that.
    let (own_ns, others_ns) = of_sink(&found[4]);
    assert!(own_ns > 0 && others_ns < own_ns / 100, "{:?}", found[4]);
    let stripped = root.join("stripped");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/perfetto/strip.py");
    let made = Command::new(python()).arg(script).arg(&trace).arg(&stripped).status().expect("starts");
    assert!(made.success());
    let (_, others_ns) = of_sink(&perfetto(&stripped, &queries[3..])[1]);
    assert!(others_ns > own_ns / 10, "without the context others are blamed: {others_ns} of {own_ns}");
}

/// HdrHistogram's package of Python finds the distribution of ΔT at the application in the log, to three digits.
fn read_by_hdr_histogram(log: &str, summary: &serde_json::Value, place: &Path) {
    const SCRIPT: &str = "import json, sys\n\
        from hdrh.histogram import HdrHistogram\n\
        from hdrh.log import HistogramLogReader\n\
        log = HistogramLogReader(sys.argv[1], HdrHistogram(1, 3600 * 10**9, 3))\n\
        log.get_next_interval_histogram()\n\
        delta_t = log.get_next_interval_histogram()\n\
        print(json.dumps([delta_t.get_total_count(), delta_t.get_min_value(), delta_t.get_mean_value(), delta_t.get_max_value()]))";
    let file = place.join("histograms.hlog");
    std::fs::write(&file, log).expect("written");
    let read = Command::new(python()).args(["-c", SCRIPT]).arg(&file).output().expect("starts");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let found: Vec<f64> = serde_json::from_slice(&read.stdout).expect("four numbers");
    let delta_t = &summary["layers"].as_array().expect("layers").last().expect("the application")["delta_t"];
    assert_eq!(Some(found[0]), delta_t["count"].as_f64());
    for (found, key) in found[1..].iter().zip(["min_ns", "mean_ns", "max_ns"]) {
        let expected = delta_t[key].as_f64().expect("a number");
        assert!((found - expected).abs() <= 0.002 * expected, "{key}: {found} {expected}");
    }
}

#[test]
fn tables_histograms_and_metrics_agree_with_the_run() {
    let place = tempfile::tempdir().expect("a directory");
    let root = place.path();
    measure(root, "chase");
    let run = std::fs::read_dir(root).expect("made").next().expect("one").expect("listed").path();
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("summary.json")).expect("written")).expect("JSON");

    let csv = text(&done(root, &["export", "last", "--csv", "samples", "-o", "-"]));
    let lines = text(&done(root, &["export", "last", "--json-lines", "samples", "-o", "-"]));
    let heads: Vec<&str> = csv.lines().next().expect("names").split(',').collect();
    assert_eq!(csv.lines().count(), lines.lines().count() + 1);
    for (line, row) in lines.lines().zip(csv.lines().skip(1)) {
        let object: serde_json::Value = serde_json::from_str(line).expect("an object");
        for (head, cell) in heads.iter().zip(row.split(',')) {
            let there = object.get(*head).expect("the same columns");
            assert_eq!(
                cell,
                if there.is_null() { String::new() } else { there.to_string().replace('"', "") }
            );
        }
    }
    let refused = quaver(root, &["export", "last", "--csv", "nothing"]).output().expect("starts");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("it has "), "{refused:?}");

    let log = text(&done(root, &["export", "last", "--hdr", "-o", "-"]));
    let tags: Vec<&str> =
        log.lines().filter_map(|line| line.strip_prefix("Tag=")?.split(',').next()).collect();
    assert_eq!(tags[..2], ["delay", "delta_t"]);
    read_by_hdr_histogram(&log, &summary, root);

    let metrics = text(&done(root, &["export", "last", "--openmetrics", "-o", "-"]));
    assert!(metrics.ends_with("# EOF\n"));
    let sent = summary["losses"]["sent"].as_f64().expect("a number");
    let line = metrics.lines().find(|line| line.starts_with("quaver_losses_sent{")).expect("a gauge");
    assert!(line.contains("verb=\"chase\"") && line.ends_with(&format!(" {sent}")), "{line}");
    let script = "import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
print(sum(len(family.samples) for family in parse(open(sys.argv[1]).read())))";
    let has_parser =
        Command::new(PYTHON).args(["-c", "import prometheus_client.openmetrics.parser"]).output();
    if !has_parser.is_ok_and(|output| output.status.success()) {
        skip(
            "tables_histograms_and_metrics_agree_with_the_run",
            Lack::Installed("python3-prometheus-client"),
        );
        return;
    }
    let file = root.join("metrics.txt");
    std::fs::write(&file, &metrics).expect("written");
    let read = Command::new(PYTHON).args(["-c", script]).arg(&file).output().expect("starts");
    assert!(read.status.success(), "{read:?}");
    let samples = metrics.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), samples.to_string());
}
