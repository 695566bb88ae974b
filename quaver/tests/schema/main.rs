//! `quaver schema` prints what `docs/schema` holds. Python's jsonschema, which `scripts/setup.sh test` installs, finds runs valid.

#[path = "../simulator/mod.rs"]
mod simulator;
#[path = "../sync_run/mod.rs"]
mod sync_run;

use quaver_store::run::RunDir;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use sync_run::Bench;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Committed files, each with the name of its schema.
const COMMITTED: &[(&str, &str)] = &[
    ("manifest", "bench-runs/2026-11-29-readme/manifest.json"),
    ("chase", "bench-runs/2026-11-29-readme/summary.json"),
    ("chase", "bench-runs/2026-11-21-kvm-2cpu/analysis/summary.json"),
    ("manifest", "bench-runs/2026-11-23-cure-rt-throttle/manifest.json"),
    ("cure", "bench-runs/2026-11-23-cure-rt-throttle/summary.json"),
    ("sync-bench", "bench-runs/2026-11-22-sync-2cpu/sync/programs.json"),
    ("watch-wait", "bench-runs/2026-11-26-watch-groups/incident/summary.json"),
    ("capture-compare", "quaver/tests/migrate/kept/capture-compare-2026-11-27/summary.json"),
    ("cure", "quaver/tests/migrate/kept/cure-2026-11-27/summary.json"),
    ("probe-mesh", "quaver/tests/migrate/kept/probe-mesh-2026-11-27/summary.json"),
    ("sim", "quaver/tests/migrate/kept/sim-2026-11-27/summary.json"),
    ("sim-paper", "quaver/tests/migrate/kept/sim-paper-2026-11-27/summary.json"),
    ("sim-sweep", "quaver/tests/migrate/kept/sim-sweep-2026-11-27/summary.json"),
    ("study", "quaver/tests/migrate/kept/study-2026-11-27/summary.json"),
    ("sync", "quaver/tests/migrate/kept/sync-2026-11-27/summary.json"),
    ("sync-bench", "quaver/tests/migrate/kept/sync-bench-2026-11-27/summary.json"),
    ("watch-wait", "quaver/tests/migrate/kept/watch-wait-2026-11-27/summary.json"),
    ("chase", "quaver/tests/migrate/kept/watch-2026-11-27/summary.json"),
    ("sim-paper", "bench-runs/2026-11-22-sim-paper/summary.json"),
];

/// Committed studies. The bench took out what only plots need, `bins` and `series` of each layer.
const WITHOUT_PLOTS: &[&str] = &[
    "bench-runs/2026-11-22-study-2cpu/study/netns/summary.json",
    "bench-runs/2026-11-22-study-2cpu/study/qemu/summary.json",
];

/// Two threads that share a lock.
const PROGRAM: &str = r#"
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *run(void *own)
{
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
	}
	return own;
}
int main(void)
{
	pthread_t other;
	pthread_create(&other, 0, run, 0);
	run(0);
	return pthread_join(other, 0);
}
"#;

/// Runs that are made here, by the name of their schema.
const MADE: &[(&str, &[&str])] = &[
    ("noise", &["noise", "--tier", "user", "--for", "100ms", "--dummy", "--period", "100us"]),
    (
        "chase",
        &[
            "chase",
            "--tier",
            "user",
            "--for",
            "1s",
            "--period",
            "1ms",
            "--pace",
            "sleep",
            "--lab",
            "loopback",
            "--receive",
            "block",
        ],
    ),
];

fn quaver(place: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words).current_dir(place).env("QUAVER_RUNS", place.join("runs")).stdin(Stdio::null());
    command.output().expect("the program was built")
}

#[track_caller]
fn text(output: &Output, status: i32) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{errors}");
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("it was written")).expect("it is JSON")
}

/// Names of all schemas: of verbs that share one, the first.
fn names() -> Vec<String> {
    // Those of its runs are the simulator's.
    simulator::build_simulator();
    let list = text(&quaver(Path::new(ROOT), &["schema"]), 0);
    let names = list.lines().map(|line| line.split([',', ':']).next().expect("a name").to_owned());
    names.filter(|name| name != TABLES).collect()
}

/// The columns of tables, beside the schemas.
const TABLES: &str = "tables";

fn schema(name: &str) -> PathBuf {
    Path::new(ROOT).join(format!("docs/schema/{name}.json"))
}

/// What the file `place` holds has to be `now`, or becomes it where that is asked for.
fn same_as_written(place: &Path, now: &str) {
    if std::env::var_os("QUAVER_BLESS").is_some() {
        fs::write(place, now).expect("it can be written");
    }
    let before = fs::read_to_string(place).unwrap_or_default();
    let differs = before.lines().zip(now.lines()).find(|(before, now)| before != now);
    assert!(
        before == now,
        "{} is not what the program prints, first in {differs:?}; if that is meant, run\n  \
         QUAVER_BLESS=1 cargo test -p quaver --test schema",
        place.display()
    );
}

#[test]
fn all_schemas_are_printed_as_they_are_written_down() {
    let folder = Path::new(ROOT).join("docs/schema");
    let names = names();
    for name in &names {
        let printed = text(&quaver(Path::new(ROOT), &["schema", name]), 0);
        let written = fs::read_to_string(schema(name)).expect("it is committed");
        assert!(printed == written, "{name}: the program was built before its file was changed");
    }
    let files = fs::read_dir(folder).expect("it is committed").map(|entry| entry.expect("a file").path());
    let files: BTreeSet<PathBuf> = files.collect();
    assert_eq!(files, names.iter().map(|name| schema(name)).collect());
}

#[test]
fn the_columns_of_tables_are_those_that_are_written_down() {
    let own = text(&quaver(Path::new(ROOT), &["schema", TABLES]), 0);
    // The simulator is a program of its own.
    let now = format!("{own}\n{}", quaver_sim_program::intervals::TABLE.markdown());
    same_as_written(&Path::new(ROOT).join("docs/tables.md"), &now);
}

#[test]
fn an_unknown_name_is_answered_with_those_that_there_are() {
    let output = quaver(Path::new(ROOT), &["schema", "nois"]);
    text(&output, 2);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("schema nois: ") && errors.contains("\nnoise: summary.json"), "{errors}");
}

/// What the validator says of each document by its schema.
fn judged(documents: &[(&str, PathBuf)]) -> Vec<String> {
    let script = Path::new(ROOT).join("scripts/interop/python-venv.sh");
    let place = text(&Command::new(script).arg("--where").output().expect("it starts"), 0);
    let validator = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schema/validate.py");
    let mut python = Command::new(format!("{}/bin/python", place.trim()))
        .arg(validator)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("scripts/setup.sh test puts it there");
    let lines: String = documents
        .iter()
        .map(|(name, path)| format!("{}\t{}\n", schema(name).display(), path.display()))
        .collect();
    python.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("it reads");
    let said = text(&python.wait_with_output().expect("it ends"), 0);
    let said: Vec<String> = said.lines().map(str::to_owned).collect();
    assert_eq!(said.len(), documents.len());
    said
}

/// Verbs whose `--json` is validated where they have measured or read something, and whether the schema of a kind of runs describes
/// it. `RUN` and `OTHER` are runs of noise.
const PRINTED: &[(&[&str], &str)] = &[
    (&["doctor"], "result"),
    (&["lab", "doctor", "loopback"], "result"),
    (&["tune", "audit", "--no-watch"], "result"),
    (&["tune", "plan"], "result"),
    (&["tune", "status", "--journal", "journal"], "result"),
    (&["tune", "revert", "--journal", "journal"], "result"),
    (&["source", "127.0.0.1:9", "--count", "3", "--period", "1ms", "--pace", "sleep"], "result"),
    (&["noise", "--tier", "user", "--for", "50ms", "--quiet"], "noise"),
    (&["analyze", "RUN"], "noise"),
    (&["analyze", "RUN", "--fail-if", "noise_ns >= 0"], "noise"),
    (&["analyze", "PEERS/cyclictest.json"], "result"),
    (&["compare", "RUN", "OTHER"], "result"),
    (&["runs"], "result"),
    (&["runs", "show", "RUN"], "result"),
    (&["scrub", "RUN", "-o", "copy"], "result"),
    (&["sync", "what-if", "--example", "wimax"], "result"),
];

/// What `--json` prints of each of [`PRINTED`], with the schemas that it has to follow.
fn printed(place: &Path) -> Vec<(&'static str, PathBuf)> {
    for _ in 0..2 {
        text(&quaver(place, &["noise", "--tier", "user", "--for", "100ms", "--quiet"]), 0);
    }
    let runs = fs::read_dir(place.join("runs")).expect("runs").map(|run| run.expect("a run").path());
    let runs: Vec<String> = runs.map(|run| run.display().to_string()).collect();
    let mut all = Vec::new();
    for (at, (words, name)) in PRINTED.iter().enumerate() {
        let put = |word: &&str| match *word {
            "RUN" => runs[0].clone(),
            "OTHER" => runs[1].clone(),
            word => word.replace("PEERS", &format!("{ROOT}/instruments/peers/tests/data")),
        };
        let words: Vec<String> = words.iter().map(put).chain(["--json".to_owned()]).collect();
        let output = quaver(place, &words.iter().map(String::as_str).collect::<Vec<_>>());
        let errors = String::from_utf8_lossy(&output.stderr);
        let (result, _) = quaver_testbed::printed::apart(&output.stdout);
        assert_eq!(result["status"].as_i64(), output.status.code().map(i64::from), "{words:?}: {errors}");
        let verdict = result["verdict"].as_str();
        let says_nothing = matches!(words[0].as_str(), "runs" | "compare");
        assert!(says_nothing || verdict.is_some_and(|words| words.ends_with('.')), "{words:?}: {result}");
        assert_eq!(
            result["run"].is_string(),
            words.contains(&runs[0]) && words[0] != "compare" || words[0] == "noise"
        );
        let target = place.join(format!("printed-{at}.json"));
        fs::write(&target, &output.stdout).expect("it can be written");
        all.push(("result", target.clone()));
        all.extend((*name != "result").then_some((*name, target)));
    }
    all
}

/// The words of each verb that has `--json`, as `quaver schema` lists them, but for those of lines and of the simulator.
fn verbs_with_json() -> BTreeSet<String> {
    let list = text(&quaver(Path::new(ROOT), &["schema"]), 0);
    let line =
        list.lines().find_map(|line| line.strip_prefix("result: --json of every verb: ")).expect("listed");
    line.split(", ").filter(|verb| !verb.starts_with("sim")).map(str::to_owned).collect()
}

#[test]
fn what_verbs_print_has_a_verdict_a_status_and_a_schema() {
    let place = tempfile::tempdir().expect("a directory");
    let documents = printed(place.path());
    for ((name, path), said) in documents.iter().zip(judged(&documents)) {
        assert_eq!(said, "valid", "{} by schema {name}: {}", path.display(), json(path)["result"]);
    }
    for verb in verbs_with_json() {
        let schema = text(
            &quaver(Path::new(ROOT), &[&["schema"][..], &verb.split(' ').collect::<Vec<_>>()].concat()),
            0,
        );
        let schema: Value = serde_json::from_str(&schema).expect("JSON");
        assert_eq!(
            schema["properties"]["result"]["properties"]["schema"]["const"], "quaver.result/1",
            "{verb}"
        );
    }
    let mut broken = Vec::new();
    for key in ["schema", "verb", "remedies", "warnings", "incomplete", "status"] {
        let mut document = json(&documents[0].1);
        document["result"].as_object_mut().expect("an object").remove(key).expect("it was valid");
        let target = place.path().join(format!("without-{key}.json"));
        fs::write(&target, document.to_string()).expect("it can be written");
        broken.push(("result", target));
    }
    for ((_, path), said) in broken.iter().zip(judged(&broken)) {
        assert_ne!(said, "valid", "{}", path.display());
    }
}

/// A server on ports that the system chose; ended when dropped.
struct Server {
    child: Child,
    _log: BufReader<ChildStderr>,
    port: String,
}

impl Server {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.args(["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0"]);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
        let (mut log, mut line) = (BufReader::new(child.stderr.take().expect("a pipe")), String::new());
        log.read_line(&mut line).expect("it says where");
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
        Self { child, _log: log, port: port.expect("a port").to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_ends_its_log_with_what_came_of_it() {
    let words = ["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0", "--json"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    let mut server = command.args(words).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut log = BufReader::new(server.stdout.take().expect("a pipe"));
    let mut lines = Vec::new();
    let mut line = String::new();
    while log.read_line(&mut line).expect("text") > 0 {
        let one: Value = serde_json::from_str(&line).expect("an object a line");
        assert!(one["schema"] == "quaver.serve.line/1" && one["time"].is_string(), "{one}");
        if one["event"].as_str().is_some_and(|event| event.contains("listening on")) {
            let pid = rustix::process::Pid::from_child(&server);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        }
        lines.push(one);
        line.clear();
    }
    assert_eq!(server.wait().expect("it ended").code(), Some(0));
    let (last, others) = lines.split_last().expect("it says where it listens");
    assert!(others.iter().all(|line| line.get("result").is_none()), "{others:?}");
    assert_eq!((&last["result"]["verb"], &last["result"]["status"]), (&"quaver serve".into(), &0.into()));
    let place = tempfile::tempdir().expect("a directory");
    let file = place.path().join("last.json");
    fs::write(&file, last.to_string()).expect("it can be written");
    assert_eq!(judged(&[("result", file)]), ["valid"]);
}

/// The only run below a directory.
fn only_run(folder: &Path) -> PathBuf {
    let mut runs = fs::read_dir(folder.join("runs")).expect("runs");
    runs.next().expect("a run").expect("it is there").path()
}

/// Directories of runs that are made now, with the names of their schemas.
fn made(place: &Path) -> Vec<(&'static str, PathBuf)> {
    let server = Server::start();
    let hosts = format!("[[host]]\nname = 'here'\naddress = '127.0.0.1'\nport = {}\n", server.port);
    fs::write(place.join("hosts.toml"), hosts).expect("it can be written");
    let test = ["probe", "--quiet", "--period", "1ms", "--count", "50", "--rtt-interval", "5ms"];
    let path = [&test[..], &["127.0.0.1", "--port", &server.port]].concat();
    let mesh = [&test[..], &["--mesh", "../hosts.toml"]].concat();
    let all = MADE.iter().copied().chain([("probe", &path[..]), ("probe-mesh", &mesh[..])]);
    let runs = all.map(|(name, words)| {
        let folder = place.join(name);
        fs::create_dir(&folder).expect("a directory");
        let printed = text(&quaver(&folder, &[words, &["--json"]].concat()), 0);
        // What it printed is the run's summary, and an answer.
        let run = only_run(&folder);
        let (result, numbers) = quaver_testbed::printed::apart(printed.as_bytes());
        assert_eq!(numbers, RunDir::open(&run).unwrap().read_summary::<Value>().unwrap(), "{name}");
        assert!(result["verdict"].is_string() && result["run"].is_string(), "{name}: {result}");
        fs::write(place.join(format!("{name}.json")), printed).expect("it can be written");
        (name, run)
    });
    runs.collect()
}

/// A copy of a committed study with empty plots where it has none.
fn with_plots(study: &str, target: &Path) {
    fn restore(value: &mut Value) {
        match value {
            Value::Array(all) => all.iter_mut().for_each(restore),
            Value::Object(object) => {
                object.values_mut().for_each(restore);
                let has = |key: &str| object.contains_key(key);
                if has("figures") && (has("layer") || has("spikes_per_million")) {
                    object.extend(["bins", "series"].map(|key| (key.to_owned(), Value::Array(Vec::new()))));
                }
            }
            _ => {}
        }
    }
    let mut document = json(&Path::new(ROOT).join(study));
    restore(&mut document);
    fs::write(target, document.to_string()).expect("it can be written");
}

/// Most elements of each list of a made-up run, and most bytes: one list alone is more than a summary may have.
const ELEMENTS: usize = 3_000;
const BYTES: usize = 120_000;

/// Each list of objects that lies in no other, with many elements: the first one, again and again.
fn enlarge(value: &mut Value) -> usize {
    match value {
        Value::Object(keys) => keys.values_mut().map(enlarge).sum(),
        Value::Array(all) if all.first().is_some_and(Value::is_object) => {
            let most = ELEMENTS.min(BYTES / all[0].to_string().len());
            let more = most.saturating_sub(all.len());
            all.extend(vec![all[0].clone(); more]);
            more
        }
        _ => 0,
    }
}

/// Summaries of large runs of every kind, as they are stored. Each is checked for its size, and for what it says to be left out.
fn large<'a>(documents: &[(&'a str, PathBuf)], place: &Path) -> Vec<(&'a str, PathBuf)> {
    let mut stored = Vec::new();
    for (name, path) in documents.iter().filter(|(name, _)| *name != "manifest").cloned() {
        let mut whole = json(&path);
        let more = enlarge(&mut whole);
        let run = RunDir::create(&place.join("large"), "made").expect("a directory");
        run.write_summary(&whole).expect("it can be written");
        let bytes = fs::metadata(run.summary()).expect("it was written").len();
        assert!(bytes <= 100_000, "{name}: {bytes} bytes");
        assert_eq!(run.read_summary::<Value>().expect("it was written"), whole, "{name}: nothing is lost");
        if whole.to_string().len() > 100_000 {
            let short = json(&run.summary());
            assert!(short["left_out"].as_object().is_some_and(|left_out| !left_out.is_empty()), "{name}");
            for (key, list) in whole.as_object().expect("an object").iter() {
                if let Some(list) = list.as_array().filter(|list| list.first().is_some_and(Value::is_object))
                {
                    let kept = short[key].as_array().expect("a list").len() as u64;
                    let left_out = short["left_out"][key].as_u64().unwrap_or(0);
                    assert_eq!(kept + left_out, list.len() as u64, "{name}: {key}");
                }
            }
            assert!(more == 0 || short["left_out"].to_string().len() < 10_000, "{name}");
        }
        stored.push((name, run.summary()));
    }
    assert!(stored.iter().any(|(_, path)| path.with_file_name("details.json").is_file()));
    stored
}

#[test]
fn runs_follow_their_schemas_and_what_lacks_a_key_does_not() {
    let place = tempfile::tempdir().expect("a directory");
    let committed = COMMITTED.iter().map(|(name, path)| (*name, Path::new(ROOT).join(path)));
    let mut documents: Vec<(&str, PathBuf)> = committed.collect();
    for (at, study) in WITHOUT_PLOTS.iter().enumerate() {
        let target = place.path().join(format!("study-{at}.json"));
        with_plots(study, &target);
        documents.push(("study", target));
    }
    let bench = Bench::of_text(PROGRAM, &[]);
    text(&bench.run(&["--quiet"]), 0);
    for (name, run) in made(place.path()).into_iter().chain([("sync", bench.last_run())]) {
        documents.extend([(name, run.join("summary.json")), ("manifest", run.join("manifest.json"))]);
        let printed = place.path().join(format!("{name}.json"));
        documents.extend(printed.is_file().then_some((name, printed)));
    }
    let covered: BTreeSet<&str> = documents.iter().map(|(name, _)| *name).chain(["result"]).collect();
    assert_eq!(covered, names().iter().map(String::as_str).collect(), "each schema has a document here");
    for ((name, path), said) in documents.iter().zip(judged(&documents)) {
        assert_eq!(said, "valid", "{} by schema {name}", path.display());
    }

    let large = large(&documents, place.path());
    for ((name, path), said) in large.iter().zip(judged(&large)) {
        assert_eq!(said, "valid", "{} by schema {name}", path.display());
    }

    let mut broken = Vec::new();
    for (name, path) in &documents {
        let required = json(&schema(name))["required"].as_array().expect("keys").clone();
        for key in required.iter().filter_map(Value::as_str) {
            let mut document = json(path);
            document.as_object_mut().expect("an object").remove(key).expect("it was valid");
            let target = place.path().join(format!("{}-{key}.json", broken.len()));
            fs::write(&target, document.to_string()).expect("it can be written");
            broken.push((*name, target));
        }
    }
    assert!(broken.len() > 10 * documents.len(), "{}", broken.len());
    for ((name, path), said) in broken.iter().zip(judged(&broken)) {
        assert_ne!(said, "valid", "{} by schema {name}", path.display());
    }
}
