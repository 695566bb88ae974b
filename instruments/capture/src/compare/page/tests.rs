use super::*;

fn shown() -> String {
    let summary = fixture::summary();
    let run = RunFacts { name: "capture-compare-x".to_owned(), ..RunFacts::default() };
    page(
        &CompareInput { summary: &summary, run: &run, report_path: Some("runs/x/report.html") },
        Style::PLAIN,
    )
}

#[test]
fn overheads_ratios_and_the_papers_own_stand_side_by_side() {
    let page = shown();
    let line =
        |start: &str| page.lines().find(|line| line.trim_start().starts_with(start)).unwrap_or_default();
    assert!(page.starts_with("quaver capture --compare · capture-compare-x\n"));
    assert!(line("from").ends_with("192.0.2.9, port 1991"));
    assert!(
        line("Pattern 2")
            .contains("1368 octets each 1.37 ms (gap of 169,631 octets); 1,960 sent, 3 slots missed")
    );
    assert!(line("batch ").contains("200  11.0 ns  11.0 ns to 11.0 ns      1.00"), "{}", line("batch "));
    assert!(line("inline-clock over batch").contains("3.64×"));
    assert!(line("inline-clock over inline-clock again").contains("no difference"));
    let paper = line("paper, table II");
    assert!(paper.contains("2.45×") && paper.contains("21.6×"), "{paper}");
    assert!(line("the kernel's receive stamp").contains("40.0 ns"));
    assert!(line("conversion of a trace record's").contains("no difference"));
    let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("themselves take 200 ns"), "{flat}");
}

#[test]
fn losses_add_up_and_no_difference_is_said() {
    let page = shown();
    assert!(
        page.contains("softirq and receiver on one CPU  inline-clock  120,000  30,000  25.0 %"),
        "{page}"
    );
    assert!(page.contains("softirq and receiver apart: no difference between inline-clock and batch"));
    assert!(page.contains("Not possible here") && page.ends_with("runs/x/report.html\n"));
}

#[test]
fn programs_stand_beside_each_other_by_their_own_counts() {
    let page = shown();
    let line = page.lines().find(|line| line.contains("dumpcap")).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert!(words.ends_with(&["dumpcap", "40,000", "39,000", "990", "10", "1.00", "us"]), "{line}");
}

#[test]
fn numbers_have_three_digits() {
    assert_eq!([0.123, 12.34, 123.4, 46_123.4].map(number), ["0.12", "12.3", "123", "46,123"]);
    assert_eq!([-1_932.4, -12.34].map(number), ["-1,932", "-12.3"]);
    assert_eq!((times(f64::NAN), times(2.4470)), ("-".to_owned(), "2.45×".to_owned()));
}

#[test]
fn the_kernel_has_the_same_figures_and_says_what_it_cannot() {
    let page = shown();
    let words = |start: &str| {
        let line = page.lines().rfind(|line| line.trim_start().starts_with(start)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    // The first table of several that has the name.
    let overhead = |name: &str| {
        let line = page.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        overhead("stamping "),
        "stamping 200 40.0 ns 40.0 ns to 40.0 ns 40.0 ns 0.25 0.25 0.00 0.00 to 0.00 0 %"
    );
    assert!(overhead("second-cycles ").contains("110 ns to 110 ns"));
    assert!(words("second-mono over second-cycles").contains("1.00×"));
    assert!(words("second-mono over second-cycles").ends_with("no difference"));
    assert!(words("stamping over second-cycles").contains("0.36× 0.36× to 0.36×"));
    assert_eq!(page.matches("paper, table II").count(), 2, "beside the ratios of either place");
    let memory = words("second-mono ");
    assert!(memory.starts_with("second-mono -1.00 1.00 1.00 - 0"), "{memory}");
    let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains(
            "stamping: the kernel's own stamp. second-cycles and second-mono: a whole trace record"
        )
    );
    assert!(flat.contains("(taken off), with a trimmed variance of 0.25"), "{flat}");
    assert!(flat.contains("Not measurable in a stock kernel: a bare stamp in raw cycles"));
}

#[test]
fn what_costs_less_does_so_within_an_interval_of_the_same_sign() {
    let cost = |ns, low, high, verdict| Cost { ns, interval: Some(Interval { low, high }), verdict };
    let conversion = Conversion {
        of: "batch".to_owned(),
        to: "threaded".to_owned(),
        hot: cost(-634.0, -679.0, -600.0, Verdict::Smaller),
        whole: cost(12.0, -5.0, 30.0, Verdict::NoDifference),
    };
    let words = conversion_words(&conversion);
    assert!(words.contains("costs 634 ns less (95 %: 600 ns to 679 ns)"), "{words}");
    assert!(words.contains("does not differ (95 %: -5.00 ns to 30.0 ns)"), "{words}");
}
