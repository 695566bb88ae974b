use super::*;
use crate::dvfs::CriticalPath;
use crate::dvfs::Kind;
use crate::power::PowerModel;
use quaver_sync_analysis::subframes::Ended;
use quaver_sync_analysis::sync::ThreadId;

const US: u64 = 1_000;

fn subframe(thread: u32, number: u64, lost_us: u64) -> Subframe {
    Subframe {
        thread: ThreadId(thread),
        cpu: 0,
        begin_ns: number * 330 * US,
        end_ns: (number + 1) * 330 * US,
        why: Ended::InTime,
        joined: None,
        own_ns: (330 - lost_us) * US,
        blocked_ns: 0,
        lost_ns: lost_us * US,
    }
}

fn compensated(config: ControllerConfig, share: f64, losses_us: &[u64]) -> Compensated {
    let mut compensator = Compensator::new(config, share);
    compensator.began(1, None);
    for (number, &lost_us) in (0..).zip(losses_us) {
        compensator.ended(&subframe(1, number, lost_us));
    }
    compensator.finish()
}

fn times(count: usize, losses_us: &[u64]) -> Vec<u64> {
    losses_us.iter().copied().chain(std::iter::repeat(0)).take(count).collect()
}

#[test]
fn a_program_that_lost_nothing_rests_and_costs_nothing() {
    for kind in [Kind::Reactive, Kind::Predictive] {
        let config = ControllerConfig { kind, ..ControllerConfig::default() };
        let seen = compensated(config, 0.2, &[0; 40]);
        assert_eq!((seen.lost_ns, seen.left_ns, seen.residency.changes), (0, 0.0, 0));
        assert_eq!(seen.residency, seen.at_rest);
        assert_eq!(seen.threads[0].mean_ratio, Some(1.0));
        assert_eq!(seen.slow_down_with(40 * 330 * US), Some(0.0));
    }
}

#[test]
fn what_was_lost_is_given_back_within_the_bound_of_the_table() {
    let config = ControllerConfig::default();
    let seen = compensated(config.clone(), 0.0, &times(60, &[60, 20]));
    assert_eq!(seen.lost_ns, 80 * US);
    assert!(seen.left_ns.abs() < 9_000.0, "half a step is left: {}", seen.left_ns);
    let without = seen.slow_down_without(60 * 330 * US).unwrap();
    assert!((without - 80.0 / (60.0 * 330.0 - 80.0)).abs() < 1e-12);
    // 40 of 330 us are lost in each subframe: 290 us of work at 1.2 win 48.3 us, so all is given back.
    let most = compensated(config.clone(), 0.0, &[40; 200]);
    assert!(most.left_ns < 60_000.0, "{}", most.left_ns);
    // 100 us are more than 230 us of work can win: what is left is (1 + J) / 1.2 - 1 of the ideal time at best.
    let beyond = compensated(config, 0.0, &[100; 200]);
    let (ideal, kernel) = (230.0, 100.0);
    let bound = (ideal / 1.2 + kernel) / ideal - 1.0;
    let with = beyond.slow_down_with(200 * 330 * US).unwrap();
    assert!(with >= bound - 1e-3 && with < bound + 0.01, "{with} {bound}");
}

#[test]
fn nothing_beyond_rest_gives_nothing_back() {
    let config = ControllerConfig { table: limited(&Table::default(), 1.0), ..ControllerConfig::default() };
    let seen = compensated(config, 0.0, &[10; 50]);
    assert!((seen.left_ns - seen.lost_ns as f64).abs() < 1.0);
    assert_eq!(seen.residency.changes, 0);
}

#[test]
fn memory_and_waiting_cannot_be_made_shorter() {
    let config = ControllerConfig::default();
    let half = compensated(config.clone(), 0.5, &[60; 50]);
    let none = compensated(config.clone(), 1.0, &[60; 50]);
    let all = compensated(config.clone(), 0.0, &[60; 50]);
    assert!(all.left_ns < half.left_ns && half.left_ns < none.left_ns);
    assert!((none.left_ns - none.lost_ns as f64).abs() < 1.0);
    let mut compensator = Compensator::new(config, 0.0);
    compensator.began(1, None);
    let waits = Subframe { own_ns: 0, blocked_ns: 300 * US, ..subframe(1, 0, 30) };
    compensator.ended(&waits);
    let seen = compensator.finish();
    assert_eq!(seen.residency.idle_fs[4], 300_000_000_000);
    assert_eq!((seen.threads[0].mean_ratio, seen.threads[0].blocked_ns), (None, 300 * US));
}

#[test]
fn debts_go_down_to_children_and_the_largest_comes_back_at_joins() {
    let mut compensator = Compensator::new(ControllerConfig::default(), 0.0);
    compensator.began(1, None);
    compensator.ended(&Subframe { why: Ended::AtCreate, ..subframe(1, 0, 40) });
    compensator.began(2, Some(1));
    compensator.began(3, Some(1));
    let second = compensator.ended(&subframe(2, 1, 90));
    let third = compensator.ended(&subframe(3, 1, 5));
    assert_eq!((second.owed_fs, third.owed_fs), (130_000_000_000, 45_000_000_000), "born at rest");
    compensator.ended(&Subframe { why: Ended::AtExit, ..subframe(2, 2, 0) });
    let owed_fs = compensator.threads[&2].controller.owed_fs();
    let joins = Subframe { why: Ended::AtJoin, joined: Some(ThreadId(2)), own_ns: 0, ..subframe(1, 1, 0) };
    assert_eq!(compensator.ended(&joins).owed_fs, owed_fs.max(40_000_000_000));
    let seen = compensator.finish();
    assert_eq!(seen.lost_ns, 130 * US, "40 + 90, and not the others'");
    let order: Vec<u32> = seen.threads.iter().map(|one| one.thread).collect();
    assert_eq!(order, [1, 2, 3]);
    assert_eq!(seen.threads.iter().map(|one| one.lost_ns / US).collect::<Vec<_>>(), [40, 90, 5]);
}

#[test]
fn on_a_real_core_the_frequency_that_it_had_decides_what_was_won() {
    let config = ControllerConfig::default();
    let mut compensator = Compensator::new(config, 0.0);
    compensator.began(1, None);
    let asked = compensator.ended_at(&subframe(1, 0, 100), 1.0, 0);
    assert_eq!((asked.point, asked.owed_fs), (8, 100_000_000_000));
    // The core never went there: nothing is won, and it is asked for again.
    let again = compensator.ended_at(&subframe(1, 1, 0), 1.0, 0);
    assert_eq!((again.point, again.owed_fs), (8, 100_000_000_000));
    // Half of the time at 1.2: 330 us at 1.1 are 33 us of work more, less 2 us of standing still.
    let half = compensator.ended_at(&subframe(1, 2, 0), 1.1, 2_000_000_000);
    let won_fs = 100_000_000_000 - half.owed_fs;
    assert_eq!(won_fs, (328_000_000_000_f64 * 0.1).round() as i64 - 2_000_000_000);
}

#[test]
fn unknown_threads_and_numbers_given_again_are_survived() {
    let mut compensator = Compensator::new(ControllerConfig::default(), 0.0);
    assert_eq!(compensator.ended(&subframe(9, 0, 10)).point, 4);
    compensator.began(1, Some(77));
    compensator.ended(&subframe(1, 0, 10));
    compensator.began(1, None);
    let seen = compensator.finish();
    assert_eq!((seen.threads.len(), seen.lost_ns), (2, 10 * US));
    assert_eq!(Compensator::new(ControllerConfig::default(), 0.0).finish().left_ns, 0.0);
}

#[test]
fn a_table_is_cut_and_goes_on() {
    let table = Table::default();
    assert_eq!(limited(&table, 1.0).points.len(), 5);
    assert_eq!(limited(&table, 1.1).points, table.points[..7]);
    assert_eq!(limited(&table, 1.2), table);
    let wider = limited(&table, 1.4);
    assert_eq!((wider.points.len(), wider.rest, wider.fault()), (13, 4, None));
    let last = wider.points[12];
    assert!((last.frequency_ghz - 4.2).abs() < 1e-9 && (last.supply_v - 1.4).abs() < 1e-9);
}

#[test]
fn speed_costs_power_and_a_higher_k_less_of_it_at_once() {
    let config = ControllerConfig::default();
    let losses: Vec<u64> = (0..300).map(|at| if at % 20 == 0 { 150 } else { 0 }).collect();
    let seen = compensated(config.clone(), 0.0, &losses);
    let (table, model) = (&config.table, PowerModel::default());
    let with = std::slice::from_ref(&seen.residency);
    let without = std::slice::from_ref(&seen.at_rest);
    let more = model.overhead((table, with), (table, without)).unwrap();
    assert!(more > 0.0 && more < 0.728, "{more}");
    let slow = compensated(ControllerConfig { reactivity: 4, ..config }, 0.0, &losses);
    assert!(slow.left_ns >= seen.left_ns - 9_000.0);
}

fn wakeup(thread: u32, by: u32, released_us: u64, waited_us: u64, met: bool) -> Wakeup {
    Wakeup {
        thread: ThreadId(thread),
        by: ThreadId(by),
        released_ns: released_us * US,
        waited_ns: waited_us * US,
        met,
    }
}

/// Threads that owe so many microseconds, at the begin of their subframes.
fn owing(rule: CriticalPath, owed_us: &[u64]) -> Compensator {
    let config = ControllerConfig {
        critical_path: rule,
        table: limited(&Table::default(), 1.0),
        ..ControllerConfig::default()
    };
    let mut compensator = Compensator::new(config, 0.0);
    for (thread, &lost_us) in (0..).zip(owed_us) {
        compensator.began(thread, None);
        compensator.ended(&subframe(thread, 0, lost_us));
    }
    compensator
}

fn owed_us(compensator: &Compensator) -> Vec<i64> {
    compensator.threads.values().map(|thread| thread.controller.owed_fs() / 1_000_000_000).collect()
}

#[test]
fn a_woken_thread_takes_over_what_its_waker_owes_in_the_middle_of_both_subframes() {
    let so_far = |lost_us: u64| SoFar { own_ns: 50 * US, blocked_ns: 0, lost_ns: lost_us * US };
    for (rule, woken) in [(CriticalPath::Join, 10), (CriticalPath::Max, 95), (CriticalPath::Slack, 95)] {
        let mut compensator = owing(rule, &[10, 80]);
        // The waker has lost 20 us since, the woken thread 5: 100 and 15, of which 5 come with its own subframe.
        compensator.woken(&wakeup(0, 1, 400, 90, false), &so_far(5), &so_far(20));
        assert_eq!(owed_us(&compensator), [woken, 80], "{rule:?}");
        compensator.woken(&wakeup(1, 0, 500, 60, false), &so_far(20), &so_far(5));
        assert_eq!(owed_us(&compensator), [woken, 80], "{rule:?}: the other way nothing more passes");
        assert_eq!(compensator.finish().lost_ns, if woken == 10 { 80 * US } else { 95 * US });
    }
}

#[test]
fn all_that_meet_owe_the_same_whoever_comes_back_first() {
    let back = |rule, order: [(u32, u64); 3]| {
        let mut compensator = owing(rule, &[10, 80, 0, 30]);
        for (thread, waited_us) in order {
            // Thread 3 came last.
            let so_far = SoFar::default();
            compensator.woken(&wakeup(thread, 3, 900, waited_us, true), &so_far, &so_far);
        }
        owed_us(&compensator)
    };
    for order in [[(0, 15), (1, 5), (2, 40)], [(1, 5), (0, 15), (2, 40)], [(2, 40), (0, 15), (1, 5)]] {
        assert_eq!(back(CriticalPath::Join, order), [10, 80, 0, 30]);
        assert_eq!(back(CriticalPath::Max, order), [80, 80, 80, 80]);
        assert_eq!(back(CriticalPath::Slack, order), [25, 25, 25, 25]);
    }
    // The next barrier is another one.
    let mut compensator = owing(CriticalPath::Max, &[10, 80]);
    let so_far = SoFar::default();
    compensator.woken(&wakeup(0, 1, 900, 5, true), &so_far, &so_far);
    compensator.ended(&subframe(0, 3, 50));
    compensator.woken(&wakeup(0, 1, 950, 5, true), &so_far, &so_far);
    assert_eq!(owed_us(&compensator), [130, 130]);
}

#[test]
fn time_won_in_the_subframe_under_way_is_no_debt_any_more() {
    let config = ControllerConfig::default();
    let mut compensator = Compensator::new(config, 0.0);
    for (thread, lost_us) in [(0, 0), (1, 100)] {
        compensator.began(thread, None);
        compensator.ended(&subframe(thread, 0, lost_us));
    }
    // At 1.2 for 240 us: 40 us are won, less 10 us of standing still.
    let so_far = SoFar { own_ns: 240 * US, ..SoFar::default() };
    compensator.woken(&wakeup(0, 1, 900, 500, false), &SoFar::default(), &so_far);
    assert_eq!(owed_us(&compensator), [70, 100]);
    // It was made late by its wait at most.
    compensator.woken(&wakeup(0, 1, 950, 12, false), &SoFar::default(), &SoFar::default());
    assert_eq!(owed_us(&compensator), [82, 100]);
}

/// Threads that meet at a barrier in each round, and are joined in the end: how much later than in time the program ended,
/// and what the rule says, microseconds. `late` is of rounds by threads; thread `slow` works 900 µs a round, the others 300.
fn at_barriers(rule: CriticalPath, slow: usize, late: &[[u64; 3]]) -> [u64; 2] {
    let mut compensator = owing(rule, &[0, 0, 0]);
    let work_us = |thread: usize| if thread == slow { 900 } else { 300 };
    let mut at_us = 330;
    for late_us in late {
        let came_us: Vec<u64> = (0..3).map(|thread| at_us + late_us[thread] + work_us(thread)).collect();
        let opened_us = *came_us.iter().max().unwrap();
        let last = came_us.iter().position(|came| *came == opened_us).unwrap();
        let so_far = |thread: usize| SoFar {
            own_ns: work_us(thread) * US,
            blocked_ns: (opened_us - came_us[thread]) * US,
            lost_ns: late_us[thread] * US,
        };
        for thread in (0..3).filter(|thread| *thread != last) {
            let waited_us = opened_us - came_us[thread];
            let wakeup = wakeup(thread as u32, last as u32, opened_us, waited_us, true);
            compensator.woken(&wakeup, &so_far(thread), &so_far(last));
        }
        for thread in 0..3 {
            let SoFar { own_ns, blocked_ns, lost_ns } = so_far(thread);
            let (begin_ns, end_ns) = (at_us * US, opened_us * US);
            let subframe = subframe(thread as u32, 0, 0);
            compensator.ended(&Subframe { begin_ns, end_ns, own_ns, blocked_ns, lost_ns, ..subframe });
        }
        at_us = opened_us;
    }
    let in_time_us = 330 + 900 * late.len() as u64;
    [at_us - in_time_us, compensator.finish().lost_ns / US]
}

#[test]
fn lateness_within_the_slack_before_a_thread_that_always_comes_last_is_no_loss_of_the_program() {
    let [never_last, always_last] = [[[100, 0, 50]; 20], [[0, 40, 0]; 20]];
    for (late, lost_us, by_max_us) in [(never_last, 0, 2_000), (always_last, 800, 800)] {
        assert_eq!(at_barriers(CriticalPath::Slack, 1, &late), [lost_us; 2]);
        assert_eq!(at_barriers(CriticalPath::Max, 1, &late), [lost_us, by_max_us]);
    }
    // So late that it comes last: 700 µs are 100 more than the others' slack.
    assert_eq!(at_barriers(CriticalPath::Slack, 1, &[[700, 0, 0], [0, 0, 0], [0, 30, 0]]), [130; 2]);
}
