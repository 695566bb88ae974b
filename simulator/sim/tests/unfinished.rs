//! Runs that cannot go on: what was under way counts.

mod listed;

use listed::{Listed, machine};
use quaver_sim::config::Config;
use quaver_sim::statistics::WaitKind;
use quaver_trace::step::{Sync, Thread};

#[test]
fn threads_that_run_or_wait_when_a_run_is_left_have_their_times_and_instructions() {
    let lock = Sync::Lock { object: 8 };
    let [mut first, mut second] = [Listed::default(), Listed::default()];
    first.sync(lock);
    first.sync(Sync::Create { thread: Thread(1) });
    first.work(400);
    // It does not hold this one: the trace is wrong here.
    first.sync(Sync::Unlock { object: 9 });
    second.work(10);
    second.sync(lock);
    let mut machine = machine(&Config::default(), vec![first, second]);
    assert!(machine.run(u64::MAX).is_err());
    let results = machine.results();
    let end_fs = results.critical_path.total_fs();
    let [runs, waits] = [&results.threads[0], &results.threads[1]];
    assert_eq!((runs.instructions, waits.instructions), (400 * 9, 10 * 9));
    assert_eq!((runs.busy_fs, runs.waited_fs), (end_fs, 0), "it ran from first to last");
    assert_eq!(results.cores[0].busy_fs, end_fs);
    let in_flight_fs = Config::default().chip.remote_cycles * results.cycle_fs;
    assert_eq!(waits.start_fs + in_flight_fs + waits.busy_fs + waits.waited_fs, end_fs);
    assert_eq!(waits.waited_for_fs[WaitKind::Lock as usize], waits.waited_fs);
    assert!(waits.waited_fs > waits.busy_fs);
}
