use crate::digest::{PathDigest, digest};
use crate::facts::{DepartureFacts, FlowFacts, PathFacts, RollingFigures, RoundTrip, SegmentFacts};
use quaver_abi::wire::jitlat::{FLAG_DUPLICATE, Singleton};
use quaver_arrivals::distribution::Distribution;
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::offset::OffsetSource;
use quaver_arrivals::path::playout::Advice;
use quaver_arrivals::path::summary::FlowSummary;
use quaver_instrument::facts::RunFacts;
use quaver_view::{Binned, Block, Cell, Data, Plot, Row, Series, Style, Xy, plain};

mod verdict;

const HOSTILE: &str = "</script><script>alert(1)</script>";
const MS: i64 = 1_000_000;

pub(crate) fn flow_facts(direction: Direction, sent: u64) -> FlowFacts {
    FlowFacts {
        direction,
        transport: "UDP".into(),
        source: "192.0.2.1:5000".into(),
        destination: "192.0.2.2:2667".into(),
        dscp: 0,
        payload_bytes: 80,
        period_ns: MS as u64,
        schedule: "periodic".into(),
        planned: sent,
        sent: Some(sent),
        sent_stamped_by: "application".into(),
        received_stamped_by: HOSTILE.into(),
        own_drops: None,
        foreign: 0,
        achieved: None,
        departures: None,
        segments: None,
        segments_at_server: None,
        moved: None,
        cut_short: None,
    }
}

fn packet(seq: i32, delay_ns: i64) -> Singleton {
    let tx_real_time_ns = 1_000 * MS + i64::from(seq) * MS;
    Singleton { tx_real_time_ns, tx_seq: seq, rx_real_time_ns: tx_real_time_ns + delay_ns, flags: 0 }
}

/// Every 50th packet is lost, every 20th comes twice, every 30th is overtaken; delays repeat.
fn packets(sent: i32) -> Vec<Singleton> {
    let mut all = Vec::new();
    for seq in (0..sent).filter(|seq| seq % 50 != 49) {
        let late_ns = if seq % 30 == 15 { 5 * MS } else { 0 };
        let one = packet(seq, 2 * MS + i64::from(seq) * 37 % 100 * 10_000 + late_ns);
        all.push(one);
        if seq % 20 == 0 {
            all.push(Singleton { flags: FLAG_DUPLICATE, rx_real_time_ns: one.rx_real_time_ns + 1, ..one });
        }
    }
    all.sort_by_key(|packet| packet.rx_real_time_ns);
    all
}

/// Up and down.
fn both(sent: i32) -> PathDigest {
    let flows = vec![flow_facts(Direction::Up, sent as u64), flow_facts(Direction::Down, sent as u64)];
    digest(&facts(flows), &[packets(sent), packets(sent)], run())
}

/// A round trip says that the clocks are half a second apart.
fn facts(flows: Vec<FlowFacts>) -> PathFacts {
    let trip = RoundTrip { t1_ns: 0, t2_ns: 500 * MS + 1_000, t3_ns: 2_000 };
    PathFacts {
        peer: HOSTILE.into(),
        protocol: "extension 1".into(),
        flows,
        round_trips: vec![trip],
        ..PathFacts::default()
    }
}

pub(crate) fn run() -> RunFacts {
    RunFacts {
        name: "probe-20261120T165800Z-7f3a".into(),
        verb: "probe".into(),
        started: "2026-11-20T16:58:00Z".into(),
        host: HOSTILE.into(),
        ..RunFacts::default()
    }
}

fn html(digest: &PathDigest) -> String {
    let mut out = Vec::new();
    quaver_view::write_html(&mut out, &digest.document()).unwrap();
    String::from_utf8(out).unwrap()
}

fn plot(digest: &PathDigest, id: &str) -> Plot {
    let document = digest.document();
    let charts = document.sections.into_iter().flat_map(|section| section.blocks).filter_map(|block| {
        let Block::Charts(group) = block else { return None };
        Some(group.charts)
    });
    charts.flatten().find(|chart| chart.id == id).unwrap_or_else(|| panic!("no chart {id}")).plot
}

fn xy(digest: &PathDigest, id: &str) -> Xy {
    let Plot::Xy(plot) = plot(digest, id) else { panic!("{id} is over two axes") };
    plot
}

fn binned_series(digest: &PathDigest, id: &str) -> Vec<Binned> {
    let Plot::Distribution(plot) = plot(digest, id) else { panic!("{id} is a distribution") };
    plot.series
}

/// Places and heights of a series.
fn points(series: &Series) -> Vec<(f64, f64)> {
    match &series.data {
        Data::Columns { x, y, .. } | Data::Steps { x, y } | Data::Line { x, y, .. } => {
            x.iter().copied().zip(y.iter().copied()).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn page_of_a_test_with_all_that_can_happen() {
    insta::assert_snapshot!("both_directions", plain(&both(1_000).document()));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [80, 120] {
        let style = Style { width, ..Style::PLAIN };
        let mut digest = both(1_000);
        let flows = [&mut digest.summary.up, &mut digest.summary.down];
        // A name without a blank is not broken.
        flows.into_iter().flatten().for_each(|one| one.flow.received_stamped_by = "kernel".into());
        let page = quaver_instrument::terminal::page(&digest.document(), style);
        assert!(page.lines().all(|line| line.chars().count() <= width), "{page}");
    }
}

#[test]
fn histograms_count_every_packet() {
    let digest = both(1_000);
    let series = |id| binned_series(&digest, id).into_iter();
    let total = |one: &Binned| one.below + one.above + one.counts.iter().sum::<f64>();
    for ((results, delay), (pdv, ipdv)) in digest
        .summary
        .flows()
        .zip(["delay-up", "delay-down"].map(|id| series(id).next().unwrap()))
        .zip(series("pdv").zip(series("ipdv")))
    {
        let figures = &results.figures;
        assert_eq!((total(&delay), total(&pdv)), (980.0, 980.0));
        assert_eq!(total(&ipdv) as u64, figures.variation.as_ref().unwrap().ipdv.count);
        let measured = &figures.delay.as_ref().unwrap().as_measured;
        assert_eq!(delay.edges[0] as i64, measured.min_ns);
        let last = delay.edges[delay.edges.len() - 1] as i64;
        assert!((measured.p99_ns..measured.p99_ns + 1_000).contains(&last), "{last} {measured:?}");
    }
}

#[test]
fn each_point_of_the_tail_is_exact() {
    let digest = both(1_000);
    let delays: Vec<i64> = digest.flows[0].1.arrivals.iter().map(|arrival| arrival.delay_ns()).collect();
    let least = delays.iter().min().unwrap();
    let series = xy(&digest, "pdv-tail").series;
    let names: Vec<&str> = series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["up", "up, lost ones too", "down", "down, lost ones too"]);
    let (arrived, all) = (points(&series[0]), points(&series[1]));
    let above = |pdv_ns: f64| delays.iter().filter(|delay| (**delay - least) as f64 > pdv_ns).count() as f64;
    assert!(arrived.len() > 20);
    arrived.iter().for_each(|(pdv_ns, share)| assert_eq!(*share, above(*pdv_ns) / 980.0));
    all.iter().for_each(|(pdv_ns, share)| assert_eq!(*share, (above(*pdv_ns) + 20.0) / 1_000.0));
    let largest = digest.summary.up.as_ref().unwrap().figures.variation.as_ref().unwrap().pdv.max_ns;
    assert_eq!(all.last(), Some(&(largest as f64, 0.02)));
}

#[test]
fn lengths_and_displacements_are_those_of_the_summary() {
    let digest = both(1_000);
    let up = |id| points(&xy(&digest, id).series[0]);
    // Two flows share each whole number.
    assert_eq!((up("loss-lengths"), up("copy-lengths")), (vec![(0.8, 20.0)], vec![(0.8, 50.0)]));
    let density = digest.summary.up.as_ref().unwrap().figures.density.as_ref().unwrap();
    let wanted: Vec<(f64, f64)> =
        density.counts.keys().map(|place| (*place as f64 - 0.2, density.density(*place).unwrap())).collect();
    assert_eq!(up("displacements"), wanted);
}

#[test]
fn the_clocks_offset_is_taken_out_of_each_way() {
    let digest = both(100);
    let corrected = binned_series(&digest, "delay-corrected");
    // Both ways take the same least time, which is what half the difference of the least delays gives.
    for (corrected, (id, shift_ns)) in corrected.iter().zip([("delay-up", 0), ("delay-down", 0)]) {
        let measured = &binned_series(&digest, id)[0];
        assert_eq!(corrected.edges[0] - measured.edges[0], f64::from(shift_ns));
        assert_eq!(corrected.counts, measured.counts);
    }
    let clock = digest.summary.clock.as_ref().unwrap();
    assert_eq!((clock.source, clock.offset_ns), (OffsetSource::Packets, Some(0)));
    let page = plain(&digest.document());
    assert!(page.contains("by test packets"), "{page}");
    // A direction alone has the offset of the round trip.
    let up = facts(vec![flow_facts(Direction::Up, 100)]);
    let ahead = packets(100)
        .into_iter()
        .map(|one| Singleton { rx_real_time_ns: one.rx_real_time_ns + 500 * MS, ..one });
    let one_way = digest_of(&up, ahead.collect());
    let clock = one_way.summary.clock.as_ref().unwrap();
    assert_eq!((clock.source, clock.offset_ns), (OffsetSource::RoundTrips, Some(500 * MS)));
    assert_eq!(
        one_way
            .summary
            .up
            .as_ref()
            .unwrap()
            .figures
            .delay
            .as_ref()
            .unwrap()
            .corrected
            .as_ref()
            .unwrap()
            .min_ns,
        2 * MS
    );
}

/// An up flow by itself.
fn digest_of(facts: &PathFacts, up: Vec<Singleton>) -> PathDigest {
    digest(facts, &[up], run())
}

#[test]
fn delays_that_the_clocks_drown_are_folded_with_the_reason() {
    // Nothing tells the offset.
    let without = PathFacts { round_trips: Vec::new(), ..facts(vec![flow_facts(Direction::Up, 100)]) };
    let page = plain(&digest_of(&without, packets(100)).document());
    assert!(page.contains("up: nothing tells the clocks' offset"), "{page}");
    // A round trip of 20 ms, and packets that took 2 ms.
    let trip = RoundTrip { t1_ns: 0, t2_ns: 10 * MS, t3_ns: 20 * MS };
    let wide = PathFacts { round_trips: vec![trip], ..without };
    let digest = digest_of(&wide, packets(100));
    let page = plain(&digest.document());
    assert!(page.contains("more than the delay itself") && !page.contains("corrected, ±"), "{page}");
    assert!(!page.contains("use the corrected values"), "which are not there: {page}");
    let trip = RoundTrip { t1_ns: 0, t2_ns: 2_950_000, t3_ns: 1_900_000 };
    let apart = PathFacts { round_trips: vec![trip], ..wide.clone() };
    let warned = |packets| digest_of(&apart, packets).summary.warnings.join("\n");
    assert!(warned(packets(100)).contains("the clocks differ; use PDV"), "{}", warned(packets(100)));
    assert!(page.find("Delay variation") < page.find("One-way delay"), "PDV comes first: {page}");
    // The page keeps what was measured.
    assert!(html(&digest).contains("as measured, with the clocks"));
}

#[test]
fn a_drift_is_taken_out_of_all_that_differs_by_it_and_told() {
    // 400 ppm for 8 s are 3.2 ms; delays spread over 1 ms.
    let drifting = |one: Singleton| Singleton {
        rx_real_time_ns: one.rx_real_time_ns + (one.tx_real_time_ns - 1_000 * MS) / 2_500,
        ..one
    };
    let up = facts(vec![flow_facts(Direction::Up, 8_000)]);
    let [plain_run, drifted] = [packets(8_000), packets(8_000).into_iter().map(drifting).collect()]
        .map(|packets| digest_of(&up, packets).summary.up.unwrap().figures);
    let p99 = |figures: &FlowSummary| figures.variation.as_ref().unwrap().pdv.p99_ns;
    assert!(
        (p99(&drifted) - p99(&plain_run)).abs() * 50 < p99(&plain_run),
        "{} {}",
        p99(&drifted),
        p99(&plain_run)
    );
    let buffer = |figures: &FlowSummary| match figures.advice.buffers[1].advice {
        Advice::Buffer { buffer_ns, .. } => buffer_ns as i64,
        Advice::Impossible { .. } => -1,
    };
    let both = [buffer(&drifted), buffer(&plain_run)];
    assert!((both[0] - both[1]).abs() * 50 <= both[1].abs(), "{both:?}");
    assert!((drifted.skew.as_ref().unwrap().ppm - 400.0).abs() < 1.0);
    let period = drifted.periods.received_ns.unwrap() - plain_run.periods.received_ns.unwrap();
    assert!(period.abs() < 1.0, "both ends by one clock: {period}");
}

#[test]
fn losses_are_marked_each_and_between_their_neighbours() {
    let digest = both(1_000);
    let plot = xy(&digest, "delay-time");
    let Data::Rug { x } = &plot.series[1].data else { panic!("{:?}", plot.series[1]) };
    assert_eq!((plot.series[1].name.as_str(), x.len()), ("up, lost", 20));
    let start_ns = digest.flows[0].1.arrivals[0].received_ns;
    for (mark, at_ns) in x.iter().take(19).enumerate() {
        let sent_ns = packet(50 * mark as i32 + 49, 0).tx_real_time_ns;
        // Delays are 2 to 8 ms.
        assert!((at_ns - (sent_ns - start_ns) as f64 - 5e6).abs() < 6e6, "mark {mark} at {at_ns}");
    }
}

#[test]
fn lines_pass_through_the_delays() {
    let digest = both(1_000);
    let plot = xy(&digest, "delay-time");
    let line = |name: &str| plot.series.iter().find(|series| series.name == name).unwrap();
    let (least_squares, lower) = (line("up, least squares"), line("up, least delay"));
    assert!(least_squares.dashed && !lower.dashed);
    let up = &digest.summary.up.as_ref().unwrap().figures;
    let slope = |series: &Series| {
        let ends = points(series);
        (ends[1].1 - ends[0].1) / (ends[1].0 - ends[0].0)
    };
    assert!((slope(least_squares) - up.burstiness.unwrap().slope).abs() < 1e-9);
    assert_eq!(slope(lower), 0.0, "by one clock the least delay does not drift");
    let corrected = up.delay.as_ref().unwrap().corrected.as_ref().unwrap();
    assert!(points(lower).iter().all(|(_, ns)| *ns == corrected.min_ns as f64));
}

/// Least and largest values of the slices of a direction.
fn slices(digest: &PathDigest, way: &str) -> (Vec<f64>, Vec<f64>) {
    let plot = xy(digest, "delay-time");
    let series = plot.series.iter().find(|series| series.name == way).unwrap();
    let Data::Slices { low, high, .. } = &series.data else { panic!("{series:?}") };
    (low.to_vec(), high.to_vec())
}

#[test]
fn a_spike_among_a_million_packets_survives_and_the_page_stays_small() {
    let mut all: Vec<Singleton> = (0..1_000_000).map(|seq| packet(seq, 2 * MS)).collect();
    all[654_321].rx_real_time_ns += 123_457;
    let facts = PathFacts {
        flows: vec![flow_facts(Direction::Up, 1_000_000), flow_facts(Direction::Down, 1_000_000)],
        ..PathFacts::default()
    };
    let digest = digest(&facts, &[all.clone(), all], run());
    let page = html(&digest);
    assert!(page.len() < 5_000_000, "{}", page.len());
    let (low, high) = slices(&digest, "down");
    let spike = (2 * MS + 123_457) as f64;
    assert_eq!(high.iter().filter(|delay| **delay == spike).count(), 1);
    assert!(high.iter().all(|delay| *delay == spike || *delay == 2e6));
    assert!(low.iter().all(|delay| *delay == 2e6), "each slice has packets");
}

#[test]
fn delays_that_differ_by_hours_still_fit() {
    let hour_ns = 3_600_000 * MS;
    let all = vec![packet(0, MS), packet(1, 2 * hour_ns + MS)];
    let facts = PathFacts { flows: vec![flow_facts(Direction::Up, 2)], ..PathFacts::default() };
    let (low, high) = slices(&digest(&facts, &[all], run()), "up");
    assert_eq!(high.iter().copied().fold(0.0, f64::max), (2 * hour_ns + MS) as f64);
    assert_eq!(low.iter().copied().fold(f64::INFINITY, f64::min), MS as f64);
}

#[test]
fn losses_beyond_number_are_marked_once_a_slice() {
    let facts = PathFacts { flows: vec![flow_facts(Direction::Up, 1 << 40)], ..PathFacts::default() };
    let all: Vec<Singleton> = (0..1_000).map(|seq| packet(seq, MS)).collect();
    let digest = digest(&facts, &[all], run());
    let plot = xy(&digest, "delay-time");
    let Data::Rug { x } = &plot.series[1].data else { panic!("{:?}", plot.series[1]) };
    assert!((1..=8_192).contains(&x.len()), "{}", x.len());
    assert!(x.is_sorted());
}

#[test]
fn hostile_names_never_become_markup() {
    let mut digest = both(100);
    digest.summary.warnings.push(HOSTILE.into());
    let page = html(&digest);
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
}

#[test]
fn the_page_asks_for_nothing() {
    let page = html(&both(100));
    assert!(page.contains("default-src 'none'"));
    for outside in ["src=\"http", "href=\"http", "@import", "url(http", "fetch(", "XMLHttpRequest", "import("]
    {
        assert!(!page.contains(outside), "{outside}");
    }
}

/// Cells of all rows of a table.
fn rows(block: &Block) -> Vec<Vec<Cell>> {
    let rows = match block {
        Block::Table(table) => &table.rows,
        Block::Only(_, block) => return rows(block),
        _ => return Vec::new(),
    };
    let cells = |row: &Row| if let Row::Cells(_, cells) = row { Some(cells.clone()) } else { None };
    rows.iter().filter_map(cells).collect()
}

#[test]
fn every_metric_names_its_definition() {
    let page = html(&both(1_000));
    for document in ["2330", "3357", "3393", "3550", "3611", "4737", "5236", "5481", "5560", "7679", "7680"] {
        assert!(page.contains(&format!("RFC {document}")), "RFC {document}");
    }
    assert!(page.contains("G.107"));
    for section in both(1_000).document().sections {
        for row in section.blocks.iter().flat_map(rows) {
            assert_ne!(row.last(), Some(&Cell::Empty), "{row:?}");
            assert_ne!(row.last(), Some(&Cell::from("")), "{row:?}");
        }
    }
}

#[test]
fn a_test_in_which_nothing_arrived_has_a_page() {
    let facts = PathFacts { flows: vec![flow_facts(Direction::Up, 10)], ..PathFacts::default() };
    let page = html(&digest(&facts, &[Vec::new()], run()));
    assert!(page.contains("No packet arrived.") && page.contains("Nothing arrived, so there is no delay."));
    assert!(!page.contains("id=\"plots\"") && page.contains("id=\"packets\""));
}

#[test]
fn rolling_figures_have_tables_only() {
    let figures = RollingFigures {
        direction: "up".into(),
        unique: 999_000,
        duplicate: 1,
        reordered: 2,
        lost: 1_000,
        beyond_window: 0,
        loss_periods: 7,
        longest_loss_period: 700,
        min_delay_ns: Some(MS),
        mean_delay_ns: Some(1.5e6),
        max_delay_ns: Some(90 * MS),
        delay_quantiles_ns: Some([MS, 2 * MS, 3 * MS, 4 * MS]),
        pdv_quantiles_ns: Some([0, MS, 2 * MS, 3 * MS]),
        interarrival_jitter_ns: Some(12_500.0),
        followed: None,
        corrected: None,
    };
    let flows = vec![flow_facts(Direction::Up, 1_000_000)];
    let facts = PathFacts { flows, rolling: vec![figures], ..PathFacts::default() };
    let page = html(&digest(&facts, &[Vec::new()], run()));
    assert!(page.contains("Up: loss 0.10 %; PDV p99 2.00 ms."));
    assert!(!page.contains("id=\"plots\"") && !page.contains("id=\"packets\""));
    assert!(page.contains("longest loss period, packets") && page.contains("12.5 µs"));
}

#[test]
fn what_was_seen_below_the_programs_stands_beside_what_they_saw() {
    let spread = Distribution {
        count: 2,
        min_ns: 1_990_000,
        p50_ns: 2_000_000,
        max_ns: 2_500_000,
        ..Distribution::default()
    };
    let departures = DepartureFacts {
        stamped_by: "kernel".into(),
        stamped: 198,
        missing: 2,
        p50_ns: 6_100,
        p99_ns: 41_000,
        max_ns: 77_000,
        delay: Some(spread),
    };
    let segments = |seen_by: &str, retransmitted| SegmentFacts {
        seen_by: seen_by.into(),
        segments: Some(203),
        retransmitted,
        reordered: Some(4),
        duplicate: None,
    };
    let up = FlowFacts {
        transport: "TCP".into(),
        departures: Some(departures),
        segments: Some(segments("captured", Some(3))),
        segments_at_server: Some(segments("counters", None)),
        ..flow_facts(Direction::Up, 200)
    };
    let trip = RoundTrip { t1_ns: 0, t2_ns: 500 * MS + 1_000, t3_ns: 2_000 };
    let facts = PathFacts { flows: vec![up], round_trips: vec![trip], ..PathFacts::default() };
    let ahead = |one: Singleton| Singleton { rx_real_time_ns: one.rx_real_time_ns + 500 * MS, ..one };
    let digest = digest(&facts, &[packets(200).into_iter().map(ahead).collect()], run());
    let delay = digest.summary.up.as_ref().unwrap().delay_from_departure.as_ref().unwrap();
    let corrected = delay.corrected.as_ref().unwrap();
    assert_eq!(
        corrected.p50_ns,
        delay.as_measured.p50_ns - 500 * MS,
        "upwards the server's lead is taken out"
    );
    assert_eq!(corrected.count, 2);
    let page = plain(&digest.document());
    let row = |name: &str| {
        let (_, below) = page.split_once("TCP segments").expect("the section is there");
        let line = below.lines().find(|line| line.trim_start().starts_with(name));
        let words = line.unwrap_or_else(|| panic!("no {name:?} in {page}"));
        words.trim_start()[name.len()..]
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(row("segments with data"), ["203", "203"]);
    assert_eq!(row("retransmitted"), ["3", "not known"]);
    assert_eq!(row("duplicates"), ["not known", "not known"]);
    assert_eq!(row("packets delivered to the program"), ["196", "196"]);
    assert_eq!(row("departure "), ["kernel, 198 of 200 (99.0 %)"]);
    assert_eq!(row("departure − sending, p50"), ["6.10 µs"]);
    assert!(page.contains("from kernel departure, corrected"), "{page}");
    assert!(page.contains("up, sender: every packet observed; up, receiver: counters (TCP_INFO)"), "{page}");
    let html = html(&digest);
    for words in ["up, sender", "TCP_INFO", "kernel, 198 of 200", "from kernel departure", "s stamp"] {
        assert!(html.contains(words), "no {words:?}");
    }
}

#[test]
fn a_test_that_kept_no_packets_tells_its_flows_and_warns_of_them() {
    let figures = |direction: &str, unique| RollingFigures {
        direction: direction.into(),
        unique,
        duplicate: 2,
        reordered: 3,
        lost: 4,
        beyond_window: 0,
        loss_periods: 1,
        longest_loss_period: 4,
        min_delay_ns: Some(5_000),
        mean_delay_ns: Some(6_000.0),
        max_delay_ns: Some(7_000),
        delay_quantiles_ns: Some([6_000; 4]),
        pdv_quantiles_ns: Some([1_000; 4]),
        interarrival_jitter_ns: Some(10.0),
        followed: None,
        corrected: None,
    };
    let departures = DepartureFacts {
        stamped_by: "hardware".into(),
        stamped: 9_000,
        missing: 0,
        p50_ns: 6_100,
        p99_ns: 7_200,
        max_ns: 8_300,
        delay: None,
    };
    let segments = SegmentFacts { seen_by: "captured".into(), segments: Some(70), ..SegmentFacts::default() };
    let up = FlowFacts {
        departures: Some(departures),
        own_drops: Some(11),
        cut_short: Some("the server went away".into()),
        ..flow_facts(Direction::Up, 9_000)
    };
    let down = FlowFacts { segments: Some(segments), ..flow_facts(Direction::Down, 9_000) };
    let facts = PathFacts {
        flows: vec![up, down],
        rolling: vec![figures("up", 8_996), figures("down", 8_990)],
        ..PathFacts::default()
    };
    let digest = digest(&facts, &[vec![], vec![]], run());
    assert!(digest.summary.up.is_none() && !digest.summary.complete);
    let (page, html) = (plain(&digest.document()), html(&digest));
    let of_up = ["hardware, 9,000 of 9,000", "6.10 µs", "8,990"];
    let of_down = ["down, receiver", "every packet observed", "192.0.2.2:2667"];
    for words in of_up.into_iter().chain(of_down) {
        assert!(page.contains(words), "no {words:?} in {page}");
        assert!(html.contains(words), "no {words:?} on the report");
    }
    let own_drops = "up to 4 of the lost packets were dropped by the receiver's own socket";
    for words in [own_drops, "up: the server went away"] {
        let warned = digest.summary.warnings.iter().any(|warning| warning.contains(words));
        assert!(warned, "{:?}", digest.summary.warnings);
    }
}
