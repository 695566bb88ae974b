//! A sweep that injects the lateness of a recorded program.

use super::ends::wait_until;
use super::*;
use crate::sync_run::Bench;
use rustix::process::{Pid, Signal, kill_process};
use sim_made::meetings;

/// Four threads that meet.
const MEETS: &str = r"
#include <pthread.h>
static pthread_barrier_t barrier;
static void *run(void *own)
{
	for (int i = 0; i < 200; i++)
		pthread_barrier_wait(&barrier);
	return own;
}
int main(void)
{
	pthread_t others[3];
	pthread_barrier_init(&barrier, 0, 4);
	for (int i = 0; i < 3; i++)
		pthread_create(&others[i], 0, run, 0);
	run(0);
	for (int i = 0; i < 3; i++)
		pthread_join(others[i], 0);
	return 0;
}
";

#[test]
fn a_recording_is_injected_in_parts_that_were_interrupted_as_in_one_piece() {
    let bench = Bench::of_text(MEETS, &[]);
    let recorded = bench.run(&["--no-kernel", "--threshold", "2us", "-q"]);
    assert_eq!(recorded.status.code(), Some(0), "{}", text(&recorded.stderr));
    let place = tempfile::tempdir().unwrap();
    meetings(&place.path().join("meetings.qtrace"), 4, 8_000);
    let plan = format!(
        "[sweep]\ntraces = ['meetings.qtrace']\nseeds = [1, 2, 3]\n[cure]\nrecorded = '{}'\n\
         [[axis]]\nkey = 'machine.l2.kib'\nvalues = [128, 256]\n",
        bench.last_run().display()
    );
    fs::write(place.path().join("meet.toml"), plan).unwrap();
    let part = |shard: &'static str, parent: &'static str| {
        ["sim", "sweep", "run", "meet.toml", "-q", "-j", "1", "-o", parent, "--shard", shard]
    };
    let directory = place.path().join("first/sweep-meet");
    let child = quaver(place.path(), &part("1/2", "first")).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("a point", || !names(&directory.join("points")).is_empty());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    expect(&child.wait_with_output().unwrap(), 130);
    let done = names(&directory.join("points"));
    assert!((1..3).contains(&done.len()), "it was interrupted in the middle: {done:?}");
    for (shard, parent) in [("1/2", "first"), ("2/2", "second")] {
        expect(&quaver(place.path(), &part(shard, parent)).output().unwrap(), 0);
    }
    for (point, lines) in logged(&directory) {
        let begun = lines.iter().filter(|what| *what == "begins").count();
        assert!(begun == 1 || !done.contains(&point), "{point} was done already: {lines:?}");
    }
    expect(&sweep(place.path(), &["merge", "first/sweep-meet", "second/sweep-meet", "-o", "all"]), 0);
    expect(&sweep(place.path(), &["run", "meet.toml", "-q", "-o", "one"]), 0);
    let [all, one] = ["all", "one"].map(|parent| place.path().join(parent).join("sweep-meet"));
    same_results(&all, &one);
    let points = names(&one.join("points"));
    assert_eq!(points.len(), 2 * 3);
    for point in points {
        let point = json(&one.join("points").join(format!("{point}.json")));
        assert!(point["figures"]["slow_down"].as_f64().is_some_and(|slow_down| slow_down > 0.0), "{point}");
    }
    // Another recording makes other points.
    let before = names(&one.join("points"));
    assert_eq!(bench.run(&["--no-kernel", "--threshold", "2us", "-q"]).status.code(), Some(0));
    let plan = fs::read_to_string(place.path().join("meet.toml")).unwrap();
    let other = plan.lines().map(|line| {
        let recorded = format!("recorded = '{}'", bench.last_run().display());
        if line.starts_with("recorded") { recorded } else { line.to_owned() }
    });
    fs::write(place.path().join("meet.toml"), other.collect::<Vec<_>>().join("\n")).unwrap();
    expect(&sweep(place.path(), &["run", "meet.toml", "-q", "-o", "one"]), 0);
    assert!(names(&one.join("points")).is_disjoint(&before));
}
