//! `quaver query` over runs that the program measures here, and the questions of `docs/queries.md`.

#[path = "sync_run/mod.rs"]
mod sync_run;

use quaver_store::columns::TableWriter;
use quaver_store::listing::write_tags;
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_store::table::{Column, Layout};
use quaver_testbed::privileged::privileged;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// DuckDB as `scripts/setup.sh test` puts it aside.
fn duckdb() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let asked = "import duckdb_cli, os; print(os.path.dirname(duckdb_cli.__file__))";
        PathBuf::from(said(python().args(["-c", asked]))).join("duckdb")
    })
}

/// Python with the packages that `scripts/setup.sh test` puts aside.
fn python() -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/interop/python-venv.sh");
    Command::new(format!("{}/bin/python", said(Command::new(script).arg("--where"))))
}

fn said(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}: run scripts/setup.sh test");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn quaver(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words).env("QUAVER_RUNS", root).env("QUAVER_DUCKDB", duckdb()).stdin(Stdio::null());
    command
}

#[track_caller]
fn text(output: &Output, code: i32) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(root: &Path, words: &[&str], code: i32) -> String {
    let output = quaver(root, &[&["query"], words].concat()).output().expect("it starts");
    text(&output, code);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Rows of an answer.
#[track_caller]
fn rows(root: &Path, sql: &str, runs: &[&str]) -> Vec<Value> {
    let output = quaver(root, &[&["query", "--json", sql], runs].concat()).output().expect("it starts");
    of_document(&text(&output, 0))
}

/// The rows of a printed document, whose result says that all is well.
#[track_caller]
fn of_document(text: &str) -> Vec<Value> {
    let mut document: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!((&document["schema"], &document["result"]["status"]), (&json!("quaver.query/1"), &json!(0)));
    serde_json::from_value(document["rows"].take()).expect("a list of objects")
}

/// The only value of an answer.
#[track_caller]
fn value(root: &Path, sql: &str) -> Value {
    let rows = rows(root, sql, &[]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].as_object().expect("a row").values().next().expect("a column").clone()
}

/// A run with a manifest and nothing else.
fn made_up(root: &Path, verb: &str, started_ns: i64, asked: Value) -> RunDir {
    let run = RunDir::create(root, verb).expect("made");
    let host = json!({"kernel": {"release": "6.1.0", "hostname": "it's"}});
    let mut manifest = Manifest::begin("0.1.0", verb, asked, host, started_ns);
    manifest.end(started_ns + 1_000_000_000, None);
    run.write_manifest(&manifest).expect("written");
    run
}

const STREAM: &str = "--period 1ms --pace sleep --receive block --lab loopback --quiet";

fn measure(root: &Path, verb: &str) {
    let words: Vec<&str> = verb.split(' ').collect();
    text(&quaver(root, &words).output().expect("it starts"), 0);
}

#[test]
fn views_are_the_runs_and_their_tables() {
    let place = tempfile::tempdir().expect("a directory");
    // Characters that mean something in SQL, and in patterns of paths.
    let root = &place.path().join("it's [a] *");
    fs::create_dir(root).expect("made");
    measure(root, &format!("chase --for 300ms --tier user {STREAM}"));
    measure(root, &format!("chase --for 300ms --tier user {STREAM}"));
    let last = quaver_store::listing::named(Path::new("last"), root).expect("just made");
    text(&quaver(root, &["analyze", "last", "--late", "1ns"]).output().expect("it starts"), 0);
    let summary: Value = last.read_summary().expect("written");
    write_tags(&last, &["before".to_owned()]).expect("written");
    let of_last = |sql: &str| value(root, &sql.replace("LAST", &last.name()));

    assert_eq!(value(root, "SELECT count(*) FROM runs"), 2);
    assert_eq!(of_last("SELECT tags[1] FROM runs WHERE run = 'LAST'"), "before");
    let path = fs::canonicalize(last.path()).expect("a path");
    assert_eq!(of_last("SELECT path FROM runs WHERE run = 'LAST'"), path.to_str().expect("a path"));
    for (name, number) in
        ["lateness.distribution.p99_ns", "lateness.packets", "losses.received", "unexplained.time_ns"]
            .map(|name| (name, summary.pointer(&format!("/{}", name.replace('.', "/")))))
    {
        let number = number.unwrap_or_else(|| panic!("no {name} in {summary}"));
        let found = of_last(&format!("SELECT value FROM numbers WHERE run = 'LAST' AND name = '{name}'"));
        assert_eq!(found.as_f64(), number.as_f64(), "{name}");
    }
    let median = of_last("SELECT value FROM numbers WHERE run = 'LAST' AND name = 'layers.0.delta_t.p50_ns'");
    assert_eq!(median.as_f64(), summary["layers"][0]["delta_t"]["p50_ns"].as_f64());
    let late = "SELECT sum(end_ns - start_ns) FROM late WHERE run = 'LAST'";
    assert_eq!(of_last(late), summary["lateness"]["time_ns"]);
    // Both runs are in a view, one alone where it is named, and directories stand for the runs below.
    let both = value(root, "SELECT count(DISTINCT run) FROM packets");
    assert_eq!(both, 2);
    let one = rows(root, "SELECT DISTINCT run FROM packets", &["before"]);
    assert_eq!(one, [json!({"run": last.name()})]);
    let below = rows(root, "SELECT DISTINCT run FROM packets", &[root.to_str().expect("a path")]);
    assert_eq!(below.len(), 2);

    let csv = quaver(root, &["query", "--csv", "SELECT 1 AS a, NULL AS b, 'x,' AS c"]).output();
    assert_eq!(text(&csv.expect("it starts"), 0), "a,b,c\n1,,\"x,\"\n");
    let wide = rows(root, "SELECT 18446744073709551615::UBIGINT AS a, 'NaN'::DOUBLE AS b, NULL AS c; ", &[]);
    assert_eq!(wide, [json!({"a": u64::MAX, "b": null, "c": null})]);
    assert_eq!(rows(root, "SELECT 1 WHERE false -- nothing", &[]), [] as [Value; 0]);
    let table = quaver(root, &["query", "SELECT * FROM range(100)"]).output().expect("it starts");
    assert!(text(&table, 0).lines().count() > 100, "every row is there");
    let mut fed = quaver(root, &["query", "--csv"]);
    let mut fed = fed.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    fed.stdin.take().expect("it is piped").write_all(b"SELECT count(*) AS n FROM runs;").expect("it reads");
    assert_eq!(text(&fed.wait_with_output().expect("it ends"), 0), "n\n2\n");
}

#[test]
fn a_bad_question_is_told_from_a_missing_program_and_a_bad_run() {
    let place = tempfile::tempdir().expect("a directory");
    let root = place.path();
    made_up(root, "chase", 1_000_000_007, json!({}));
    assert!(errors(root, &["selec"], 2).contains("syntax error"));
    assert!(errors(root, &["SELECT nothing FROM runs"], 2).contains("nothing"));
    assert!(errors(root, &["FROM late"], 2).contains("these runs have the views runs, manifests, numbers"));
    assert!(errors(root, &["FROM runs", "nowhere"], 5).contains("nowhere"));
    assert!(errors(root, &["FROM read_csv('/nowhere/at/all.csv')"], 5).contains("No files found"));
    assert!(errors(root, &[root.to_str().expect("a path")], 2).contains("the SQL goes first"));
    assert!(errors(&root.join("none"), &["FROM runs"], 5).contains("no such directory"));
    let without = |name: &str, value: &str| {
        let output =
            quaver(root, &["query", "FROM runs"]).env_remove("QUAVER_DUCKDB").env(name, value).output();
        let output = output.expect("it starts");
        text(&output, 3);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(without("PATH", "/nowhere").contains("pip install duckdb-cli"));
    assert!(without("QUAVER_DUCKDB", "/nowhere").contains("/nowhere"));
    // A damaged table is left out, and said to be.
    let run = made_up(root, "chase", 2_000_000_007, json!({}));
    fs::write(run.path().join("samples.parquet"), "PAR1 and no more").expect("written");
    let output =
        quaver(root, &["query", "--csv", "SELECT count(*) AS n FROM runs"]).output().expect("it starts");
    assert_eq!(text(&output, 0), "n\n2\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("samples.parquet"));
}

#[test]
fn a_question_ends_when_it_is_asked_to() {
    let place = tempfile::tempdir().expect("a directory");
    made_up(place.path(), "chase", 1_000_000_007, json!({}));
    let begun = place.path().join("begun.csv");
    let endless = format!(
        "COPY (SELECT 1) TO '{}'; SELECT count(*) FROM range(1000000000) a, range(1000000000) b",
        begun.display()
    );
    let mut child =
        quaver(place.path(), &["query", &endless]).stdout(Stdio::piped()).spawn().expect("it starts");
    let asked = Instant::now();
    while !begun.exists() {
        assert!(asked.elapsed() < PATIENCE, "it has not begun");
        std::thread::sleep(Duration::from_millis(5));
    }
    // To the program alone, as `kill` sends it: DuckDB hears of it from us.
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let asked = Instant::now();
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(asked.elapsed() < PATIENCE, "{:?}", asked.elapsed());
    let mut rest = Vec::new();
    child.stdout.take().expect("it is piped").read_to_end(&mut rest).expect("DuckDB has ended, too");
}

/// An S3 server of a folder's buckets that asks for a signature.
struct Server {
    child: Child,
    /// What a client has to know of it.
    variables: Vec<(&'static str, String)>,
}

impl Server {
    fn start(folder: &Path, home: &Path) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/query/s3.py");
        let (key, secret, region) = ("reader", "of+some/runs", "eu-test-1");
        let mut server = python();
        server.arg("-B").arg(script).arg(folder).args([key, secret, region]);
        let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut port).expect("it says its port");
        let variables = vec![
            ("AWS_ACCESS_KEY_ID", key.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
            ("AWS_REGION", region.to_owned()),
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", port.trim())),
            ("HOME", home.to_str().expect("a path").to_owned()),
        ];
        Self { child, variables }
    }

    fn ask(&self, sql: &str, runs: &[&str], other: &[(&str, &str)]) -> Output {
        let mut command = quaver(Path::new("runs"), &[&["query", "--json", sql], runs].concat());
        command.envs(self.variables.iter().map(|(name, value)| (*name, value.as_str())));
        command.envs(other.iter().copied()).output().expect("it starts")
    }

    #[track_caller]
    fn refuses(&self, runs: &[&str], other: &[(&str, &str)], code: i32) -> String {
        let output = self.ask("FROM runs", runs, other);
        text(&output, code);
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// DuckDB's extension for S3, as it is after `INSTALL`, in a home of its own.
fn home_with_extension(home: &Path) {
    let asked = "import duckdb_extension_httpfs as it, glob; print(glob.glob(it.__path__[0] + '/**/*.duckdb_extension', recursive=True)[0])";
    let extension = said(python().args(["-c", asked]));
    said(Command::new(duckdb()).env("HOME", home).args([
        "-no-init",
        "-c",
        &format!("INSTALL '{extension}'"),
    ]));
}

#[test]
fn runs_in_s3_are_asked_as_those_in_directories() {
    let place = tempfile::tempdir().expect("a directory");
    let root = &place.path().join("buckets/lake/some host");
    fs::create_dir_all(root).expect("made");
    measure(root, &format!("chase --for 300ms --tier user {STREAM}"));
    let run = quaver_store::listing::named(Path::new("last"), root).expect("just made");
    text(&quaver(root, &["analyze", "last", "--late", "1ns"]).output().expect("it starts"), 0);
    write_tags(&run, &["before".to_owned(), "night".to_owned()]).expect("written");
    // Tables in a folder, and a summary so long that there is another file of it.
    fs::create_dir(run.path().join("cells")).expect("made");
    fs::copy(run.samples(), run.path().join("cells/b0000-p000.parquet")).expect("copied");
    let long = made_up(root, "noise", 1_000_000_007, json!({}));
    long.write_summary(&json!({"gaps": vec![0.5; 30_000]})).expect("written");
    assert!(long.details().is_file());
    made_up(&long.path().join("tests"), "noise", 1_000_000_008, json!({}));

    let home = place.path().join("home");
    fs::create_dir(&home).expect("made");
    home_with_extension(&home);
    let server = Server::start(&place.path().join("buckets"), &home);
    let found =
        |sql: &str, runs: &[&str]| -> Vec<Value> { of_document(&text(&server.ask(sql, runs, &[]), 0)) };
    for sql in [
        "SELECT * EXCLUDE (path) FROM runs ORDER BY run",
        "SELECT run, count(*) AS numbers, sum(value) AS sum FROM numbers GROUP BY run ORDER BY run",
        "SELECT run, manifest->>'$.asked' AS asked FROM manifests ORDER BY run",
        "SELECT run, file, count(*) AS packets, sum(app_ns) AS sum FROM packets GROUP BY ALL ORDER BY ALL",
        "SELECT run, source, sum(end_ns - start_ns) AS late_ns FROM late GROUP BY ALL ORDER BY ALL",
    ] {
        let here = rows(root, sql, &[]);
        assert!(here.len() >= 2 || sql.contains("FROM late"), "{sql}: {here:?}");
        assert_eq!(found(sql, &["s3://lake/some host/"]), here, "{sql}");
    }
    let files = found("SELECT DISTINCT file FROM packets ORDER BY file", &["s3://lake"]);
    assert_eq!(files, [json!({"file": "cells/b0000-p000"}), json!({"file": null})]);
    let one = format!("s3://lake/some host/{}", run.name());
    assert_eq!(found("SELECT path FROM runs", &[&one]), [json!({"path": one})]);
    // Beside a run of this machine, and as the root.
    let both = found("SELECT count(*) AS n FROM runs", &[&one, long.path().to_str().expect("a path")]);
    assert_eq!(both, [json!({"n": 2})]);
    let all = server.ask("SELECT count(*) AS n FROM runs", &[], &[("QUAVER_RUNS", "s3://lake")]);
    assert_eq!(of_document(&text(&all, 0)), [json!({"n": 2})]);

    let refused = server.refuses(&[&one], &[("AWS_SECRET_ACCESS_KEY", "another")], 5);
    assert!(refused.contains("403") && refused.contains("AWS_ACCESS_KEY_ID"), "{refused}");
    assert!(server.refuses(&[&one], &[("AWS_REGION", "eu-test-2")], 5).contains("eu-test-2"));
    assert!(server.refuses(&["s3://lake/none"], &[], 5).contains("there is no run at or below it"));
    assert!(server.refuses(&[&one], &[("AWS_ENDPOINT_URL", "127.0.0.1")], 2).contains("is no URL"));
    let nowhere = place.path().to_str().expect("a path");
    assert!(server.refuses(&[&one], &[("HOME", nowhere)], 3).contains("INSTALL httpfs"));
}

/// Questions of the page, by their order.
fn questions() -> Vec<String> {
    let page = include_str!("../../docs/queries.md");
    let blocks = page.split("```sql\n").skip(1);
    blocks.map(|block| block.split("```").next().expect("a block ends").to_owned()).collect()
}

#[test]
fn the_questions_of_the_page_have_answers() {
    if !privileged("the questions of docs/queries.md") {
        return;
    }
    let place = tempfile::tempdir().expect("a directory");
    let root = place.path();
    measure(root, &format!("chase --for 500ms {STREAM}"));
    text(&quaver(root, &["analyze", "last", "--late", "1ns"]).output().expect("it starts"), 0);
    measure(root, "noise --for 300ms --threshold 1us --tier user --quiet");
    measure_path(root);
    let late_waits = measure_waits(root);
    made_up_points(&made_up(root, "sweep", 1_000_000_009, json!({})));
    let first_ns = 1_795_193_880_000_000_000_i64;
    let incident = json!({"incident": {"receiver": "studio", "cause": "irq", "reasons": ["late"], "count": 3,
        "first_realtime_ns": first_ns, "last_realtime_ns": first_ns + 1}});
    made_up(root, "watch", first_ns, incident);
    let lost =
        rows(root, "SELECT receiver, cause, reasons, \"count\", epoch_ns(first) AS at FROM incidents", &[]);
    let expected =
        json!({"receiver": "studio", "cause": "irq", "reasons": ["late"], "count": 3, "at": first_ns});
    assert_eq!(lost, [expected]);
    // The summary of a recording has the same sums.
    let causes = rows(
        root,
        "SELECT source, CAST(sum(end_ns - start_ns) AS BIGINT) AS ns FROM waits GROUP BY ALL ORDER BY source",
        &[],
    );
    assert_eq!(causes, late_waits);
    let questions = questions();
    assert!(questions.len() >= 12, "{}", questions.len());
    for sql in &questions {
        let found = rows(root, sql, &[]);
        // Nothing may be missing of this stream.
        assert!(!found.is_empty() || sql.contains("missing > 0"), "{sql}");
    }
    let uncovered = "SELECT count(*) FROM late ANTI JOIN runs USING (run)";
    assert_eq!(value(root, uncovered), 0);
}

/// A program whose threads wait for each other's locks; the time of its late waits by cause.
fn measure_waits(root: &Path) -> Vec<Value> {
    const PROGRAM: &str = "#include <pthread.h>\n#include <unistd.h>\n\
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;\n\
        static void *run(void *own) { for (int i = 0; i < 50; i++) { pthread_mutex_lock(&lock); usleep(200); \
        pthread_mutex_unlock(&lock); } return own; }\n\
        int main(void) { pthread_t other[2]; for (int i = 0; i < 2; i++) pthread_create(&other[i], 0, run, 0); \
        for (int i = 0; i < 2; i++) pthread_join(other[i], 0); return 0; }";
    let bench = sync_run::Bench::of_text(PROGRAM, &[]);
    let recorded = bench.run(&[
        "--quiet",
        "--count-all",
        "--threshold",
        "1ns",
        "--output",
        root.to_str().expect("a path"),
    ]);
    assert_eq!(recorded.status.code(), Some(0), "{}", String::from_utf8_lossy(&recorded.stderr));
    let run = quaver_store::listing::named(Path::new("last"), root).expect("just made");
    let summary: Value = run.read_summary().expect("written");
    let causes = summary["results"]["causes"].as_array().expect("causes");
    let time = |cause: &Value| {
        let source = if cause["cause"] == "unexplained" { Value::Null } else { cause["cause"].clone() };
        (cause["waits"]["total_ns"] != 0).then(|| json!({"source": source, "ns": cause["waits"]["total_ns"]}))
    };
    let mut times: Vec<Value> = causes.iter().filter_map(time).collect();
    assert!(!times.is_empty(), "{summary}");
    // Nulls come last.
    times.sort_by_key(|time| (time["source"].is_null(), time["source"].as_str().map(str::to_owned)));
    times
}

/// Two points of a sweep over one axis.
fn made_up_points(run: &RunDir) {
    let columns = [
        Column::required("trace", Layout::Text, ""),
        Column::required("cores", Layout::I64, ""),
        Column::required("duration_fs", Layout::U64, ""),
    ];
    let mut table =
        TableWriter::create(&run.path().join("points.parquet"), "sim-sweep", &columns).expect("made");
    let written = table.rows(2, |group, _| {
        group.text(["baton", "baton"].map(|name| name.as_bytes().to_vec().into()).into_iter())?;
        group.i64([1, 2].into_iter())?;
        group.u64([400, 200].into_iter())
    });
    written.and_then(|()| table.finish()).expect("written");
}

/// One test of a path, over loopback.
fn measure_path(root: &Path) {
    let words = ["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0"];
    let mut server = quaver(root, &words);
    let mut server = server.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    let lines = BufReader::new(server.stderr.take().expect("it is piped")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    let after = "listening on 127.0.0.1:";
    let line = lines.find(|line| line.contains(after)).expect("it says where it listens");
    let port: String =
        line.split(after).nth(1).unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    let words = ["probe", "127.0.0.1", "--port", &port, "--count", "50", "--period", "2ms", "--quiet"];
    let output = quaver(root, &words).output();
    let _ = server.kill();
    let _ = server.wait();
    text(&output.expect("it starts"), 0);
}
