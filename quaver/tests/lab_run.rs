//! Settings that this host may lack, set and put back in a guest of the QEMU lab, whose kernel is a stock one.

use quaver_testbed::privileged::{Lack, skip};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn quaver(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quaver")).args(args).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_partition_of_control_groups_is_made_and_taken_away() {
    let name = "a_partition_of_control_groups_is_made_and_taken_away";
    let looked = quaver(&["lab", "doctor", "qemu"]);
    if !looked.status.success() {
        println!("{}", String::from_utf8_lossy(&looked.stdout));
        return skip(name, Lack::Installed("the QEMU lab"));
    }
    let mut words = vec!["lab", "run", "--"];
    words.extend(["tune", "apply", "--cpu", "2", "--only", "cfs-preempt", "--json", "+"]);
    words.extend(["tune", "audit", "--cpu", "2", "--no-watch", "--json", "+"]);
    words.extend(["tune", "revert", "--json", "+", "tune", "status", "--json"]);
    let output = quaver(&words);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let documents: Vec<Value> =
        serde_json::Deserializer::from_str(&text).into_iter().map(|one| one.unwrap()).collect();
    let [applied, audit, reverted, status] = &documents[..] else {
        panic!("a document a command: {text}");
    };
    let changes = applied["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 4, "controller, group, its CPU, and what it is: {applied:#}");
    for change in changes {
        // The kernel would say "isolated invalid" of a partition that it does not take.
        assert_eq!(change["outcome"], "set", "{change:#}");
    }
    assert_eq!((&changes[3]["before"], &changes[3]["now"]), (&"member".into(), &"isolated".into()));
    let rows = audit["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["id"] == "cfs-preempt").unwrap();
    assert_eq!(row["verdict"], "good", "{row:#}");
    let undone = reverted["changes"].as_array().unwrap();
    assert!(undone.len() == 4 && undone.iter().all(|one| one["fate"]["fate"] == "restored"), "{reverted:#}");
    assert_eq!(status["changes"].as_array().unwrap().len(), 0, "{status:#}");
}
