use super::*;

fn with<T>(summary: &SimSummary, speed: Option<SimSpeed>, draw: impl FnOnce(&SimInput<'_>) -> T) -> T {
    let (run, lanes) = (fixture::facts(), fixture::lanes());
    let report_path = Some("runs/sim-20261121T213000Z-0a1b/report.html");
    draw(&SimInput { summary, run: &run, speed, lanes: &lanes, report_path })
}

#[test]
fn the_page() {
    let speed = SimSpeed { elapsed_ns: 2_000_000_000, instructions: 120_000_000 };
    let page = with(&fixture::summary(), Some(speed), |input| page(input, Style::PLAIN));
    assert!(page.lines().all(|line| line.chars().count() <= WIDTH), "{page}");
    let wanted = include_str!("page.txt");
    assert!(page == wanted, "{page}");
}

#[test]
fn what_is_said_first_follows_the_time() {
    let mut summary = fixture::summary();
    let said =
        "Of the time threads ran, 43.2 % issued instructions; most of the rest was lost to memory (42.6 %).";
    assert_eq!(verdict(&summary), said);
    let shift = |summary: &mut SimSummary, from: usize, to: usize| {
        let fs = summary.time[from].time_fs;
        summary.time[from].time_fs = 0;
        summary.time[to].time_fs += fs;
    };
    shift(&mut summary, 0, 6);
    assert!(
        verdict(&summary)
            .ends_with(" 0 % issued instructions; most of the rest was lost to memory (85.8 %)."),
        "{}",
        verdict(&summary)
    );
    shift(&mut summary, 13, 12);
    assert!(verdict(&summary).starts_with("Threads mostly waited for each other: "), "{}", verdict(&summary));
    summary.time.iter_mut().for_each(|part| part.time_fs = 0);
    assert_eq!(verdict(&summary), "Nothing was simulated.");
}

#[test]
fn figures_have_the_digits_that_matter() {
    let wanted = [(0.0, "0"), (0.001, "< 0.01"), (0.5, "0.50"), (12.345, "12.35"), (12_345.6, "12,346")];
    for (value, text) in wanted {
        assert_eq!(figure(value), text);
    }
    assert_eq!((simulated(333_333), simulated(1_500_000_000)), ("0.33 ns".to_owned(), "1.50 us".to_owned()));
}

#[test]
fn names_of_programs_cannot_drive_the_terminal_nor_become_markup() {
    let mut summary = fixture::summary();
    summary.facts.program = vec!["\x1b[2J</script><script>alert(1)</script>".to_owned()];
    summary.facts.lacks = vec!["<b>registers".to_owned()];
    summary.warnings = vec!["\x1b[2J<i>".to_owned()];
    summary.complete = false;
    let page = with(&summary, None, |input| page(input, Style::PLAIN));
    assert!(!page.contains('\x1b') && page.contains("This run was cut short"), "{page}");
    let html = with(&summary, None, |input| {
        let mut out = Vec::new();
        crate::html::write_html(&mut out, input).unwrap();
        String::from_utf8(out).unwrap()
    });
    assert!(!html.contains("<script>alert") && !html.contains("<i>"), "{html}");
    for part in ["thread 1 ended the wait of thread 0 for a lock", "core 0: memory", "in 1000 instructions"] {
        assert!(html.contains(part), "{part}");
    }
}
