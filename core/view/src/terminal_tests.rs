use super::*;
use crate::document::{Cause, Causes, Column, Finding, Remedy, Table};
use crate::{Cell, text};

fn causes() -> Causes {
    let figures =
        |time: i64, packets, seq| vec![Cell::Duration(time), Cell::Count(packets), Cell::Sequence(seq)];
    let cause = |name: &str, share, figures, details: &str, remedies: &[(&str, &str)]| Cause {
        name: name.into(),
        share,
        figures,
        details: vec![details.into()],
        remedies: remedies.iter().map(|(when, what)| Remedy::new(*when, *what)).collect(),
        ..Cause::default()
    };
    let pin = [
        ("now", "quaver tune apply pin-threads (moves it: taskset -pc 0 1234)"),
        ("boot", "isolcpus=managed_irq,domain,1"),
    ];
    Causes {
        columns: ["time", "late packets", "example"].map(Column::from).into(),
        causes: vec![
            cause(
                "thread stress (fifo 50)",
                0.612,
                figures(37_300_000, 1_480, 481_203),
                "[rt-thread] 74 times: 33.3 ms inside, 933 µs getting in and out, 3.11 ms catching up afterwards",
                &pin,
            ),
            cause("irq 41 \x1b[2J<b>rx</b>", 0.24, figures(14_700_000, 611, 5), "[dev-irq] 9 times", &pin),
            cause("a", 0.000_4, figures(1, 1, 6), "", &[]),
            cause("b", 0.000_3, figures(1, 1, 7), "", &[]),
        ],
        terminal_first: Some(2),
        smaller: Some(cause("2 smaller sources (see the report)", 0.000_7, figures(2, 2, 6), "", &[])),
        unexplained: Some(cause(
            "unexplained",
            0.052,
            figures(3_170_000, 40, 99_120),
            "No recorded event explains it.",
            &[],
        )),
    }
}

fn document() -> Document {
    let mut document = Document::new("quaver chase", "chase-20261120\x1b[1m");
    document.fact("host", "studio-7 · Linux 6.18.5 x86_64 · 2 CPUs · virtual machine (KVM)");
    document.fact("tracing", "tracefs").fact("", "not better, because: BPF needs CAP_BPF and CAP_PERFMON; run: sudo setcap cap_bpf,cap_perfmon+ep quaver");
    document.html_fact("command", "quaver chase");
    document.verdict = Some(text!("{} packets ({}) came late.", Cell::Count(2_311), Cell::Share(0.0017)));
    document.incomplete = true;
    document.warn("RT throttling is on: a busy SCHED_FIFO receiver is stopped for 50 ms of each second. Turn it off with: quaver tune apply rt-throttle");
    document.report_path = Some("runs/x/report.html".into());
    let mut table = Table::new(
        ["layer", "p50", "p99.999", "sd"]
            .map(Column::from)
            .into_iter()
            .chain([Column::new("packets").html_only()]),
    );
    table.row::<Cell>([
        "source".into(),
        Cell::Duration(7_410),
        Cell::Duration(49_000),
        Cell::FineDuration(2_304.4),
    ]);
    table.toned::<Cell>(Tone::Bad, ["receive".into(), Cell::Duration(7_410), Cell::Missing, Cell::Unknown]);
    table.note("A dash: too few packets for that percentile.");
    document.section(Section::new("delta", "ΔT").note("time between successive packets").with(table));
    document.section(
        Section::new("lateness", "Late packets")
            .with(Text::from("The worst was late by ").strong(Cell::Duration(405_000)).plain("."))
            .with(Block::List(vec!["one".into(), "two".into()]))
            .with(Block::Preformatted("a  b\n\tc".into())),
    );
    document.section(
        Section::new("causes", "What made them late")
            .note("ranked; shares are of the late time")
            .with(causes()),
    );
    document.section(Section::new("page", "Only in the page").shown(Shown::HtmlOnly));
    document.section(
        Section::new("none", "Nothing")
            .with(Table::new(["a"]).empty("No two packets were received."))
            .with(Table::bare(2))
            .with(Block::from("in the page").only(Shown::HtmlOnly)),
    );
    document
}

const PAGE: &str = "\
quaver chase · chase-20261120�[1m
  host      studio-7 · Linux 6.18.5 x86_64 · 2 CPUs · virtual machine (KVM)
  tracing   tracefs
            not better, because: BPF needs CAP_BPF and CAP_PERFMON; run: sudo setcap
            cap_bpf,cap_perfmon+ep quaver
  This run was cut short; what follows covers what was kept.

  2,311 packets (0.17 %) came late.

ΔT  time between successive packets
  layer        p50  p99.999         sd
  source   7.41 µs  49.0 µs    2.30 µs
  receive  7.41 µs        -  not known
  A dash: too few packets for that percentile.

Late packets
  The worst was late by 405 µs.
  - one
  - two
  a  b
          c

What made them late  ranked; shares are of the late time
  #   share     time  late packets  example  source
  1  61.2 %  37.3 ms         1,480  #481203  thread stress (fifo 50)
       [rt-thread] 74 times: 33.3 ms inside, 933 µs getting in and out, 3.11 ms catching up
       afterwards
       now:  quaver tune apply pin-threads (moves it: taskset -pc 0 1234)
       boot: isolcpus=managed_irq,domain,1
  2  24.0 %  14.7 ms           611       #5  irq 41 �[2J<b>rx</b>
       [dev-irq] 9 times
       remedy: as for 1
     0.07 %     2 ns             2       #6  2 smaller sources (see the report)
  ?   5.2 %  3.17 ms            40   #99120  unexplained
       No recorded event explains it.

Nothing
  No two packets were received.

Warnings
  ! RT throttling is on: a busy SCHED_FIFO receiver is stopped for 50 ms of each second. Turn it off
    with: quaver tune apply rt-throttle

Report  runs/x/report.html
";

#[test]
fn the_page_as_plain_text() {
    let page = plain(&document());
    assert_eq!(page, PAGE, "{page}");
}

#[test]
fn colour_changes_no_character() {
    let coloured =
        TextPage { out: String::new(), style: Style { colour: true, ..Style::PLAIN } }.of(&document());
    assert!(coloured.contains("The worst was late by \x1b[1m405 µs\x1b[0m."), "{coloured}");
    assert!(coloured.contains("\x1b[1;31mreceive"), "{coloured}");
    let mut left = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\x1b') {
        left.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    assert_eq!(left + rest, PAGE);
}

#[test]
fn words_are_wrapped_to_the_width_and_numbers_never() {
    let mut table = Table::new(["figure", "value", "definition"]);
    let words = "Smallest one-way delay subtracted from the delay of each packet, RFC 5481, section 4.2";
    table.row::<Cell>(["packet delay variation".into(), Cell::Duration(7_410), words.into()]);
    for width in [40, 60, 80, 120, 200] {
        let style = Style { width, ..Style::PLAIN };
        let text = grid::of_table(&table, style).render(style);
        assert!(text.lines().all(|line| crate::text::width(line) <= width), "{width}\n{text}");
        assert!(text.contains("7.41 µs"), "{text}");
    }
    let narrow = grid::of_table(&table, Style::PLAIN).render(Style { width: 60, ..Style::PLAIN });
    let wanted = "  figure                    value  definition
  packet delay variation  7.41 µs  Smallest one-way delay
                                   subtracted from the delay
                                   of each packet, RFC 5481,
                                   section 4.2
";
    assert_eq!(narrow, wanted, "{narrow}");
}

#[test]
fn bars_in_tables_are_drawn() {
    let mut table = Table::bare(3);
    table.row::<Cell>(["a".into(), Cell::Bars(vec![0.5]), Cell::Count(1)]).row::<Cell>([
        "b".into(),
        Cell::Bars(vec![0.0]),
        Cell::Missing,
    ]);
    let text = grid::of_table(&table, Style::PLAIN).render(Style::PLAIN);
    assert_eq!(text, "  a  ██████████            1\n  b                        -\n");
}

#[test]
fn a_long_table_ends_with_the_number_of_rows_left() {
    let mut table = Table::bare(1).terminal_first(2);
    (1..=5).for_each(|at| {
        table.row([Cell::Index(at)]);
    });
    assert_eq!(grid::of_table(&table, Style::PLAIN).render(Style::PLAIN), "  1\n  2\n  and 3 more\n");
}

#[test]
fn findings_fit_the_terminal() {
    let mut document = Document::new("x", "y");
    document.section(Section::new("s", "Title").with(vec![
        Finding::new(Tone::Caution, "missing", "wall clock follows a \x1b[2J reference")
            .detail("found: nothing that could be asked for it")
            .remedy("sudo systemctl enable --now chrony"),
        Finding::new(Tone::Plain, "irq-affinity", "interrupts of other devices"),
        Finding::new(Tone::Plain, "", "kernel.watchdog = 0").detail("was 1"),
    ]));
    let mut out = Vec::new();
    write_terminal(&mut out, &document, Style { width: 40, ..Style::PLAIN }).unwrap();
    let wanted = "\
x · y

Title
  missing  wall clock follows a �[2J
           reference
           found: nothing that could be
           asked for it
           sudo systemctl enable --now
           chrony
  irq-affinity  interrupts of other
           devices
  kernel.watchdog = 0
           was 1
";
    let out = String::from_utf8(out).unwrap();
    assert_eq!(out, wanted, "{out}");
}

#[test]
fn numbers_stand_closer_where_they_are_too_long() {
    let mut table = Table::new(["a", "b", "c", "d", "e"]);
    table.row([Cell::Duration(7_410_000); 1].into_iter().chain((0..4).map(|_| Cell::Count(1_349_527))));
    let mut document = Document::new("quaver x", "y");
    document.section(Section::new("s", "S").with(table));
    let page = |width| TextPage { out: String::new(), style: Style { width, ..Style::PLAIN } }.of(&document);
    assert!(page(53).ends_with("  7.41 ms  1,349,527  1,349,527  1,349,527  1,349,527\n"), "{}", page(53));
    assert!(page(52).ends_with("  7.41 ms 1,349,527 1,349,527 1,349,527 1,349,527\n"), "{}", page(52));
}

#[test]
fn a_column_without_any_value_stands_where_its_numbers_would() {
    let mut table = Table::new(["layer", "p99.999"]);
    table.row(["source".into(), Cell::Missing]).row(["sink".into(), Cell::Missing]);
    let mut document = Document::new("quaver x", "y");
    document.section(Section::new("s", "S").with(table));
    let page = TextPage { out: String::new(), style: Style::PLAIN }.of(&document);
    assert!(page.ends_with("  layer   p99.999\n  source        -\n  sink          -\n"), "{page}");
}

#[test]
fn what_numbers_alone_make_too_wide_is_stacked() {
    let mut table = Table::new(["layer", "p50", "p90", "p99", "late packets", "note"]);
    let times = |at: i64| [1, 10, 100].map(|times| Cell::Duration(7_410 * at * times));
    for (at, name) in [(1, "source"), (2, "application")] {
        let mut row = vec![Cell::from(name)];
        row.extend(times(at));
        row.extend([Cell::Count(1_234_567), if at == 1 { "".into() } else { "long words about it".into() }]);
        table.row(row);
    }
    let narrow = Style { width: 40, ..Style::PLAIN };
    let wanted = "  source
    p50 7.41 µs  p90 74.1 µs  p99 741 µs
    late packets 1,234,567
  application
    p50 14.8 µs  p90 148 µs  p99 1.48 ms
    late packets 1,234,567
    note long words about it
";
    let text = grid::of_table(&table, narrow).render(narrow);
    assert_eq!(text, wanted, "{text}");
    // With a little more room headings are folded.
    let style = Style { width: 65, ..Style::PLAIN };
    let wanted = "                                               late
  layer            p50      p90      p99    packets  note
";
    let text = grid::of_table(&table, style).render(style);
    assert!(text.starts_with(wanted), "{text}");
}

#[test]
fn pages_keep_to_every_width() {
    for width in 40..=200 {
        let style = Style { width, ..Style::PLAIN };
        let page = TextPage { out: String::new(), style }.of(&document());
        let widest = page.lines().map(crate::text::width).max();
        assert!(widest.is_some_and(|widest| widest <= width), "{width}:\n{page}");
    }
    let narrow = Style { width: 40, ..Style::PLAIN };
    let page = TextPage { out: String::new(), style: narrow }.of(&document());
    assert_eq!(page, NARROW, "{page}");
}

const NARROW: &str = "\
quaver chase · chase-20261120�[1m
  host      studio-7 · Linux 6.18.5
            x86_64 · 2 CPUs · virtual
            machine (KVM)
  tracing   tracefs
            not better, because: BPF
            needs CAP_BPF and
            CAP_PERFMON; run: sudo
            setcap
            cap_bpf,cap_perfmon+ep
            quaver
  This run was cut short; what follows
  covers what was kept.

  2,311 packets (0.17 %) came late.

ΔT  time between successive packets
  layer        p50  p99.999         sd
  source   7.41 µs  49.0 µs    2.30 µs
  receive  7.41 µs        -  not known
  A dash: too few packets for that
  percentile.

Late packets
  The worst was late by 405 µs.
  - one
  - two
  a  b
          c

What made them late
  ranked; shares are of the late time
  1 thread stress (fifo 50)
    share 61.2 %  time 37.3 ms
    late packets 1,480  example #481203
       [rt-thread] 74 times: 33.3 ms
       inside, 933 µs getting in and
       out, 3.11 ms catching up
       afterwards
       now:  quaver tune apply
             pin-threads (moves it:
             taskset -pc 0 1234)
       boot: isolcpus=managed_irq,
             domain,1
  2 irq 41 �[2J<b>rx</b>
    share 24.0 %  time 14.7 ms
    late packets 611  example #5
       [dev-irq] 9 times
       remedy: as for 1
  2 smaller sources (see the report)
    share 0.07 %  time 2 ns
    late packets 2  example #6
  ? unexplained
    share 5.2 %  time 3.17 ms
    late packets 40  example #99120
       No recorded event explains it.

Nothing
  No two packets were received.

Warnings
  ! RT throttling is on: a busy
    SCHED_FIFO receiver is stopped for
    50 ms of each second. Turn it off
    with: quaver tune apply rt-throttle

Report  runs/x/report.html
";
