//! What `quaver sync` says that half the hold of a lock would gain, against programs whose hold is really halved.

mod sync_run;

use std::process::Command;
use sync_run::{Bench, before_others, number};

/// Part of the measured gain by which the predicted one may differ.
const TOLERANCE: f64 = 0.2;
/// Gains below this part of the run's length are none.
const LEAST: f64 = 0.03;
/// Pairs of runs with whole and with half holds, in turns.
const PAIRS: usize = 5;
/// Runs that are recorded.
const RECORDED: usize = 3;

/// Part of its length by which the program is shorter with half the hold. Others on this machine only make a run longer, so the
/// shortest ones are compared.
fn measured(bench: &Bench, design: &str) -> f64 {
    let length_ns = |hold: &str| -> u64 {
        let output = Command::new(bench.program()).args([design, hold, "sleep"]).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).trim().parse().expect("its length")
    };
    let pairs: Vec<(u64, u64)> = (0..PAIRS).map(|_| (length_ns("whole"), length_ns("half"))).collect();
    let whole_ns = pairs.iter().map(|(whole_ns, _)| *whole_ns).min().expect("there are some");
    let half_ns = pairs.iter().map(|(_, half_ns)| *half_ns).min().expect("there are some");
    1.0 - half_ns as f64 / whole_ns as f64
}

/// What is said of the lock `hot`, by the shortest run with whole holds alone.
fn predicted(bench: &Bench, design: &str) -> f64 {
    let gains = (0..RECORDED).map(|_| {
        let ended = bench.sync(&[]).args([design, "whole", "sleep"]).output().expect("the program runs");
        assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
        let contention = bench.summary()["contention"].clone();
        let locks = contention["locks"].as_array().expect("a list");
        let hot = locks.iter().find(|lock| lock["name"] == "hot").expect("it is used");
        let gain = hot["gain"]["hold_halved"].as_f64();
        let replay = &contention["replay"];
        (number(replay, "/recorded_ns"), gain.unwrap_or_else(|| panic!("{design}: {hot} {replay}")))
    });
    gains.min_by_key(|(length_ns, _)| *length_ns).expect("there are some").1
}

fn agrees(design: &str) {
    let _alone = before_others();
    let bench = Bench::of("designs");
    let (predicted, measured) = (predicted(&bench, design), measured(&bench, design));
    println!("{design}: {predicted:.3} predicted, {measured:.3} measured");
    let apart = (predicted - measured).abs();
    assert!(
        apart <= TOLERANCE * measured || apart <= LEAST,
        "{design}: {predicted} predicted, {measured} measured"
    );
}

#[test]
fn one_hot_lock() {
    agrees("hot");
}

#[test]
fn a_lock_that_is_seldom_waited_for() {
    agrees("free");
}

#[test]
fn two_threads_that_take_turns_and_never_wait() {
    agrees("alternate");
}

#[test]
fn a_convoy() {
    agrees("convoy");
}

#[test]
fn more_threads_than_cpus() {
    agrees("many");
}

#[test]
fn the_longest_waited_for_lock_is_another_one() {
    agrees("decoy");
}

#[test]
fn the_longest_waited_for_lock_is_not_the_bottleneck() {
    let _alone = before_others();
    let bench = Bench::of("designs");
    let (predicted, measured) = (predicted(&bench, "innocent"), measured(&bench, "innocent"));
    assert!(
        predicted.abs() <= LEAST && measured.abs() <= LEAST,
        "{predicted} predicted, {measured} measured"
    );
    let advice = bench.summary()["advice"].clone();
    let advice = advice.as_array().expect("a list");
    let told: Vec<&str> = advice.iter().filter_map(|one| one["change"].as_str()).collect();
    let names_decoy =
        told.iter().any(|change| change.ends_with(" decoy.") || change.starts_with("Hold decoy "));
    assert!(names_decoy, "{told:?}");
    assert!(!told.iter().any(|change| change.contains("hot")), "{told:?}");
}

#[test]
fn a_pipeline_whose_next_stage_becomes_the_bottleneck() {
    agrees("pipeline");
}

#[test]
fn phases_that_end_at_a_barrier() {
    agrees("phases");
}

#[test]
fn teams_of_threads_that_are_created_one_after_another() {
    agrees("teams");
}

#[test]
fn loops_of_tries_are_told_since_no_gain_knows_of_them() {
    let _alone = before_others();
    let warns = |design: &str| {
        let bench = Bench::of("designs");
        let ended = bench.sync(&[]).args([design, "whole", "sleep"]).output().expect("the program runs");
        assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
        let warnings = bench.summary()["warnings"].to_string();
        (warnings.contains("tries found a lock"), warnings)
    };
    let (told, warnings) = warns("tries");
    assert!(told, "{warnings}");
    let (told, warnings) = warns("hot");
    assert!(!told, "{warnings}");
}
