//! `quaver scrub`: nothing that was planted into a run is in its copy, whatever file one looks into, and all numbers are the same.

#[path = "sync_run/mod.rs"]
mod sync_run;

use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::model::{Actor, Circumstances, Layer, LayerColumn, Names, PacketTable};
use quaver_store::events::{read_events, sort_events, write_events};
use quaver_store::manifest::{AnalysisFacts, Manifest, Stream, StreamPayload};
use quaver_store::packets::write_packets;
use quaver_store::rows::read_rows;
use quaver_store::run::RunDir;
use quaver_testbed::privileged::privileged;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Parts of what is planted: no copy may have one of them.
const PLANTED: [&str; 12] = [
    "zanzibar",
    "quillon",
    "vexatious",
    "Gloaming",
    "krypton_poll",
    "wlp9s0",
    "10.20.30.40",
    "fd12:3456",
    "0c:ee:12",
    "opalescent",
    "81234560",
    "4711471147",
];
/// Address of the planted kernel function.
const FUNCTION: u64 = 0xffff_ffff_8123_4560;

fn quaver(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words).env_remove("QUAVER_RUNS").env_remove("QUAVER_KEY_FILE").stdin(Stdio::null());
    command
}

#[track_caller]
fn ends(command: &mut Command, code: i32) -> Output {
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Runs a verb on a run.
#[track_caller]
fn on(run: &Path, verb: &str, words: &[&str]) -> Output {
    ends(quaver(&[verb]).arg(run).args(words), 0)
}

/// A directory below one with a name that may not be in a copy.
fn place() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a directory");
    let runs = place.path().join("opalescent");
    fs::create_dir(&runs).expect("made");
    (place, runs)
}

fn only_run(runs: &Path) -> PathBuf {
    let found: Vec<PathBuf> =
        fs::read_dir(runs).expect("made").map(|entry| entry.expect("listed").path()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

fn json_of(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("written")).expect("JSON")
}

fn change(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = json_of(path);
    change(&mut value);
    fs::write(path, serde_json::to_vec_pretty(&value).expect("JSON")).expect("written");
}

fn files_below(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).expect("a directory").map(|entry| entry.expect("listed").path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// All that a file says: its bytes, and of a table also its texts and numbers once they are unpacked.
fn said(file: &Path) -> String {
    let mut all = String::from_utf8_lossy(&fs::read(file).expect("read")).into_owned();
    if file.extension().is_some_and(|end| end == "parquet") {
        let rows = read_rows(file, &mut |_, values| {
            values.iter().for_each(|value| all.push_str(&format!("{value}\n")));
            Ok(())
        });
        rows.expect("a table").expect("all rows are taken");
    }
    all
}

/// Names of planted parts that a run has in any of its files, or in their names.
fn found_in(run: &Path) -> Vec<String> {
    let function = FUNCTION.to_string();
    let mut found = Vec::new();
    for file in files_below(run) {
        let name = file.strip_prefix(run).expect("below").display().to_string();
        let text = format!("{name}\n{}", said(&file));
        let parts = PLANTED.iter().copied().chain([function.as_str()]).filter(|part| text.contains(part));
        found.extend(parts.map(|part| format!("{part} in {name}")));
    }
    found
}

/// The numbers of a document, each with its place, without what people read.
fn numbers(value: &Value, at: &str, into: &mut Vec<(String, String)>) {
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, item)| numbers(item, &format!("{at}.{key}"), into))
        }
        Value::Array(items) => items.iter().for_each(|item| numbers(item, &format!("{at}[]"), into)),
        Value::String(_) => into.push((at.to_owned(), String::new())),
        other => into.push((at.to_owned(), other.to_string())),
    }
}

#[track_caller]
fn same_numbers(one: &Value, other: &Value) {
    let of = |value: &Value| {
        let mut found = Vec::new();
        numbers(value, "", &mut found);
        found
    };
    let (one, other) = (of(one), of(other));
    // The first that differs: all of them would hide it.
    let differs = one.iter().zip(&other).enumerate().find(|(_, (one, other))| one != other);
    assert_eq!(differs, None);
    assert_eq!(one.len(), other.len());
}

/// Scrubs a run, searches the copy, and compares its numbers with those of the run.
#[track_caller]
fn scrubbed(run: &Path) -> PathBuf {
    let before: Vec<Vec<u8>> = files_below(run).iter().map(|file| fs::read(file).expect("read")).collect();
    let told: Value = serde_json::from_slice(&on(run, "scrub", &["--json"]).stdout).expect("JSON");
    let after: Vec<Vec<u8>> = files_below(run).iter().map(|file| fs::read(file).expect("read")).collect();
    assert!(before == after, "the run itself is left as it is");
    let name = format!("{}-scrubbed", run.file_name().expect("a name").to_string_lossy());
    let copy = run.with_file_name(name);
    assert_eq!(told["copy"], copy.display().to_string());
    assert_eq!(found_in(&copy), Vec::<String>::new());
    assert_eq!(told["files"].as_array().expect("a list").len(), files_below(&copy).len());
    let whole = |run: &Path| RunDir::open(run).expect("a run").read_summary::<Value>().expect("JSON");
    same_numbers(&whole(run), &whole(&copy));
    let manifest = json_of(&copy.join("manifest.json"));
    assert_eq!(
        (&manifest["scrubbed"]["left_out"], &manifest["scrubbed"]["replaced"]),
        (&told["left_out"], &told["replaced"])
    );
    let again = |run: &Path| -> Value {
        serde_json::from_slice(&on(run, "analyze", &["--json"]).stdout).expect("JSON")
    };
    same_numbers(&again(run), &again(&copy));
    on(&copy, "report", &[]);
    ends(quaver(&["compare", "--json"]).arg(run).arg(&copy), 0);
    assert_eq!(found_in(&copy), Vec::<String>::new(), "analyse and report bring nothing back");
    copy
}

/// A short chase without privilege.
fn chase(runs: &Path) -> PathBuf {
    let words = "chase --for 300ms --period 1ms --pace sleep --receive block --lab loopback --tier user --quiet --no-cost -o";
    ends(quaver(&words.split(' ').collect::<Vec<_>>()).arg(runs), 0);
    only_run(runs)
}

/// First deadline of the made-up chase, and its period, nanoseconds.
const START_NS: i64 = 5_000_000_000;
const PERIOD_NS: i64 = 1_000_000;
/// Packets that are held up, and for how long.
const HELD: [u64; 4] = [100, 200, 300, 350];
const HELD_NS: i64 = 700_000;

/// When a packet was due, and when the application had it.
fn due_and_read(seq: u64) -> (i64, i64) {
    let due_ns = START_NS + seq as i64 * PERIOD_NS;
    (due_ns, due_ns + if HELD.contains(&seq) { HELD_NS } else { 25_000 })
}

/// Four packets of 400 are late, each by something else on their receiver's CPU.
fn packets_and_events() -> (PacketTable, Vec<EventRecord>) {
    let stamped = [Layer::Schedule, Layer::Source, Layer::Enqueued, Layer::Ready];
    let column = |layer| LayerColumn { layer, before_app_ns: Vec::new() };
    let mut packets = PacketTable { layers: stamped.map(column).into(), ..PacketTable::default() };
    for seq in 0..400 {
        let (due_ns, app_ns) = due_and_read(seq);
        packets.seq.push(seq);
        packets.app_ns.push(app_ns);
        packets.app_cpu.push(1);
        packets.stack_cpu.push(0);
        for (column, after_ns) in packets.layers.iter_mut().zip([0, 100, 10_000, 11_000]) {
            column.before_app_ns.push(app_ns - due_ns - after_ns);
        }
    }
    let event = |kind: EventKind, id, aux, seq| {
        let (due_ns, app_ns) = due_and_read(seq);
        let (start_ns, end_ns) = (due_ns as u64 + 15_000, app_ns as u64 - 1_000);
        EventRecord { kind: kind as u8, id, aux, cpu: 1, start_ns, end_ns, detail: 0 }
    };
    let mut events = vec![
        event(EventKind::Thread, 4242, 120, HELD[0]),
        event(EventKind::Thread, 4243, 120, HELD[1]),
        event(EventKind::Irq, 41, 0, HELD[2]),
        event(EventKind::Vector, 1, 0, HELD[3]),
        event(EventKind::Hrtimer, 0, FUNCTION, HELD[3]),
        event(EventKind::Hrtimer, 0, 7, 20),
    ];
    sort_events(&mut events);
    (packets, events)
}

/// A made-up chase with private things wherever one can have them.
fn planted_chase(runs: &Path) -> PathBuf {
    let run = RunDir::create(runs, "chase").expect("made");
    let asked = json!({
        "command": "quaver chase --for 300ms --output /srv/quillon/runs --pid 4711471147",
        "stream": "1428 bytes every 1.00 ms, from 10.20.30.40",
        "notes": ["the receiver vexatious reads /srv/quillon/feed from 10.20.30.40:5004"],
        "something_new": {"of": ["Gloaming Tide"]},
    });
    let cmdline = "quiet root=/dev/zanzibar ip=10.20.30.40 isolcpus=1";
    let host = json!({"kernel": {"hostname": "zanzibar", "release": "6.18.5", "cmdline": cmdline}, "cpu": {"online": [0, 1]}});
    let mut manifest = Manifest::begin("0.1.0", "chase", asked, host, 1_795_193_880_000_000_001);
    let stream = |address: &str| Stream {
        destination: address.to_owned(),
        source: Some("[fd12:3456::9]:5004".to_owned()),
        profile: None,
        payload: StreamPayload::Ours { offset: 0 },
        payload_bytes: Some(1428),
    };
    manifest.analysis = Some(AnalysisFacts {
        period_ns: Some(PERIOD_NS as f64),
        source_on_this_host: true,
        receiver: Actor { threads: vec![77], cpu: Some(1), ..Actor::default() },
        source: Some(Actor { threads: vec![78], cpu: Some(0), ..Actor::default() }),
        streams: vec![stream("10.20.30.40:5004")],
        circumstances: Circumstances { traced_cpus: vec![0, 1], ..Circumstances::default() },
        tier: "bpf".to_owned(),
        tier_reason: Some("zanzibar has 0c:ee:12:00:00:01".to_owned()),
        ..AnalysisFacts::default()
    });
    manifest.end(1_795_193_881_000_000_000, None);
    run.write_manifest(&manifest).expect("written");
    let threads = [(4242, "vexatious"), (4243, "Gloaming Tide"), (17, "ksoftirqd/0")];
    let names = Names {
        irq: [(41, "wlp9s0-TxRx-0".to_owned())].into(),
        task: threads.map(|(number, name)| (number, name.to_owned())).into(),
        symbol: [(FUNCTION, "krypton_poll".to_owned()), (7, "tick_nohz_handler".to_owned())].into(),
        ..Names::default()
    };
    let (packets, events) = packets_and_events();
    write_packets(&run.samples(), &packets).expect("written");
    write_events(&run.events(), &events, &names).expect("written");
    run.write_names(&names).expect("written");
    on(run.path(), "analyze", &[]);
    run.path().to_owned()
}

#[test]
fn a_copy_of_a_chase_has_nothing_of_what_was_planted_and_all_numbers() {
    let (_place, runs) = place();
    let run = planted_chase(&runs);
    fs::write(run.join("tags.txt"), "quillon\n").expect("written");
    fs::write(run.join("quillon.txt"), "of people").expect("written");
    let planted = found_in(&run).join(", ");
    for part in PLANTED.iter().filter(|part| !["opalescent", "81234560"].contains(part)) {
        assert!(planted.contains(part), "{part} is in the run: {planted}");
    }
    for name in ["vexatious", "Gloaming", "wlp9s0", "krypton_poll"] {
        for file in ["summary.json", "late.parquet", "events.parquet", "report.html"] {
            assert!(planted.contains(&format!("{name} in {file}")), "{name} is a cause: {planted}");
        }
    }
    let copy = scrubbed(&run);

    let of = |name: &str| json_of(&copy.join(name));
    let left = of("manifest.json")["scrubbed"]["left_out"].to_string();
    assert!(left.contains("tags.txt") && left.contains(".txt") && !left.contains("quillon"), "{left}");
    // One name is one pseudonym everywhere, and the two threads are still told apart.
    let names = of("names.json");
    let (one, other) = (&names["task"]["4242"], &names["task"]["4243"]);
    assert!(one != other && names["task"]["17"] == "ksoftirqd/0", "{names}");
    let one = one.as_str().expect("a name");
    assert!(of("manifest.json")["asked"]["notes"].to_string().contains(one));
    assert!(said(&copy.join("events.parquet")).contains(&format!("thread {one} (4242)")));
    // The function keeps its late time and its events, at an address that tells nothing.
    let symbols = names["symbol"].as_object().expect("an object").clone();
    let events = read_events(&copy.join("events.parquet")).expect("a table");
    let timers: Vec<String> = events
        .iter()
        .filter(|event| event.kind == EventKind::Hrtimer as u8)
        .map(|event| event.aux.to_string())
        .collect();
    assert!(
        timers.iter().all(|address| symbols.contains_key(address)) && timers.len() == 2,
        "{symbols:?} {timers:?}"
    );
    let causes = of("summary.json")["causes"].to_string();
    let ours = symbols.values().filter_map(Value::as_str).find(|name| *name != "tick_nohz_handler");
    for cause in [format!("timer {}", ours.expect("a name")), format!("thread {one} (normal)")] {
        assert!(causes.contains(&format!("\"{cause}\"")), "{cause}: {causes}");
    }
    assert_eq!(of("manifest.json")["analysis"]["streams"][0]["destination"], "198.18.0.1:5004");
    assert_eq!(of("manifest.json")["asked"]["command"], "quaver chase --for --output --pid");
}

#[test]
fn a_copy_of_a_noise_run_has_its_numbers() {
    let (_place, runs) = place();
    ends(quaver(&["noise", "--for", "300ms", "--tier", "user", "--json", "-o"]).arg(&runs), 0);
    let run = only_run(&runs);
    change(&run.join("manifest.json"), |manifest| manifest["host"]["kernel"]["hostname"] = json!("zanzibar"));
    scrubbed(&run);
}

/// A server of tests, ended when dropped.
struct Server(std::process::Child, u16);

impl Server {
    fn start() -> Self {
        let mut command = quaver(&["serve", "--bind", "127.0.0.1", "--port", "0", "--test-port", "0"]);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("it says its port");
        std::thread::spawn(move || said.read_to_string(&mut String::new()));
        let rest = line.split("127.0.0.1:").nth(1).expect("its address");
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Self(child, digits.parse().expect("a port"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_copy_of_a_mesh_and_its_tests_has_no_host() {
    let (place, runs) = place();
    let server = Server::start();
    let hosts = place.path().join("hosts.toml");
    let text = format!("[[host]]\nname = 'quillon-house'\naddress = '127.0.0.1'\nport = {}\n", server.1);
    fs::write(&hosts, text).expect("written");
    let mut command =
        quaver(&["probe", "--rtt-interval", "5ms", "--period", "1ms", "--count", "100", "--quiet", "--mesh"]);
    ends(command.arg(&hosts).arg("-o").arg(&runs), 0);
    let mesh = only_run(&runs);
    let test = only_run(&mesh.join("tests"));
    for run in [&mesh, &test] {
        change(&run.join("manifest.json"), |manifest| {
            manifest["host"]["kernel"]["hostname"] = json!("zanzibar")
        });
    }
    change(&test.join("manifest.json"), |manifest| {
        manifest["path"]["peer"] = json!("10.20.30.40:862");
        manifest["path"]["flows"][0]["destination"] = json!("[fd12:3456::9]:862");
    });
    assert!(found_in(&mesh).join(" ").contains("quillon in summary.json"));
    let copy = scrubbed(&mesh);
    let test = only_run(&copy.join("tests"));
    on(&test, "analyze", &[]);
    assert_eq!(json_of(&test.join("manifest.json"))["path"]["peer"], "198.18.0.1:862");
    let pair = &json_of(&copy.join("summary.json"))["pairs"][0];
    let (from, to) = (pair["from"].as_str().expect("a name"), pair["to"].as_str().expect("a name"));
    assert_eq!(pair["id"], format!("{from}-{to}"), "the parts of a pair are still its hosts");
}

/// Two threads that wait for each other.
const PROGRAM: &str = "
#include <pthread.h>
static pthread_mutex_t vexatious_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long count;
__attribute__((noinline)) static void krypton_poll_push(void) {
    pthread_mutex_lock(&vexatious_lock);
    for (int i = 0; i < 20000; i++) count++;
    pthread_mutex_unlock(&vexatious_lock);
}
static void *quillon_work(void *argument) {
    for (int i = 0; i < 200; i++) krypton_poll_push();
    return argument;
}
int main(void) {
    pthread_t one, other;
    pthread_create(&one, 0, quillon_work, 0);
    pthread_create(&other, 0, quillon_work, 0);
    pthread_join(one, 0);
    pthread_join(other, 0);
}
";

#[test]
fn a_copy_of_a_threaded_program_names_neither_it_nor_its_threads_and_functions() {
    let bench = sync_run::Bench::of_text(PROGRAM, &["-g", "-O1", "-pthread"]);
    let (_place, runs) = place();
    let program = runs.parent().expect("it lies in one").join("zanzibar-feed");
    fs::copy(bench.program(), &program).expect("copied");
    let mut command = bench.quaver(&["sync", "--quiet", "-o"]);
    command.arg(&runs).arg("--").arg(&program).args(["--to", "10.20.30.40", "4711471147"]);
    ends(&mut command, 0);
    let run = only_run(&runs);
    // Which waits were late, and thus which names are stored, is chance.
    change(&run.join("sync/names.json"), |images| {
        images[0]["objects"]["4210752"] = json!("vexatious_lock+0x8");
        images[0]["callers"]["4198400"] = json!("krypton_poll_push+0x12 (zanzibar-feed)");
        images[0]["threads"]["4242"] = json!("quillon_work");
    });
    let planted = found_in(&run).join(", ");
    for part in ["zanzibar", "quillon", "vexatious", "krypton_poll", "10.20.30.40", "4711471147"] {
        assert!(planted.contains(part), "{part}: {planted}");
    }
    scrubbed(&run);
}

#[test]
fn of_a_copy_that_cannot_be_finished_nothing_is_left() {
    let (_place, runs) = place();
    let run = chase(&runs);
    let left = |runs: &Path| fs::read_dir(runs).expect("a directory").count();
    // Files may have a few kilobytes only, as on a full disk; the signal that says so is ignored.
    let mut full = Command::new("sh");
    full.args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_quaver"), "scrub"]);
    let said = String::from_utf8_lossy(&ends(full.arg(&run), 6).stderr).into_owned();
    assert!(said.contains("writ"), "{said}");
    assert_eq!(left(&runs), 1);

    // A directory that exists stays as it is.
    let there = runs.join("there");
    fs::create_dir(&there).expect("made");
    ends(quaver(&["scrub", "--output"]).arg(&there).arg(&run), 6);
    ends(quaver(&["scrub", "--output"]).arg(run.join("inside")).arg(&run), 6);
    assert_eq!((left(&runs), left(&there)), (2, 0));

    let samples = run.join("samples.parquet");
    let whole = fs::read(&samples).expect("read");
    fs::write(&samples, &whole[..whole.len() / 2]).expect("written");
    ends(quaver(&["scrub"]).arg(&run), 5);
    fs::write(run.join("summary.json"), "{").expect("written");
    ends(quaver(&["scrub"]).arg(&run), 5);
    assert_eq!(left(&runs), 2);
}

#[test]
fn a_traced_chase_loses_the_names_of_all_threads() {
    if !privileged("a_traced_chase_loses_the_names_of_all_threads") {
        return;
    }
    let (_place, runs) = place();
    let words = "chase --for 300ms --period 1ms --quiet --no-cost --tier tracefs -o";
    ends(quaver(&words.split(' ').collect::<Vec<_>>()).arg(&runs), 0);
    let run = RunDir::open(&only_run(&runs)).expect("a run");
    let mut names = run.read_names().expect("names");
    assert!(!names.task.is_empty() && !names.symbol.is_empty(), "{names:?}");
    for name in names.task.values_mut().filter(|name| !name.contains('/') && !name.starts_with("rcu")) {
        *name = format!("quillon-{name}");
    }
    run.write_names(&names).expect("written");
    let events = read_events(&run.events()).expect("events");
    write_events(&run.events(), &events, &names).expect("written");
    on(run.path(), "analyze", &[]);
    assert!(found_in(run.path()).join(" ").contains("quillon in events.parquet"));
    scrubbed(run.path());
}
