use super::*;

const US: u64 = 1_000_000_000;

fn config() -> ControllerConfig {
    ControllerConfig::default()
}

/// A subframe of 330 us at this point that only computes.
fn computing(
    config: &ControllerConfig,
    controller: &Controller,
    lost_us: u64,
    stalled_us: u64,
) -> SubframeTimes {
    let paced_us = 330.0 / config.table.factor(controller.point());
    let paced_fs = (paced_us * US as f64).round() as u64;
    SubframeTimes {
        length_fs: paced_fs + (lost_us + stalled_us) * US,
        paced_fs,
        unpaced_fs: 0,
        stalled_fs: stalled_us * US,
        lost_fs: lost_us * US,
    }
}

/// Runs subframes with these losses; a change of the point costs a stall. Points and what is owed after each.
fn run(config: &ControllerConfig, losses_us: &[u64]) -> Vec<(usize, i64)> {
    let mut controller = Controller::new(config);
    let mut stalled_us = 0;
    let each = losses_us.iter().map(|&loss_us| {
        let before = controller.point();
        let ran = computing(config, &controller, loss_us, stalled_us);
        let point = controller.end_subframe(config, &ran);
        stalled_us = config.table.change(before, point).stall_fs / US;
        (point, controller.owed_fs())
    });
    each.collect()
}

#[test]
fn without_losses_it_rests_whatever_the_program_does() {
    let config = config();
    let mut controller = Controller::new(&config);
    for subframe in 0..1000u64 {
        let ran = SubframeTimes {
            length_fs: 330 * US,
            paced_fs: subframe * 7_919 % 331 * US,
            unpaced_fs: subframe * 104_729 % 90 * US,
            ..SubframeTimes::default()
        };
        assert_eq!(controller.end_subframe(&config, &ran), config.table.rest);
        assert_eq!(controller.owed_fs(), 0);
    }
}

#[test]
fn what_was_lost_is_given_back_and_no_more() {
    let config = config();
    let mut losses = vec![0; 20];
    losses[0] = 100;
    let seen = run(&config, &losses);
    assert_eq!(seen[0], (8, 100 * US as i64), "330 / (345 - 115) is beyond the table");
    // Four subframes at 1.2 win 55 us each, the first less a stall of 10 us.
    assert!(seen[1].1 < 56 * US as i64 && seen[1].1 > 54 * US as i64, "{:?}", seen[1]);
    let last = seen.last().unwrap();
    assert_eq!(last.0, config.table.rest);
    assert!(last.1.unsigned_abs() <= 330 * US / 40, "less than half a step is left: {last:?}");
}

#[test]
fn the_wanted_factor_is_equation_1() {
    // 10 us of 330 are owed: 330 / 320 = 1.03125, nearest 1.05. With k = 2: 330 / 325, nearest 1.
    for (reactivity, point) in [(1, 5), (2, 4), (4, 4)] {
        let config = ControllerConfig { reactivity, ..config() };
        let mut controller = Controller::new(&config);
        let ran = SubframeTimes {
            length_fs: 330 * US,
            paced_fs: 330 * US,
            lost_fs: 10 * US,
            ..SubframeTimes::default()
        };
        assert_eq!(controller.end_subframe(&config, &ran), point, "k = {reactivity}");
    }
    // Half of the time waits for memory: only the other half becomes shorter. 165 / 155 = 1.065, nearest 1.05.
    let config = config();
    let half = SubframeTimes {
        length_fs: 330 * US,
        paced_fs: 165 * US,
        unpaced_fs: 165 * US,
        lost_fs: 10 * US,
        ..SubframeTimes::default()
    };
    assert_eq!(Controller::new(&config).end_subframe(&config, &half), 5);
    let ran = SubframeTimes { lost_fs: 20 * US, ..half };
    assert_eq!(Controller::new(&config).end_subframe(&config, &ran), 7, "165 / 145 = 1.138, nearest 1.15");
}

#[test]
fn a_steady_loss_beyond_the_table_stays_owed_and_the_highest_point_holds() {
    let config = config();
    let seen = run(&config, &[100; 50]);
    assert!(seen[1..].iter().all(|(point, _)| *point == 8));
    // 330 us of work take 275 us; 45 of the 100 us that are lost each time stay.
    let slope = (seen[49].1 - seen[19].1) / 30;
    assert_eq!((slope + US as i64 / 2).div_euclid(US as i64), 45);
}

#[test]
fn too_much_given_back_makes_it_slower_than_rest() {
    let config = ControllerConfig { policy: Policy::Aggressive, ..config() };
    let seen = run(&config, &[3, 0, 0, 0, 0, 0]);
    assert_eq!(seen[0].0, 5, "aggressive: any loss is given back at once");
    assert!(seen.iter().any(|(_, owed)| *owed < 0));
    let nominal = run(&self::config(), &[3, 0, 0]);
    assert!(nominal.iter().all(|(point, owed)| (*point, *owed) == (4, 3 * US as i64)));
}

#[test]
fn a_higher_k_gives_back_later() {
    let mut losses = vec![0; 12];
    losses[0] = 60;
    let owed_after = |reactivity: u32| {
        let config = ControllerConfig { reactivity, ..config() };
        run(&config, &losses).iter().map(|(_, owed)| *owed).sum::<i64>()
    };
    assert!(owed_after(1) < owed_after(2) && owed_after(2) < owed_after(4));
}

#[test]
fn a_steady_loss_is_foreseen_by_the_predictive_controller() {
    let losses = [30; 60];
    let late = |kind| {
        let config = ControllerConfig { kind, ..config() };
        let seen = run(&config, &losses);
        seen[20..].iter().map(|(_, owed)| *owed).sum::<i64>() / 40
    };
    let (reactive, predictive) = (late(Kind::Reactive), late(Kind::Predictive));
    assert!(predictive < reactive, "{predictive} {reactive}");
    assert!(predictive.unsigned_abs() < 30 * US);
}

#[test]
fn a_child_starts_with_its_parents_debt_and_a_join_takes_the_larger() {
    let config = config();
    let mut parent = Controller::new(&config);
    parent.end_subframe(
        &config,
        &SubframeTimes {
            length_fs: 330 * US,
            paced_fs: 330 * US,
            lost_fs: 40 * US,
            ..SubframeTimes::default()
        },
    );
    let mut child = Controller::child_of(&config, &parent);
    assert_eq!((child.owed_fs(), child.point()), (parent.owed_fs(), config.table.rest));
    child.end_subframe(
        &config,
        &SubframeTimes {
            length_fs: 330 * US,
            paced_fs: 330 * US,
            lost_fs: 5 * US,
            ..SubframeTimes::default()
        },
    );
    let lesser = Controller::new(&config);
    parent.join(&config, 0, &child);
    parent.join(&config, 0, &lesser);
    assert_eq!(parent.owed_fs(), 45 * US as i64);
}

#[test]
fn dummies_at_the_end_give_the_rest_back() {
    let config = config();
    let mut controller = Controller::new(&config);
    let ran = SubframeTimes {
        length_fs: 330 * US,
        paced_fs: 330 * US,
        lost_fs: 100 * US,
        ..SubframeTimes::default()
    };
    controller.end_subframe(&config, &ran);
    assert_eq!(controller.after_dummies(&config, 0), 100 * US as i64);
    let one = controller.after_dummies(&config, 1);
    assert_eq!((one + 500_000_000) / 1_000_000_000, 45, "330 us at 1.2 win 55");
    assert!(controller.after_dummies(&config, 4).unsigned_abs() < 9 * US);
}

#[test]
fn the_next_subframe_is_rescaled_to_the_frequency_at_rest_and_to_a_whole_subframe() {
    let config = config();
    let mut controller = Controller::new(&config);
    let ran = SubframeTimes {
        length_fs: 330 * US,
        paced_fs: 330 * US,
        lost_fs: 53 * US,
        ..SubframeTimes::default()
    };
    assert_eq!(controller.end_subframe(&config, &ran), 8, "330 / 277 = 1.19");
    // 165 us at 1.2 are 198 at rest, so that 33 of the 53 are won: 198 / 178 = 1.11. By 165 / 145 it would be 1.15.
    let half = SubframeTimes {
        length_fs: 330 * US,
        paced_fs: 165 * US,
        unpaced_fs: 165 * US,
        ..SubframeTimes::default()
    };
    assert_eq!(controller.end_subframe(&config, &half), 6);
    assert_eq!(controller.owed_fs(), 20 * US as i64);
    // Twice as long as a subframe: half of its work comes next, 165 / 145 = 1.138. By 330 / 310 it would be 1.05.
    let long = SubframeTimes {
        length_fs: 660 * US,
        paced_fs: 330 * US,
        lost_fs: 20 * US,
        ..SubframeTimes::default()
    };
    assert_eq!(Controller::new(&config).end_subframe(&config, &long), 7);
}

#[test]
fn the_expected_loss_is_an_eighth_of_the_newest_and_the_rest_of_what_was_expected() {
    let config = ControllerConfig { kind: Kind::Predictive, ..config() };
    let mut controller = Controller::new(&config);
    let ran = |lost_us: u64| SubframeTimes {
        length_fs: 330 * US,
        paced_fs: 330 * US,
        lost_fs: lost_us * US,
        ..SubframeTimes::default()
    };
    // 40 us are owed and 5 expected: 330 / 285 = 1.158. Reactive: 330 / 290 = 1.138, the same point; one of 16 tells them apart.
    assert_eq!(controller.end_subframe(&config, &ran(40)), 7);
    assert_eq!(controller.expected_fs, 5.0 * US as f64);
    controller.settle_at(&config, &ran(0), 1.0);
    assert_eq!(controller.expected_fs, 4.375 * US as f64);
    // Without the clock's gain 40 us are still owed: a stall of 6 us is owed besides.
    let stalled = SubframeTimes { stalled_fs: 6 * US, ..ran(0) };
    controller.settle_at(&config, &stalled, 1.0);
    assert_eq!(controller.owed_fs(), 46 * US as i64);
}
