//! Ten thousand points with next to nothing to simulate: what they take is what the sweep itself takes.

use super::ends::{start, wait_until};
use super::*;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Instant;

/// As many as `chip.remote_cycles` has values, but one.
const MANY: usize = 10_000;

#[test]
fn ten_thousand_points_are_submitted_killed_resumed_and_merged() {
    let place = tempfile::tempdir().unwrap();
    spinning(&place.path().join("spin.qtrace"), 1);
    let plan = format!(
        "[sweep]\ntraces = ['spin.qtrace']\n[[axis]]\nkey = 'machine.chip.remote_cycles'\nfrom = 1\nto = {MANY}\nstep = 1\n"
    );
    fs::write(place.path().join("many.toml"), plan).unwrap();
    let bin = place.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let says = "#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho 1234\n";
    quaver_testbed::stand_in::stand_in(&bin.join("sbatch"), says);
    let submit = ["sim", "sweep", "submit", "many.toml", "--tasks", "4", "--cpus", "2"];
    let submitted = quaver(place.path(), &submit).env("PATH", &bin).output().unwrap();
    assert!(expect(&submitted, 0).contains("job 1234 of Slurm: 4 tasks"));

    let here = place.path().join("runs/sweep-many");
    let done = || names(&here.join("points")).len();
    let task = |task: usize| {
        let shard = format!("{task}/4");
        sweep(place.path(), &["run", "runs/sweep-many", "-q", "--jobs", "2", "--shard", &shard])
    };
    let since = Instant::now();
    expect(&task(1), 0);
    // The second task is killed in the middle, and put into the queue again.
    let before = done();
    let args = ["sim", "sweep", "run", "runs/sweep-many", "-q", "--jobs", "2", "--shard", "2/4"];
    let mut killed = start(place.path(), &args);
    wait_until("some points of the second task", || done() >= before + 200);
    kill_process(Pid::from_child(&killed.0), Signal::KILL).unwrap();
    assert_eq!(killed.0.wait().unwrap().code(), None);
    let kept = done();
    assert!(kept < before + MANY / 5, "it was not done: {kept}");
    (2..=4).for_each(|number| drop(expect(&task(number), 0)));
    assert_eq!(done(), MANY);
    let each_us = since.elapsed().as_secs_f64() * 1e6 / MANY as f64;

    let since = Instant::now();
    expect(&sweep(place.path(), &["merge", "runs/sweep-many"]), 0);
    let all = json(&here.join("details.json"));
    assert_eq!((all["complete"].as_bool(), all["missing"].as_u64()), (Some(true), Some(0)));
    assert_eq!(all["points"].as_array().unwrap().len(), MANY);
    let begun = logged(&here);
    assert_eq!(begun.len(), MANY);
    let again = begun.values().filter(|what| what.iter().filter(|one| *one == "begins").count() > 1).count();
    assert!(again <= 2, "no more than what the killed task's two jobs were at: {again}");
    // Figures for whoever reads the test; nothing is asserted of them.
    println!(
        "a point: {each_us:.0} us beside its simulation; merging all: {:.2} s",
        since.elapsed().as_secs_f64()
    );
}
