//! What queueing disciplines of a stock kernel are asked to do is the truth that the source and the path's figures are held to,
//! in a guest of the QEMU lab.

mod lab_guest;

use lab_guest::Script;
use serde_json::Value;
use std::collections::BTreeMap;

/// Nanoseconds before its time at which etf may hand a packet to the driver, as it is told below.
const DELTA_NS: i64 = 100_000;
const PACKETS: usize = 200;

/// A source hands packets over early, with their times; one that wakes for each gives none.
const PACED: &str = "
ip neigh add 10.9.0.2 dev eth0 lladdr 02:51:c0:00:02:02 nud permanent
receive() {
    far /init sink 10.9.0.2:2670 --count 200 --for 60s --receive block -q -o /tmp/$1 >/dev/null &
    sink=$!
    until far grep -q :0A6E /proc/net/udp; do :; done
    /init source 10.9.0.2:2670 --period 1ms --count 1500 --pace txtime -q >/dev/null
    wait $sink
    say $1
    /init export /tmp/$1/sink* --csv samples -o -
}
say none
/init source 10.9.0.2:2670 --count 1 --pace txtime -q 2>&1 || true
tc qdisc replace dev eth0 root etf clockid CLOCK_TAI delta 100000
receive etf
say drops-before
tc -s -j qdisc show dev eth0
/init source 10.9.0.2:2670 --period 1ms --count 100 --pace sleep -q >/dev/null
say drops-after
tc -s -j qdisc show dev eth0
tc qdisc replace dev eth0 root fq
receive fq
";

/// Times of the columns `schedule_ns`, `source_ns` and `kernel_stamp_ns` of each packet.
fn times(csv: &str) -> Vec<[i64; 3]> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let columns = ["schedule_ns", "source_ns", "kernel_stamp_ns"]
        .map(|name| head.iter().position(|column| *column == name).expect("the table has this column"));
    lines.map(|line| columns.map(|at| line[at].parse().unwrap())).collect()
}

fn discipline(json: &str) -> Value {
    let all: Value = serde_json::from_str(json).unwrap();
    all[0].clone()
}

#[test]
fn etf_and_fq_send_at_the_time_that_the_source_gave() {
    let name = "etf_and_fq_send_at_the_time_that_the_source_gave";
    let options = ["--module", "sch_etf", "--module", "sch_fq"];
    let Some(parts) = lab_guest::run(name, &Script { options: &options, programs: &["tc"], text: PACED })
    else {
        return;
    };
    assert!(
        parts["none"].contains("has the queueing discipline") && parts["none"].contains("etf"),
        "{parts:#?}"
    );
    for discipline in ["etf", "fq"] {
        let times = times(&parts[discipline]);
        assert_eq!(times.len(), PACKETS, "{discipline}");
        for [schedule_ns, source_ns, arrived_ns] in &times {
            // Handed over before the discipline may send it, and not sent before it may.
            assert!(*source_ns < schedule_ns - DELTA_NS, "{discipline}: {schedule_ns} {source_ns}");
            assert!(*arrived_ns >= schedule_ns - DELTA_NS, "{discipline}: {schedule_ns} {arrived_ns}");
        }
    }
    // The placebo: etf drops what has no time, so it was etf that kept them.
    let of = |part: &str, field: &str| discipline(&parts[part])[field].as_u64().unwrap();
    assert_eq!(of("drops-after", "packets"), of("drops-before", "packets"), "{parts:#?}");
    assert!(of("drops-after", "drops") >= of("drops-before", "drops") + 100, "{parts:#?}");
}

/// Test packets alone go through netem: their DSCP leads to the third band.
const IMPAIRED: &str = "
far /init serve >/dev/null 2>/tmp/serve.log &
until grep -q listening /tmp/serve.log; do :; done
tc qdisc add dev eth0 root handle 1: prio
probe() {
    say $1
    /init probe 10.9.0.2 --direction up --count 400 --period 5ms --dscp 2 -q --json -o /tmp/runs
    say $1-discipline
    tc -s -j qdisc show dev eth0 | cat
}
probe none
tc qdisc add dev eth0 parent 1:3 handle 30: netem delay 10ms limit 10000
probe delay
tc qdisc replace dev eth0 parent 1:3 handle 30: netem delay 10ms 2ms limit 10000
probe spread
tc qdisc del dev eth0 parent 1:3
tc qdisc add dev eth0 parent 1:3 handle 31: netem loss 20% limit 10000
probe loss
";

const NETEM_DELAY_NS: f64 = 10_000_000.0;
const NETEM_SPREAD_NS: f64 = 4_000_000.0;

fn summary(parts: &BTreeMap<String, String>, name: &str) -> Value {
    serde_json::from_str(&parts[name]).unwrap()
}

fn figure(summary: &Value, pointer: &str) -> f64 {
    summary.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {summary:#}"))
}

#[test]
fn the_path_has_the_delay_the_spread_and_the_loss_that_netem_was_asked_for() {
    let name = "the_path_has_the_delay_the_spread_and_the_loss_that_netem_was_asked_for";
    let options = ["--module", "sch_netem", "--module", "sch_prio"];
    let Some(parts) = lab_guest::run(name, &Script { options: &options, programs: &["tc"], text: IMPAIRED })
    else {
        return;
    };
    let [none, delay, spread, loss] = ["none", "delay", "spread", "loss"].map(|name| summary(&parts, name));
    for (what, one) in [("none", &none), ("delay", &delay), ("spread", &spread)] {
        assert_eq!(figure(one, "/up/packets/received"), 400.0, "{what}");
        assert_eq!(figure(one, "/up/loss/packets"), 0.0, "{what}");
    }
    // One clock at both ends. The placebo's delay is what the guest itself takes.
    let own_ns = figure(&none, "/up/delay/corrected/max_ns");
    for at in ["min_ns", "p50_ns", "p99_ns"] {
        let added_ns = figure(&delay, &format!("/up/delay/corrected/{at}"));
        assert!(added_ns >= NETEM_DELAY_NS, "{at}: {added_ns}");
        assert!(added_ns <= NETEM_DELAY_NS * 1.02 + own_ns, "{at}: {added_ns} and {own_ns}");
    }
    // Uniform within 2 ms on both sides of 10 ms.
    let widest_ns = figure(&spread, "/up/variation/pdv/max_ns");
    assert!(widest_ns > 0.9 * NETEM_SPREAD_NS && widest_ns < 1.05 * NETEM_SPREAD_NS, "{widest_ns}");
    let middle_ns = figure(&spread, "/up/delay/corrected/p50_ns");
    assert!((middle_ns / NETEM_DELAY_NS - 1.0).abs() < 0.05, "{middle_ns}");
    assert!(figure(&none, "/up/variation/pdv/max_ns") < 0.1 * NETEM_SPREAD_NS);
    // Each packet that netem dropped is missing, and no other.
    let disciplines: Value = serde_json::from_str(&parts["loss-discipline"]).unwrap();
    let netem = disciplines.as_array().unwrap().iter().find(|one| one["kind"] == "netem").unwrap();
    let lost = figure(&loss, "/up/loss/packets");
    assert_eq!(netem["drops"].as_f64(), Some(lost), "{disciplines:#}");
    assert_eq!(lost + figure(&loss, "/up/packets/unique"), 400.0);
    assert!((50.0..110.0).contains(&lost), "a fifth of 400 within four standard deviations: {lost}");
}
