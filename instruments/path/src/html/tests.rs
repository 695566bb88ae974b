use super::*;
use crate::digest::{PathDigest, digest};
use crate::facts::{DepartureFacts, PathFacts, RollingFigures, RoundTrip, SegmentFacts};
use quaver_abi::wire::jitlat::{FLAG_DUPLICATE, Singleton};
use quaver_analysis::distribution::Distribution;
use quaver_analysis::path::direction::Direction;
use quaver_page::fixture;
use serde_json::Value;

const HOSTILE: &str = "</script><script>alert(1)</script>";
const MS: i64 = 1_000_000;

fn flow_facts(direction: Direction, sent: u64) -> FlowFacts {
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

/// Up and down, with clocks that are half a second apart.
fn both(sent: i32) -> PathDigest {
    let flows = vec![flow_facts(Direction::Up, sent as u64), flow_facts(Direction::Down, sent as u64)];
    let trip = RoundTrip { t1_ns: 0, t2_ns: 500 * MS + 1_000, t3_ns: 2_000 };
    let facts = PathFacts {
        peer: HOSTILE.into(),
        protocol: "extension 1".into(),
        flows,
        round_trips: vec![trip],
        ..PathFacts::default()
    };
    digest(&facts, &[packets(sent), packets(sent)], "probe-1".into())
}

fn html(digest: &PathDigest) -> String {
    let run = RunFacts { host: HOSTILE.into(), ..fixture::facts() };
    let mut out = Vec::new();
    digest.write_html(&run, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn element<'a>(page: &'a str, id: &str) -> &'a str {
    let opening = format!("id=\"{id}\">");
    let from = page.find(&opening).unwrap_or_else(|| panic!("the page has {id}")) + opening.len();
    &page[from..from + page[from..].find("</script>").expect("the block ends")]
}

fn data_of(page: &str) -> Value {
    serde_json::from_str(element(page, "data")).unwrap()
}

/// Numbers of a block of data.
fn block(page: &str, id: &str) -> Vec<i32> {
    let digit = |octet: u8| match octet {
        b'A'..=b'Z' => octet - b'A',
        b'a'..=b'z' => octet - b'a' + 26,
        b'0'..=b'9' => octet - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => 0,
    };
    let text = element(page, id).as_bytes();
    let mut octets = Vec::new();
    for group in text.chunks(4) {
        let value = group.iter().fold(0u32, |value, octet| value << 6 | u32::from(digit(*octet)));
        octets.extend(value.to_be_bytes()[1..].iter().take(3 - group.iter().filter(|o| **o == b'=').count()));
    }
    octets.chunks_exact(4).map(|four| i32::from_le_bytes(four.try_into().unwrap())).collect()
}

fn sum(values: &Value) -> u64 {
    values.as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).sum()
}

#[test]
fn histograms_count_every_packet() {
    let digest = both(1_000);
    let data = data_of(&html(&digest));
    for (flow, results) in data["flows"].as_array().unwrap().iter().zip(digest.summary.flows()) {
        let total = |bins: &Value| {
            sum(&bins["counts"]) + bins["above"].as_u64().unwrap() + bins["below"].as_u64().unwrap()
        };
        let figures = &results.figures;
        assert_eq!((total(&flow["latency"]), total(&flow["pdv"])), (980, 980));
        assert_eq!(total(&flow["ipdv"]), figures.variation.as_ref().unwrap().ipdv.count);
        assert_eq!(flow["latency"]["min_ns"], figures.delay.as_ref().unwrap().as_measured.min_ns);
        assert_eq!(flow["latency"]["limit_ns"], figures.delay.as_ref().unwrap().as_measured.p99_ns);
        assert_eq!(flow["tail"][0][0], 0);
        let last = flow["tail"].as_array().unwrap().last().unwrap();
        assert_eq!(last[0], figures.variation.as_ref().unwrap().pdv.max_ns);
        assert_eq!(last[1], 0);
    }
}

#[test]
fn each_point_of_the_tail_is_exact() {
    let digest = both(1_000);
    let data = data_of(&html(&digest));
    let delays: Vec<i64> = digest.flows[0].1.arrivals.iter().map(|arrival| arrival.delay_ns()).collect();
    let least = delays.iter().min().unwrap();
    for point in data["flows"][0]["tail"].as_array().unwrap() {
        let (pdv_ns, above) = (point[0].as_i64().unwrap(), point[1].as_u64().unwrap());
        assert_eq!(delays.iter().filter(|delay| **delay - least > pdv_ns).count() as u64, above);
    }
}

#[test]
fn lengths_and_displacements_are_those_of_the_summary() {
    let digest = both(1_000);
    let data = data_of(&html(&digest));
    let up = &digest.summary.up.as_ref().unwrap().figures;
    let flow = &data["flows"][0];
    assert_eq!(flow["loss_lengths"], serde_json::json!([[1, 20]]));
    assert_eq!(flow["copies"], serde_json::json!([[1, 50]]));
    let density = up.density.as_ref().unwrap();
    let wanted: Vec<(i64, u64)> = density.counts.clone().into_iter().collect();
    assert_eq!(flow["displacements"], serde_json::json!(wanted));
    assert_eq!((flow["lost"].as_u64(), flow["duplicate"].as_u64()), (Some(20), Some(50)));
}

#[test]
fn the_clocks_offset_is_taken_out_of_each_way() {
    let data = data_of(&html(&both(100)));
    assert_eq!(data["flows"][0]["shift_ns"], -500 * MS);
    assert_eq!(data["flows"][1]["shift_ns"], 500 * MS);
    assert_eq!(data["flows"][0]["bound_ns"], 1_000);
}

#[test]
fn losses_are_marked_each_and_between_their_neighbours() {
    let digest = both(1_000);
    let page = html(&digest);
    let marks = block(&page, "lost-0");
    assert_eq!(marks.chunks(2).map(|pair| pair[1]).sum::<i32>(), 20);
    let slice_ns = data_of(&page)["slice_ns"].as_f64().unwrap();
    let start_ns = digest.flows[0].1.arrivals[0].received_ns;
    for (mark, pair) in marks.chunks(2).take(19).enumerate() {
        let sent_ns = packet(50 * mark as i32 + 49, 0).tx_real_time_ns;
        let at_ns = f64::from(pair[0]) * slice_ns;
        // Delays are 2 to 8 ms.
        assert!((at_ns - (sent_ns - start_ns) as f64 - 5e6).abs() < 6e6, "mark {mark} at {at_ns}");
    }
}

#[test]
fn a_spike_among_a_million_packets_survives_and_the_page_stays_small() {
    let mut all: Vec<Singleton> = (0..1_000_000).map(|seq| packet(seq, 2 * MS)).collect();
    all[654_321].rx_real_time_ns += 123_457;
    let facts = PathFacts {
        flows: vec![flow_facts(Direction::Up, 1_000_000), flow_facts(Direction::Down, 1_000_000)],
        ..PathFacts::default()
    };
    let page = html(&digest(&facts, &[all.clone(), all], "probe-1".into()));
    assert!(page.len() < 5_000_000, "{}", page.len());
    let slices = block(&page, "slices-1");
    let largest = &slices[slices.len() / 2..];
    assert_eq!(largest.iter().filter(|delay| **delay == 123_457).count(), 1);
    assert!(largest.iter().all(|delay| [i32::MIN, 0, 123_457].contains(delay)));
}

#[test]
fn delays_that_differ_by_hours_still_fit() {
    let hour_ns = 3_600_000 * MS;
    let all = vec![packet(0, MS), packet(1, 2 * hour_ns + MS)];
    let facts = PathFacts { flows: vec![flow_facts(Direction::Up, 2)], ..PathFacts::default() };
    let page = html(&digest(&facts, &[all], "probe-1".into()));
    let data = data_of(&page);
    let unit_ns = data["flows"][0]["unit_ns"].as_i64().unwrap();
    let largest = *block(&page, "slices-0").iter().max().unwrap();
    let found_ns = data["flows"][0]["base_ns"].as_i64().unwrap() + i64::from(largest) * unit_ns;
    assert!((0..unit_ns).contains(&(2 * hour_ns + MS - found_ns)));
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

#[test]
fn every_metric_names_its_definition() {
    let page = html(&both(1_000));
    for document in ["2330", "3357", "3393", "3550", "3611", "4737", "5236", "5481", "5560", "7679", "7680"] {
        assert!(page.contains(&format!("RFC {document}")), "RFC {document}");
    }
    assert!(page.contains("G.107"));
    assert!(!page.contains("<td class=\"definition\"></td>"));
}

#[test]
fn a_test_in_which_nothing_arrived_has_a_page() {
    let facts = PathFacts { flows: vec![flow_facts(Direction::Up, 10)], ..PathFacts::default() };
    let page = html(&digest(&facts, &[Vec::new()], "probe-1".into()));
    assert!(page.contains("Not one packet arrived."));
    assert!(!page.contains("id=\"path-pane\"") && page.contains("Packets by fate"));
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
    };
    let flows = vec![flow_facts(Direction::Up, 1_000_000)];
    let facts = PathFacts { flows, rolling: vec![figures], ..PathFacts::default() };
    let page = html(&digest(&facts, &[Vec::new()], "probe-1".into()));
    assert!(
        page.contains("Up: 0.10 % of the packets were lost, and 99 % of those that arrived came within 2.00 ms of the quickest.")
    );
    assert!(!page.contains("id=\"path-pane\"") && !page.contains("Packets by fate"));
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
    let digest = digest(&facts, &[packets(200)], "run".into());
    let delay = digest.summary.up.as_ref().unwrap().delay_from_departure.as_ref().unwrap();
    let corrected = delay.corrected.as_ref().unwrap();
    assert_eq!(
        corrected.p50_ns,
        delay.as_measured.p50_ns - 500 * MS,
        "upwards the server's lead is taken out"
    );
    assert_eq!(corrected.count, 2);
    let page = digest.page(None);
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
    assert_eq!(row("known by"), ["each seen", "counters"]);
    assert_eq!(row("segments with data"), ["203", "203"]);
    assert_eq!(row("sent again"), ["3", "not known"]);
    assert_eq!(row("came twice"), ["not known", "not known"]);
    assert_eq!(row("packets that the program got"), ["196", "196"]);
    assert_eq!(row("departure"), ["kernel, 198 of 200 (99.0 %)"]);
    assert_eq!(row("after sending, p50"), ["6.10 us"]);
    assert!(page.contains("up, from the kernel's departure"), "{page}");
    let html = html(&digest);
    for words in [
        "up, sender",
        "up, receiver",
        "each seen",
        "TCP_INFO",
        "kernel, 198 of 200",
        "from departure",
        "the same, corrected",
        "s stamp",
    ] {
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
    let digest = digest(&facts, &[vec![], vec![]], "run".into());
    assert!(digest.summary.up.is_none() && !digest.summary.complete);
    let (page, html) = (digest.page(None), html(&digest));
    for words in
        ["hardware, 9,000 of 9,000", "6.10 us", "down, receiver", "each seen", "8,990", "192.0.2.2:2667"]
    {
        assert!(page.contains(words), "no {words:?} in {page}");
        let words = words.replace("6.10 us", "6.10 µs");
        assert!(html.contains(&words), "no {words:?} on the report");
    }
    for words in ["11 packets were dropped by the receiver's own socket", "up: the server went away"] {
        let warned = digest.summary.warnings.iter().any(|warning| warning.contains(words));
        assert!(warned, "{:?}", digest.summary.warnings);
    }
}
