use super::paper::{CORRELATIONS, PROGRAMS};
use super::*;

/// A tenth of a decade, from 10 µs on.
fn bin(place: i32, count: u64) -> Bin {
    let bound = |place: i32| 1e4 * 10_f64.powf(f64::from(place) / 10.0);
    Bin { from_ns: bound(place), to_ns: bound(place + 1), count }
}

fn run(duration_ns: u64, count: u64, total_ns: u64) -> RunFigures {
    RunFigures {
        duration_ns,
        late: Sums { count, total_ns, max_ns: total_ns },
        classes_ns: [0, 0, total_ns / 4 * 3, 0, total_ns / 4, 0],
        sync_share: Some(0.5),
        path_lost_ns: 20,
        path_execution_ns: 80,
        events: 10,
        lost: 0,
        wake_ups: 4,
        matched: 3,
        crowded_share: None,
        threads: 2,
        kernel_side: true,
        bins: vec![bin(1, count)],
    }
}

/// The paper's own slowdowns and columns give its own table 8, to the last digit that it prints.
#[test]
fn correlations_of_the_papers_tables_are_its_table_8() {
    let programs: Vec<ProgramFigures> = PROGRAMS
        .iter()
        .map(|program| {
            let mut found =
                ProgramFigures::of(program.program, program.suite, Vec::new(), Vec::new(), Vec::new());
            found.row = Some(TableRow {
                events_per_ms: program.events_per_ms,
                mean_us: Some(program.mean_us),
                late_us_per_ms: program.late_us_per_ms,
                slowdown_percent: Some(program.slowdown_percent),
            });
            found
        })
        .collect();
    for (suite, printed) in Suite::ALL.into_iter().zip(CORRELATIONS) {
        let computed = correlations(&programs, suite).map(|found| found.expect("six rows or more"));
        for (computed, printed) in computed.into_iter().zip(printed) {
            assert!((computed - printed).abs() < 0.011, "{suite:?}: {computed} is printed as {printed}");
        }
    }
}

/// Column 3 is column 1 times column 2, as the paper says, but for what it rounds.
#[test]
fn the_papers_columns_agree_with_each_other() {
    for program in PROGRAMS {
        let product = program.events_per_ms * program.mean_us;
        assert!((product / program.late_us_per_ms - 1.0).abs() < 0.04, "{}: {product}", program.program);
    }
}

#[test]
fn a_row_is_of_all_runs_together() {
    let row = TableRow::of(&[run(1_000_000, 2, 40_000), run(3_000_000, 6, 40_000)]).expect("time passed");
    assert_eq!(row.events_per_ms, 2.0);
    assert_eq!(row.mean_us, Some(10.0));
    assert_eq!(row.late_us_per_ms, 20.0);
    assert_eq!(row.slowdown_percent, Some(25.0));
    assert_eq!(TableRow::of(&[]), None);
    assert_eq!(TableRow::of(&[run(1_000_000, 0, 0)]).and_then(|row| row.mean_us), None);
}

#[test]
fn shares_are_of_runs_that_saw_the_kernel() {
    let blind = RunFigures { kernel_side: false, sync_share: Some(1.0), ..run(1_000, 1, 1_000) };
    let of = |runs, watched, pairs| ProgramFigures::of("vips", Suite::Parsec, runs, watched, pairs);
    let watched = vec![blind.clone(), run(1_000, 1, 1_000)];
    let found = of(vec![run(1_000, 1, 4_000)], watched, vec![(100, 101)]);
    assert_eq!(found.sync_share, Some(0.5));
    assert_eq!(found.class_shares, Some([0.0, 0.0, 0.75, 0.0, 0.25, 0.0]));
    assert_eq!(found.coverage(), Some(0.75));
    let none = of(Vec::new(), vec![blind], Vec::new());
    assert_eq!((none.sync_share, none.row, none.coverage()), (None, None, None));
    assert_eq!(none.cost, None);
}

#[test]
fn cost_is_judged_by_its_whole_interval() {
    let cost = |pairs: &[(u64, u64)]| Cost::of(pairs).expect("pairs of times");
    let within = cost(&[
        (1_000, 1_010),
        (1_000, 1_012),
        (1_000, 1_011),
        (1_000, 1_010),
        (1_000, 1_400),
        (1_000, 1_011),
    ]);
    assert_eq!(
        (within.verdict, within.unrecorded_ns, within.recorded_ns),
        (CostVerdict::Undecided, 1_000, 1_011)
    );
    assert!((within.overhead - 0.011).abs() < 1e-3, "one that was held up moves nothing: {within:?}");
    let close = |times: [u64; 6]| cost(&times.map(|time| (1_000, time))).verdict;
    assert_eq!(close([1_010, 1_012, 1_011, 1_010, 1_014, 1_011]), CostVerdict::Within);
    assert_eq!(close([1_100, 1_110, 1_105, 1_102, 1_101, 1_104]), CostVerdict::Above);
    assert_eq!(close([900, 1_200, 1_000, 1_000, 1_100, 950]), CostVerdict::Undecided);
    assert_eq!(cost(&[(1_000, 1_001), (1_000, 1_001)]).verdict, CostVerdict::Undecided);
    assert_eq!(Cost::of(&[]), None);
    assert_eq!(Cost::of(&[(0, 5)]), None);
}

#[test]
fn correlation_of_a_line_is_one() {
    let line: Vec<(f64, f64)> = (0..5).map(|x| (f64::from(x), 3.0 - f64::from(x))).collect();
    assert_eq!(pearson(&line), Some(-1.0));
    assert_eq!(pearson(&line[..2]), None);
    assert_eq!(pearson(&[(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]), None);
}

/// Programs of one's own are no programs of the paper, whatever they are called: nothing of the paper stands beside them, and
/// none is left out of the correlations.
#[test]
fn own_programs_are_among_themselves() {
    let own = |name: &str, slowdown: f64| {
        let mut found =
            ProgramFigures::of(name, Suite::Own, vec![run(1_000, 1, 4_000)], Vec::new(), Vec::new());
        found.row = Some(TableRow {
            events_per_ms: slowdown,
            mean_us: None,
            late_us_per_ms: -slowdown,
            slowdown_percent: Some(slowdown),
        });
        found
    };
    let programs = [own("lu", 1.0), own("radix", 2.0), own("xz -T2", 3.0)];
    assert!(programs.iter().all(|found| found.of_paper().is_none()));
    assert_eq!(correlations(&programs, Suite::Own), [Some(1.0), None, Some(-1.0)]);
    assert_eq!(Suite::ALL.map(|suite| correlations(&programs, suite)), [[None; 3]; 2]);
}

#[test]
fn sizes_of_all_runs_are_one_distribution() {
    let with = |bins: Vec<Bin>| RunFigures { bins, ..run(1_000, 1, 4_000) };
    let runs = vec![with(vec![bin(3, 5), bin(9, 1)]), with(Vec::new()), with(vec![bin(1, 2), bin(3, 4)])];
    let found = ProgramFigures::of("fmm", Suite::Splash2, runs, Vec::new(), Vec::new());
    assert_eq!(found.distribution, [bin(1, 2), bin(3, 9), bin(9, 1)]);
}
