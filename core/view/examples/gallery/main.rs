//! Writes a page with every kind of block and drawing: `gallery OUT.html [still]`; prints the terminal's form.

mod charts;

use quaver_view::{
    Block, Cause, Causes, Cell, Column, Document, Finding, Remedy, Section, Shown, Style, Table, Text, Tone,
    text, write_html, write_terminal,
};
use std::io::Write;

fn causes() -> Causes {
    let names =
        ["thread stress (fifo 50)", "vector local timer", "irq 41 virtio3-<b>rx</b>\u{1b}[2J", "שלום thread"];
    let shares = [0.612, 0.241, 0.095, 0.012];
    let kinds = ["network-independent", "tick", "hardware or hypervisor", "network-independent"];
    let remedies = [
        vec![
            Remedy::new("now", "quaver tune apply pin-threads (moves it: taskset -pc 0 1234)"),
            Remedy::new("boot", Text::default().code("isolcpus=managed_irq,domain,1")),
        ],
        vec![Remedy::new("boot", Text::default().code("nohz_full=1"))],
        vec![Remedy::new("now", "quaver tune apply irq-affinity")],
        vec![],
    ];
    let cause = |at: usize| Cause {
        inferred: shares[at] / 5.0,
        name: names[at].into(),
        share: shares[at],
        figures: vec![
            Cell::Duration((61e6 * shares[at]) as i64),
            Cell::Count((2_311.0 * shares[at]) as u64),
            Cell::Duration(204_000 / (at as i64 + 1)),
            Cell::Sequence(481_203 + at as u64),
        ],
        details: vec![
            Text::from(kinds[at]).plain(" · ").code("rt-thread"),
            text!("{} times: {} inside", Cell::Count(74), Cell::Duration(33_300_000)),
        ],
        html_details: vec![],
        remedies: remedies[at].clone(),
    };
    let unexplained = Cause {
        name: "unexplained".into(),
        share: 0.04,
        figures: vec![
            Cell::Duration(2_440_000),
            Cell::Count(92),
            Cell::Duration(9_800),
            Cell::Sequence(99_120),
        ],
        details: vec!["No recorded event explains it.".into()],
        ..Cause::default()
    };
    Causes {
        columns: ["time", "late packets", "worst", "example"].map(Column::from).into(),
        causes: (0..4).map(cause).collect(),
        unexplained: Some(unexplained),
        ..Causes::default()
    }
}

fn layers() -> Table {
    let mut table = Table::new(["layer", "packets", "p50", "p90", "p99", "p99.9", "p99.99", "max", "sd"]);
    for (layer, scale) in [("source", 1), ("receive", 2), ("application", 3)] {
        let at = |ns: i64| Cell::Duration(ns * scale);
        let counts = [Cell::from(layer), Cell::Count(1_349_527)];
        let values = [7_410, 7_780, 9_260, 22_200, 74_100, 412_000].map(at);
        table.row(counts.into_iter().chain(values).chain([Cell::FineDuration(2_304.4)]));
    }
    table
}

fn tables() -> Section {
    let mut stages = Table::new([
        Column::new("stage"),
        Column::new("share").note("of the time that late packets took longer"),
        Column::new("median"),
        Column::new("on time"),
        Column::new("late"),
    ]);
    for (name, share) in
        [("schedule → source", 0.004), ("source → receive", 0.05), ("receive → application", 0.946)]
    {
        let cells = [
            name.into(),
            Cell::Share(share),
            Cell::Bars(vec![share / 4.0, share]),
            Cell::Duration(900),
            Cell::Duration(48_000),
        ];
        stages.row(cells);
    }
    let mut long = Table::new(["thread", "waits", "part", "state"]).title("A long table").first_rows(5);
    for at in 0..24_u64 {
        let tone = [Tone::Plain, Tone::Good, Tone::Caution, Tone::Bad, Tone::Quiet][at as usize % 5];
        let state = ["plain", "as it should be", "to be looked at", "wrong", "unimportant"][at as usize % 5];
        long.toned(
            tone,
            [
                Cell::Index(4_000 + at),
                Cell::Count(at * 7_919),
                Cell::Share(0.9_f64.powi(at as i32)),
                state.into(),
            ],
        );
    }
    let mut fate = Table::bare(3).title("Packets by fate");
    fate.row([Cell::from("sent"), Cell::Count(1_349_527)]);
    fate.row([Cell::from("lost in the NIC ring"), Cell::Unknown]);
    fate.row([Cell::from("lost at the socket buffer"), Cell::Count(24), Cell::Share(0.000_02)]);
    fate.note("A dash: too few packets for that percentile.");
    Section::new("tables", "Tables")
        .note("Every kind of row.")
        .with(layers())
        .with(stages)
        .with(long)
        .with(fate)
}

fn findings() -> Vec<Finding> {
    vec![
        Finding::new(Tone::Caution, "missing", "wall clock follows a reference")
            .detail("found: the kernel clock is not synchronized")
            .remedy("sudo systemctl enable --now chrony"),
        Finding::new(Tone::Good, "good", "raw-cycle stamps").detail("one rate in all power states"),
    ]
}

fn document() -> Document {
    let mut document = Document::new("quaver gallery", "gallery-20261120T165800Z-7f3a");
    document.version = "0.1.0".into();
    document.verdict = Some(text!(
        "{} packets ({}) came late. The largest source is {}: {} of the late time.",
        Cell::Count(2_311),
        Cell::Share(0.0017),
        "thread stress (fifo 50)",
        Cell::Share(0.612)
    ));
    document.fact("host", "studio-7 · Linux 6.18.5 x86_64 · 2 CPUs · virtual machine (KVM)");
    document.fact(
        "stream",
        text!("one packet every {} · {}", Cell::FineDuration(7_410.0), Cell::Rate(134_953.0, "packets")),
    );
    document.html_fact("command", Text::default().code("quaver chase --for 10s"));
    document.warn("RT throttling is on: a busy SCHED_FIFO receiver is stopped for 50 ms of each second.");
    document.tile("Packets received", Cell::Count(1_349_500), text!("of {} sent", Cell::Count(1_349_527)));
    document.tile("Packets lost", Cell::Count(27), "not known at 1 of 6 places");
    document.tile("Late packets", Cell::Count(2_311), text!("beyond {}", Cell::Duration(14_800)));
    document.tile("Worst lateness", Cell::Duration(405_000), "at the application");
    document.tile("Cost of the probes", Cell::Missing, "not measured");
    let note = "Sources ranked by the late time that they account for. What no recorded event explains is called unexplained.";
    document
        .section(Section::new("causes", "What made packets late").link("Sources").note(note).with(causes()));
    charts::sections().into_iter().for_each(|section| {
        document.section(section);
    });
    document.section(tables());
    document.section(Section::new("findings", "Findings").with(findings()));
    document.section(
        Section::new("words", "Words")
            .with(
                Text::from("The worst was late by ")
                    .strong(Cell::Duration(405_000))
                    .plain("; run ")
                    .code("quaver tune plan")
                    .plain("."),
            )
            .with(Block::List(vec!["one thing".into(), "another thing".into()]))
            .with(Block::Preformatted("cpu 0  ####\ncpu 1  ##".into()))
            .with(Block::Note("A remark below what it is about.".into())),
    );
    document.section(Section::new("folded", "Folded").folded().with("Seen when it is opened."));
    document
        .section(Section::new("terminal", "On the terminal only").shown(Shown::TerminalOnly).with("Words."));
    document
}

fn main() -> std::io::Result<()> {
    let document = document();
    if let Some(path) = std::env::args().nth(1) {
        write_html(&mut std::io::BufWriter::new(std::fs::File::create(path)?), &document)?;
    }
    let style = Style { colour: false, ..Style::PLAIN };
    let mut out = std::io::stdout().lock();
    write_terminal(&mut out, &document, style)?;
    out.flush()
}
