//! A clock that is stepped and a processor that goes away and comes back, in a guest of the QEMU lab: on this machine both would
//! disturb others.

use quaver_testbed::privileged::{Lack, skip};
use serde_json::Value;
use std::process::{Command, Output, Stdio};

fn quaver(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quaver"));
    command.args(words.split_whitespace()).stdin(Stdio::null()).output().unwrap()
}

/// Whether there is a lab.
fn has_lab(name: &str) -> bool {
    let looked = quaver("lab doctor qemu");
    if !looked.status.success() {
        println!("{}", String::from_utf8_lossy(&looked.stdout));
        skip(name, Lack::Installed("the QEMU lab"));
    }
    looked.status.success()
}

/// What verbs print as JSON in a guest while each meets this fault, one after the other, and the status of the last.
fn under(fault: &str, verbs: &[&str]) -> (Vec<Value>, Option<i32>) {
    let words = verbs.iter().map(|words| format!("{words} -q --json")).collect::<Vec<_>>().join(" + ");
    let output = quaver(&format!("lab run {fault} -- {words}"));
    let said = String::from_utf8_lossy(&output.stderr);
    let found = serde_json::Deserializer::from_slice(&output.stdout).into_iter();
    let found: Vec<Value> = found.map(|one| one.unwrap_or_else(|error| panic!("{error}: {said}"))).collect();
    assert_eq!(found.len(), verbs.len(), "{found:#?}{said}");
    (found, output.status.code())
}

fn sentences<'a>(found: &'a Value, key: &str) -> Vec<&'a str> {
    let all = found[key].as_array().unwrap_or_else(|| panic!("{found:#}"));
    all.iter().map(|sentence| sentence.as_str().unwrap()).collect()
}

const CHASE: &str = "chase --for 2s --period 20ms --pace sleep --receive block --lab loopback --tier user --no-cost \
    --source-cpu 1 --sink-cpu 2";
const NOISE: &str = "noise --for 2s --tier user --cpus 2";
const CAPTURE: &str = "capture -i lo --for 2s -o lo.pcapng";

#[test]
fn a_step_of_the_clock_is_named_with_its_size_and_lateness_has_none_of_it() {
    if !has_lab("a_step_of_the_clock_is_named_with_its_size_and_lateness_has_none_of_it") {
        return;
    }
    let (found, status) = under("--step-clock 300ms --after 1500ms", &[CHASE, NOISE, CAPTURE]);
    let [chase, noise, capture] = &found[..] else { panic!("three") };
    assert_eq!(status, Some(0), "{found:#?}");
    for measured in [chase, noise] {
        let steps = sentences(measured, "warnings").into_iter().filter(|one| one.contains("was stepped"));
        let steps = Vec::from_iter(steps);
        assert!(steps.len() == 1 && steps[0].contains("stepped forward by 300 ms"), "{steps:?}");
        assert_eq!(measured["complete"], true);
    }
    // The guest's time is virtual: a packet is late by microseconds, or by the step.
    let layers = chase["layers"].as_array().unwrap();
    assert!(layers.iter().any(|layer| layer["layer"] == "kernel-stamp"), "{layers:#?}");
    for layer in layers {
        assert_eq!(layer["stamped"], 100, "{layer:#}");
        assert!(layer["delta_t"]["max_ns"].as_i64().unwrap() < 200_000_000, "{layer:#}");
    }
    let notes = sentences(capture, "notes");
    assert!(notes.iter().any(|note| note.contains("wall clock stepped by 300 ms")), "{notes:?}");
    // The length is that of the clock that does not step.
    assert!(capture["duration_ns"].as_i64().unwrap() < 2_200_000_000, "{capture:#}");
}

#[test]
fn a_processor_that_goes_and_comes_back_ends_what_needs_it_and_nothing_else() {
    if !has_lab("a_processor_that_goes_and_comes_back_ends_what_needs_it_and_nothing_else") {
        return;
    }
    for (verbs, whose) in [(&[CAPTURE, NOISE][..], "loop"), (&[CHASE], "sink")] {
        let (found, status) = under("--offline 2 --after 1s", verbs);
        assert_eq!(status, Some(6), "{found:#?}");
        let ended = found.last().unwrap();
        let sentence = format!("CPU 2, which the {whose} was bound to, was taken offline");
        let warnings = sentences(ended, "warnings");
        assert!(warnings.iter().any(|one| one.contains(&sentence)), "{warnings:?}");
        assert!(warnings.iter().all(|one| !one.contains("stepped")), "{warnings:?}");
        assert_eq!(ended["complete"], false);
        if let [capture, _] = &found[..] {
            assert_eq!(capture["ended_by"], "time", "{capture:#}");
        }
    }
}
