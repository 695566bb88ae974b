//! Files that the tools wrote, read whole, and damaged in every way.

use quaver_peers::formats::{parse, recognizes};
use quaver_peers::result::{Figures, Measurement, Quantity, Values};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).expect("committed")
}

#[track_caller]
fn read(name: &str) -> Measurement {
    let bytes = bytes(name);
    assert!(recognizes(&bytes[..bytes.len().min(8_192)]), "{name}");
    parse(&bytes).expect(name)
}

#[track_caller]
fn quantity<'a>(of: &'a Measurement, id: &str) -> &'a Quantity {
    of.quantities.iter().find(|quantity| quantity.id == id).expect(id)
}

fn figures(count: u64, min: f64, mean: f64, max: f64) -> Figures {
    Figures { count: Some(count), min: Some(min), mean: Some(mean), max: Some(max) }
}

#[test]
fn cyclictest_says_the_same_as_text_and_as_json() {
    let (text, json) = (read("cyclictest-h.txt"), read("cyclictest.json"));
    assert_eq!(json.version.as_deref(), Some("2.40"));
    let (text, json) = (quantity(&text, "wake_up"), quantity(&json, "wake_up"));
    // Thread 0 woke 600 times, 59 of them beyond 60 us; thread 1 22 of 600.
    assert_eq!(text.parts[0].1, figures(600, 13_000.0, 45_000.0, 1_249_000.0));
    assert_eq!(json.parts[0].1, figures(600, 13_000.0, 45_700.0, 1_249_000.0));
    assert_eq!((text.figures.count, text.figures.max), (Some(1_200), Some(1_327_000.0)));
    assert_eq!(text.values, json.values);
    let Values::Bins(bins) = &text.values else { panic!("a histogram") };
    assert_eq!((bins.width, bins.beyond, bins.total()), (Some(1_000.0), 59 + 22, 1_200));
    let known = text.percentiles();
    assert_eq!(known, json.percentiles());
    assert!(known[0].is_some() && known[1].is_some(), "6.75 % lie beyond the last bin");
    assert_eq!(known[2..], [None; 4]);
}

#[test]
fn the_column_of_all_threads_is_no_thread() {
    let found = read("cyclictest-H.txt");
    let wake_up = quantity(&found, "wake_up");
    assert_eq!(wake_up.parts.len(), 2);
    let counts: u64 = wake_up.parts.iter().filter_map(|(_, part)| part.count).sum();
    let Values::Bins(bins) = &wake_up.values else { panic!("a histogram") };
    assert_eq!(bins.total(), counts, "each wake-up is counted once");
}

#[test]
fn rtla_keeps_interrupt_kernel_thread_and_user_thread_apart() {
    let found = read("rtla-timerlat-hist.txt");
    let ids: Vec<&str> = found.quantities.iter().map(|quantity| quantity.id).collect();
    assert_eq!(ids, ["wake_up", "wake_up_kernel", "timer_irq"]);
    let wake_up = quantity(&found, "wake_up");
    assert_eq!(wake_up.figures, figures(20_000, 2_000.0, 3_000.0, 12_000.0));
    let levels = wake_up.percentiles();
    assert_eq!(levels[..3], [Some(3_000.0), Some(3_000.0), Some(4_000.0)]);
    assert_eq!(levels[3], Some(7_000.0), "p99.9 is the 19,980th of 19,996 in bins");
    assert_eq!(levels[4], None, "p99.99 is the 19,998th, beyond the last bin");

    let top = read("rtla-timerlat-top.txt");
    let kernel = quantity(&top, "wake_up_kernel");
    assert_eq!(kernel.figures, figures(20_000, 2_000.0, 9_000.0, 41_000.0));
    assert_eq!(kernel.percentiles(), [None; 6], "a table has none");
}

#[test]
fn osnoise_has_gaps_and_the_share_that_was_left() {
    let found = read("rtla-osnoise-hist.txt");
    let gap = quantity(&found, "gap");
    assert_eq!((gap.figures.count, gap.figures.max), (Some(84_720), Some(318_000.0)));
    assert_eq!(gap.figures.mean, None, "rtla wrote 0");
    let Values::Bins(bins) = &gap.values else { panic!("a histogram") };
    assert_eq!((bins.width, bins.beyond), (Some(10_000.0), 1));
    let top = read("rtla-osnoise-top.txt");
    let share = quantity(&top, "available").figures.mean.expect("stated");
    assert!((share - 0.9965).abs() < 1e-12, "{share}");
    assert_eq!(quantity(&top, "gap").figures.max, Some(61_000.0));
    assert_eq!(
        top.counts,
        [("hardware", 850), ("nmi", 1), ("irq", 106_260), ("softirq", 2_870), ("thread", 29)]
    );
}

#[test]
fn irtt_has_each_round_trip() {
    let found = read("irtt.json");
    let round_trip = quantity(&found, "round_trip");
    // What irtt itself made of them.
    assert_eq!(round_trip.figures.count, Some(29));
    assert_eq!((round_trip.figures.min, round_trip.figures.max), (Some(68_342.0), Some(165_295.0)));
    // irtt rounds its means down to a nanosecond.
    for (id, mean_ns) in [("round_trip", 113_730.0), ("up", 70_216.0), ("down", 43_514.0)] {
        let ours = quantity(&found, id).figures.mean.expect("values");
        assert!((0.0..=1.0).contains(&(ours - mean_ns)), "{id}: {ours}");
    }
    assert_eq!(quantity(&found, "up_ipdv").figures.count, Some(28), "the first packet has none before it");
    assert!(found.counts.contains(&("sent", 29)) && found.counts.contains(&("lost_up", 0)));
}

#[test]
fn a_lost_round_trip_is_missing_and_not_zero() {
    let lost =
        br#"{"version": {"irtt": "0.9.0"}, "config": {}, "stats": {"packets_sent": 3, "packets_received": 1},
        "round_trips": [{"lost": "false", "delay": {"rtt": 7, "send": 4, "receive": 3}, "ipdv": {}},
        {"lost": "true_down", "delay": {}, "ipdv": {}}, {"lost": "true", "delay": {}, "ipdv": {}}]}"#;
    let found = parse(lost).expect("whole");
    assert_eq!(quantity(&found, "round_trip").values, Values::Samples(vec![7.0]));
    for count in [("sent", 3), ("lost_up", 0), ("lost_down", 1), ("lost_somewhere", 1)] {
        assert!(found.counts.contains(&count), "{count:?} of {:?}", found.counts);
    }
    let stated = br#"{"config": {}, "stats": {"rtt": {"n": 9, "min": 1, "max": 8, "mean": 4, "median": 3}}}"#;
    let found = parse(stated).expect("whole");
    let levels = quantity(&found, "round_trip").percentiles();
    assert_eq!(levels, [Some(3.0), None, None, None, None, None]);
}

#[test]
fn iperf3_has_an_estimate_for_each_interval_of_the_server() {
    let (server, client) = (read("iperf3-server.json"), read("iperf3-client.json"));
    let (server, last) = (quantity(&server, "interarrival_jitter"), quantity(&client, "interarrival_jitter"));
    assert!(server.figures.count > Some(1));
    assert_eq!(last.figures.count, Some(1));
    assert_eq!(last.figures.mean, server.parts[0].1.mean, "the client's is the server's last");
    assert_eq!(client.counts, [("sent", 998), ("lost", 0), ("out_of_order", 0)]);
    let tcp = br#"{"start": {}, "intervals": [], "end": {"streams": [{"sender": {}}]}}"#;
    assert!(parse(tcp).expect_err("refused").contains("no UDP test"));
}

#[test]
fn flent_keeps_icmp_apart_and_takes_what_was_measured() {
    let found = read("ping.flent.gz");
    assert_eq!(found.version.as_deref(), Some("2.1.1"));
    let icmp = quantity(&found, "round_trip_icmp");
    assert_eq!((icmp.figures.count, icmp.figures.min), (Some(15), Some(31_000.0)));
    let Values::Samples(values) = &quantity(&found, "round_trip").values else { panic!("samples") };
    assert_eq!((values.len(), values[0].round(), values[1].round()), (15, 67_180.0, 119_387.0));
    assert_eq!(quantity(&found, "up").figures.count, Some(15));
}

#[test]
fn a_log_of_sockperf_until_3_3_gives_what_a_later_one_gives() {
    let later = String::from_utf8(bytes("sockperf.csv")).unwrap();
    let (summary, packets) = later.split_once("packet, txTime(sec), rxTime(sec), latency(usec)\n").unwrap();
    let two = |line: &str| match line.split(", ").collect::<Vec<_>>()[..] {
        [_, sent, received, _] => format!("{sent}, {received}\n"),
        _ => format!("{line}\n"),
    };
    let earlier: String = packets.lines().map(two).collect();
    let earlier = format!("{summary}txTime, rxTime\n{earlier}");
    assert!(recognizes(earlier.as_bytes()));
    let [earlier, later] = [earlier, later].map(|text| parse(text.as_bytes()).unwrap());
    assert_eq!(quantity(&earlier, "round_trip").values, quantity(&later, "round_trip").values);
    assert_eq!((earlier.counts, earlier.command), (later.counts, later.command));
}

#[test]
fn sockperf_round_trips_are_exact() {
    let found = read("sockperf.csv");
    let Values::Samples(values) = &quantity(&found, "round_trip").values else { panic!("samples") };
    assert_eq!((values.len(), values[0]), (53, 61_211.0));
    assert!(found.counts.contains(&("received", 53)) && found.counts.contains(&("dropped", 0)));
    assert!(quantity(&read("sockperf-load.csv"), "round_trip").figures.count > Some(0));
}

#[test]
fn files_of_others_are_refused_by_what_they_lack() {
    for (foreign, words) in [
        (&b"{\"a\": 1}"[..], "none of cyclictest, irtt, iperf3 and flent"),
        (b"{\"num_threads\": 0, \"thread\": {}}", "no thread"),
        (b"{\"metadata\": {}, \"results\": {\"TCP upload\": [1.0]}}", "no series"),
        (
            b"{\"start\": {}, \"intervals\": [], \"end\": {}, \"error\": \"unable to connect\"}",
            "iperf3 failed",
        ),
        (b"# Histogram\n000001 000002\n", "ends before the figures"),
        (b"# RTLA timerlat histogram\nIndex   Xyz-000\n", "column \"Xyz-000\""),
    ] {
        assert!(recognizes(foreign));
        let damage = parse(foreign).expect_err("refused");
        assert!(damage.contains(words), "{damage}");
    }
    assert!(!recognizes(b"\x7fELF") && !recognizes(b"# Tue Nov 24 2026\n") && !recognizes(b""));
}

/// Every file cut at every place and with bytes changed: an error is a sentence, a result has whole numbers, and nothing panics.
#[test]
fn damaged_files_are_refused_or_read_and_never_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        // Splitmix64 (G. L. Steele, D. Lea, C. H. Flood, 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % below as u64) as usize
    };
    let mut files = 0;
    for entry in std::fs::read_dir(folder()).expect("committed") {
        let name = entry.expect("listed").file_name().to_string_lossy().into_owned();
        if name == "README.md" {
            continue;
        }
        files += 1;
        let whole = bytes(&name);
        for _ in 0..150 {
            let cut = &whole[..random(whole.len())];
            let _ = recognizes(&cut[..cut.len().min(8_192)]);
            let read = parse(cut);
            let last = whole.trim_ascii_end().len() - cut.len().min(whole.trim_ascii_end().len());
            if name.ends_with(".json") && last > 0 {
                read.as_ref().map(|_| ()).expect_err("half a document");
            }
            check(read);
            let mut changed = whole.clone();
            for _ in 0..=random(4) {
                let place = random(changed.len());
                changed[place] = random(256) as u8;
            }
            check(parse(&changed));
        }
    }
    assert_eq!(files, 15);
}

fn check(read: Result<Measurement, String>) {
    match read {
        Ok(found) => {
            for quantity in &found.quantities {
                let levels: Vec<f64> = quantity.percentiles().into_iter().flatten().collect();
                assert!(levels.iter().all(|level| level.is_finite()) && levels.is_sorted(), "{levels:?}");
            }
            let _ = found.json("x");
        }
        Err(damage) => assert!(!damage.is_empty() && !damage.contains('\n'), "{damage}"),
    }
}
