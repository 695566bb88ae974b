//! A study one of whose factors sets a row of the catalogue: real settings of this machine, set while its cells are measured
//! and put back byte for byte, also after a kill.

use quaver_testbed::privileged::privileged;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PLAN: &str = "
[study]
for = '60ms'
warm-up = '20ms'
blocks = 5
sender-limit = 1.0
trace = false
[stream]
period = '50us'
[[factor]]
id = 'still'
class = 'network-independent'
tune = ['compaction']
";
/// What the row sets to 0.
const SETTINGS: [&str; 2] =
    ["/proc/sys/vm/compaction_proactiveness", "/proc/sys/vm/compact_unevictable_allowed"];

fn settings() -> [Vec<u8>; 2] {
    SETTINGS.map(|path| std::fs::read(path).unwrap())
}

fn study(directory: &Path) -> Child {
    let plan = directory.join("plan.toml");
    std::fs::write(&plan, PLAN).unwrap();
    Command::new(env!("CARGO_BIN_EXE_quaver"))
        .args(["study", "run", "--quiet", "--lab", "netns", "-o"])
        .arg(directory.join("runs"))
        .arg("--journal")
        .arg(directory.join("journal"))
        .arg(&plan)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn rows_of_the_catalogue_are_set_for_their_cells_and_put_back() {
    let name = "rows_of_the_catalogue_are_set_for_their_cells_and_put_back";
    if !privileged(name) {
        return;
    }
    let before = settings();
    assert!(before.iter().any(|value| value != b"0\n"), "there is something to set: {before:?}");
    let directory = tempfile::tempdir().unwrap();
    let mut child = study(directory.path());
    let mut set = false;
    let status = loop {
        set |= settings().iter().all(|value| value == b"0\n");
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(status.success());
    assert!(set, "the row was set meanwhile");
    assert_eq!(settings(), before, "byte for byte");

    // Killed in the middle of such a cell.
    let mut child = study(directory.path());
    while !settings().iter().all(|value| value == b"0\n") {
        assert!(child.try_wait().unwrap().is_none(), "a cell sets it");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let revert = Command::new(env!("CARGO_BIN_EXE_quaver"))
        .args(["tune", "revert", "--journal"])
        .arg(directory.path().join("journal"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&revert.stdout).into_owned();
    assert!(revert.status.success(), "{said}");
    assert_eq!(settings(), before, "{said}");
}
