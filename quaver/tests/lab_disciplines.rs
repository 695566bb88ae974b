//! What queueing disciplines of a stock kernel are asked to do is the truth that the source is held to, in a guest of the QEMU
//! lab.

mod lab_guest;

use lab_guest::Script;
use serde_json::Value;

/// Nanoseconds before its time at which etf may hand a packet to the driver, as it is told below.
const DELTA_NS: i64 = 100_000;
const PACKETS: usize = 200;

/// A source hands packets over early, with their times; one that wakes for each gives none.
const PACED: &str = "
ip neigh add 10.9.0.2 dev eth0 lladdr 02:51:c0:00:02:02 nud permanent
receive() {
    far /init sink 10.9.0.2:2670 --count 200 --for 60s --receive block -q -o /tmp/$1 >/dev/null &
    sink=$!
    await far grep -q :0A6E /proc/net/udp
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
