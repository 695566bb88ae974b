//! `quaver study run` as a user runs it: over loopback without rights, between namespaces as root. No test asserts a latency.

use quaver_testbed::privileged::privileged;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A short plan that needs no rights: 4 arms.
const PLAN: &str = "
[study]
for = '60ms'
warm-up = '20ms'
blocks = 5
sender-limit = 1.0
trace = false
pairs = [['blocking', 'asleep']]
[stream]
period = '50us'
size = 200
[[factor]]
id = 'blocking'
receive = 'block'
[[factor]]
id = 'asleep'
class = 'network-independent'
pace = 'sleep'
";

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        std::fs::write(place.plan(), PLAN).unwrap();
        place
    }

    fn plan(&self) -> PathBuf {
        self.directory.path().join("plan.toml")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
        command.args(["study", "run", "--quiet", "-o"]).arg(self.directory.path().join("runs")).args(args);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program was built for this test")
    }

    /// The only run.
    fn made(&self) -> PathBuf {
        let mut runs = std::fs::read_dir(self.directory.path().join("runs")).unwrap();
        let run = runs.next().expect("there is a run").unwrap().path();
        assert!(runs.next().is_none(), "there is one run only");
        run
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Files of figures; beside each lies one of stamps, which is looked at where that matters.
fn cells(run: &Path) -> Vec<(String, Vec<u8>)> {
    let all = std::fs::read_dir(run.join("cells")).unwrap().map(|entry| entry.unwrap().path());
    let files = all.filter(|path| path.extension().is_none_or(|extension| extension != "parquet"));
    let mut found: Vec<(String, Vec<u8>)> = files
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    found.sort();
    found
}

/// Block and arm of each; a cell that does not count is measured once more, so that some may be there twice.
fn places(cells: &[(String, Vec<u8>)]) -> std::collections::BTreeSet<(u64, String)> {
    let of = |(_, octets): &(String, Vec<u8>)| {
        let cell: Value = serde_json::from_slice(octets).unwrap();
        (cell["block"].as_u64().unwrap(), cell["arm"].as_str().unwrap().to_owned())
    };
    cells.iter().map(of).collect()
}

#[test]
fn a_study_over_loopback_measures_every_cell_once_and_reads_the_same_again() {
    let place = Place::new();
    let plan = place.plan();
    let plan = plan.to_str().unwrap();
    let summary = json(&place.run(&[plan, "--lab", "loopback", "--json"]));
    assert_eq!((&summary["schema"], &summary["complete"]), (&"quaver.study/1".into(), &true.into()));
    assert_eq!(summary["cells_planned"].as_u64(), Some(25));
    let arms: Vec<&str> =
        summary["facts"]["arms"].as_array().unwrap().iter().map(|arm| arm["id"].as_str().unwrap()).collect();
    assert_eq!(arms, ["baseline", "control (A/A)", "blocking", "asleep", "blocking+asleep"]);
    let warnings = summary["warnings"].as_array().unwrap();
    let said = |words: &str| warnings.iter().any(|warning| warning.as_str().unwrap().contains(words));
    assert!(said("5 blocks cannot tell any of 2 factors from chance"), "{warnings:?}");

    let run = place.made();
    let kept = cells(&run);
    assert_eq!(Some(kept.len() as u64), summary["cells"].as_u64(), "a file a cell and nothing else");
    assert_eq!(places(&kept).len(), 25, "every arm in every block");
    for (name, octets) in &kept {
        let cell: Value = serde_json::from_slice(octets).unwrap();
        let layers = cell["layers"].as_array().unwrap();
        for layer in layers {
            let count: u64 =
                layer["bins"].as_array().unwrap().iter().map(|bin| bin[1].as_u64().unwrap()).sum();
            assert_eq!(Some(count), layer["figures"]["count"].as_u64(), "{name}: every delta is in a bin");
        }
        assert!(cell["received"].as_u64() <= cell["sent"].as_u64());
        assert!(cell["sent"].as_u64().unwrap() <= 1_201, "{name}: 60 ms hold 1200 slots of 50 us");
    }
    for (name, octets) in &kept {
        let cell: Value = serde_json::from_slice(octets).unwrap();
        let stamps = run.join("cells").join(name).with_extension("parquet");
        let table = quaver_study::stamps::read_study_stamps(&stamps).unwrap();
        assert_eq!(Some(table.len() as u64), cell["received"].as_u64(), "{name}: a row a packet");
    }
    let before =
        [std::fs::read(run.join("summary.json")).unwrap(), std::fs::read(run.join("report.html")).unwrap()];
    let again = Command::new(env!("CARGO_BIN_EXE_quaver")).arg("analyze").arg(&run).output().unwrap();
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(text(&again.stdout).contains("Ranking"));
    let after =
        [std::fs::read(run.join("summary.json")).unwrap(), std::fs::read(run.join("report.html")).unwrap()];
    assert!(before == after, "the same cells give the same bytes");
    assert_eq!(cells(&run), kept);

    // A cell that lost its stamps is noticed; its figures hold.
    std::fs::remove_file(run.join("cells").join(&kept[3].0).with_extension("parquet")).unwrap();
    let page =
        Command::new(env!("CARGO_BIN_EXE_quaver")).args(["analyze", "--json"]).arg(&run).output().unwrap();
    let mut without = json(&page);
    let warnings = without["warnings"].as_array_mut().unwrap();
    let lost = warnings.pop().unwrap();
    let name = kept[3].0.replace("json", "parquet");
    let said = format!(
        "the stamps of 1 of {} cells are gone, for example cells/{name}: copy the run whole",
        kept.len()
    );
    assert!(lost.as_str().unwrap().starts_with(&said), "{lost}");
    assert_eq!(without["ranking"], summary["ranking"]);
}

#[test]
fn a_killed_study_goes_on_where_it_was() {
    let place = Place::new();
    let plan = place.plan();
    let mut child =
        place.command(&[plan.to_str().unwrap(), "--lab", "loopback"]).stdout(Stdio::null()).spawn().unwrap();
    let runs = place.directory.path().join("runs");
    let three = || {
        let run = std::fs::read_dir(&runs).ok()?.next()?.ok()?.path();
        let cells = std::fs::read_dir(run.join("cells")).ok()?;
        let done = cells.filter(|entry| {
            entry
                .as_ref()
                .is_ok_and(|entry| entry.path().extension().is_some_and(|extension| extension == "json"))
        });
        (done.count() >= 3).then_some(())
    };
    while three().is_none() {
        assert!(child.try_wait().unwrap().is_none(), "it was killed before its end");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let run = place.made();
    let early: Vec<_> = cells(&run).into_iter().filter(|(name, _)| name.ends_with(".json")).collect();
    assert!(early.len() >= 3 && places(&early).len() < 25);
    let summary = json(&place.run(&["--resume", run.to_str().unwrap(), "--lab", "netns", "--json"]));
    assert_eq!((&summary["complete"], summary["cells_planned"].as_u64()), (&true.into(), Some(25)));
    let late = cells(&run);
    assert!(early.iter().all(|cell| late.contains(cell)), "what was measured is not measured again");
    assert!(
        late.iter().all(|(name, _)| name.ends_with(".json")),
        "what the killed process left half done is gone"
    );
    assert_eq!(places(&late).len(), 25, "every arm in every block");
}

/// Runs the paper's matrix with few samples; its summary.
fn paper(place: &Place, lab: &str) -> Value {
    let mut command = Command::new("setsid");
    command.args(["-w", env!("CARGO_BIN_EXE_quaver"), "study", "paper", "--json", "--lab", lab]);
    command.args(["--samples", "2000", "--blocks", "5"]);
    command.arg("-o").arg(place.directory.path().join("runs")).stdin(Stdio::null());
    let output = command.output().unwrap();
    let (summary, said) = (json(&output), text(&output.stderr));
    assert!(said.contains("Generator: standard deviation"), "the generator is judged first: {said}");
    let run = place.made();
    let judged = std::fs::metadata(run.join("generator.parquet")).unwrap().modified().unwrap();
    let first = std::fs::metadata(run.join("cells/b0000-p000.json")).unwrap().modified().unwrap();
    assert!(judged <= first, "before any cell");
    summary
}

/// What holds in every lab.
fn check_paper(place: &Place, summary: &Value) {
    let paper = &summary["paper"];
    let figures = paper["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 14);
    for figure in figures {
        let told =
            figure["status"] == "not-here" && figure["reason"].as_str().is_some_and(|why| !why.is_empty());
        assert!(told != figure["here"].is_object(), "either measured or a reason: {figure:#}");
    }
    let of = |id: &str| figures.iter().find(|figure| figure["id"] == id).unwrap();
    assert_eq!(of("dummy")["here"]["figures"]["count"], 1_999, "a delta less than turns");
    // On a busy machine the sender may have had no CPU in any cell of an arm; then that is the reason.
    let counts = |arm: &str| {
        let arms = summary["arms"].as_array().unwrap();
        arms.iter().find(|one| one["id"] == arm).unwrap()["cells"].as_u64() > Some(0)
    };
    let blocking = of("blocking-no-idle-poll");
    assert_eq!(blocking["status"] == "measured", counts("blocking-no-idle-poll"), "{blocking:#}");
    let drawn = &of("generator")["here"];
    let bins: u64 = drawn["bins"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(Some(bins), drawn["figures"]["count"].as_u64());
    assert_eq!(paper["generator"]["first"], true);
    assert!(paper["generator"]["conclusions"].as_array().is_some_and(|sentences| sentences.len() == 3));
    // Waking up takes packets farther apart, beside a core that is kept awake.
    let wake_up = of("no-idle-poll");
    assert_eq!((&wake_up["status"], &wake_up["own_period_ns"]), (&"emulated".into(), &200_000.into()));
    assert!(wake_up["beside"][0].as_str().is_some_and(|words| words.contains("awake")), "{wake_up:#}");
    assert!(paper["notes"][0].as_str().unwrap().contains("Figure 9"));

    // Drawn again from what was kept.
    let run = place.made();
    let traced = cells(&run).iter().any(|(_, octets)| text(octets).contains("\"tier\":\"bpf\""));
    if traced && counts("baseline") {
        let first = &figures[2];
        assert_eq!((&first["figure"], &first["layer"]), (&"6a, 7a".into(), &"softirq".into()));
        assert!(figures[3]["code_paths"]["clusters"].as_array().is_some_and(|found| !found.is_empty()));
    }
    let report = std::fs::read(run.join("report.html")).unwrap();
    let again = Command::new(env!("CARGO_BIN_EXE_quaver")).arg("analyze").arg(&run).output().unwrap();
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(std::fs::read(run.join("report.html")).unwrap() == report);
    let page = text(&again.stdout);
    assert!(text(&report).contains("id=\"figure-generator-time\"") && page.contains("The paper's figures"));
    let place_of = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words}: {page}"));
    assert!(place_of("Generator") < place_of("Ranking"), "the verdict on the generator comes first");

    // A copy of a part of it draws no figure less without a word.
    let counted = cells(&run).into_iter().find(|(_, octets)| !text(octets).contains("\"discarded\":\""));
    let counted = counted.map(|(name, _)| format!("cells/{}", name.replace("json", "parquet")));
    for gone in
        ["generator.parquet", "dummy.parquet", "wake-up-idle.parquet"].into_iter().chain(counted.as_deref())
    {
        let (there, aside) = (run.join(gone), place.directory.path().join("aside"));
        std::fs::rename(&there, &aside).unwrap();
        let refused = Command::new(env!("CARGO_BIN_EXE_quaver")).arg("analyze").arg(&run).output().unwrap();
        assert_eq!(refused.status.code(), Some(5), "{gone}: {}", text(&refused.stderr));
        let said = format!("open {}: it is missing", there.display());
        assert!(text(&refused.stderr).contains(&said), "{gone}: {}", text(&refused.stderr));
        std::fs::rename(&aside, &there).unwrap();
    }
    assert!(std::fs::read(run.join("report.html")).unwrap() == report);
}

#[test]
fn the_papers_matrix_is_measured_or_told_to_be_impossible_with_the_reason() {
    let place = Place::new();
    let summary = paper(&place, "loopback");
    check_paper(&place, &summary);
    let figures = summary["paper"]["figures"].as_array().unwrap();
    let itr = figures.iter().find(|figure| figure["id"] == "itr").unwrap();
    assert!(itr["reason"].as_str().unwrap().contains("no interrupts to throttle"));
}

#[test]
fn the_papers_matrix_between_namespaces_has_throttling_too() {
    let name = "the_papers_matrix_between_namespaces_has_throttling_too";
    if !privileged(name) {
        return;
    }
    let place = Place::new();
    let summary = paper(&place, "netns");
    check_paper(&place, &summary);
    let figures = summary["paper"]["figures"].as_array().unwrap();
    let of = |id: &str| figures.iter().find(|figure| figure["id"] == id).unwrap();
    for id in ["itr", "itr-blocking", "itr-no-idle-poll"] {
        assert!(of(id)["status"] == "emulated" || of(id)["here"].is_null(), "{:#}", of(id));
    }
    let arms = summary["facts"]["arms"].as_array().unwrap();
    assert!(arms.iter().any(|arm| arm["id"] == "itr"), "throttling is an arm here");
}

#[test]
fn mistakes_end_with_a_sentence_and_their_status() {
    let place = Place::new();
    let wrong = place.directory.path().join("wrong.toml");
    std::fs::write(&wrong, "[[factor]]\nid = 'gro'\ngro = true\n").unwrap();
    let wrong = wrong.to_str().unwrap();
    let missing = place.directory.path().join("missing.toml");
    for (args, status, said) in [
        (vec![wrong, "--lab", "loopback"], 2, "gro needs an interface of its own"),
        (vec![missing.to_str().unwrap()], 5, "missing.toml"),
        (vec![wrong, "--blocks", "4"], 2, "5..=1000"),
        (
            vec![place.plan().to_str().unwrap(), "--lab", "loopback", "--blocks", "6"],
            2,
            "use --blocks 7 or more",
        ),
        (vec!["--lab", "loopback", "--blocks", "5", "--for", "60ms"], 2, "5 blocks cannot tell any of"),
        (vec!["--resume", "/nowhere"], 5, "/nowhere"),
    ] {
        let output = place.run(&args);
        assert_eq!(output.status.code(), Some(status), "{args:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{args:?}: {}", text(&output.stderr));
    }
    std::fs::write(place.plan(), "[[factor]]\nid = 'x'\nclass = 'hardware'\ntune = ['no-such-row']\n")
        .unwrap();
    let output = place.run(&[place.plan().to_str().unwrap(), "--lab", "loopback"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(text(&output.stderr).contains("no-such-row: unknown source"), "{}", text(&output.stderr));
}
