//! `quaver probe` and `quaver sink` against netem of a stock kernel, in a guest of the QEMU lab. The counts of a probe equal
//! netem's counters, without the packets that end a flow. The counts of the sink equal what netem was set to do to each packet.
//! Random faults lie within bounds that one correct run in a thousand million exceeds.

mod lab_guest;

use lab_guest::Script;
use serde_json::Value;
use std::collections::BTreeMap;

/// Packets of an arm.
const SENT: u64 = 500;
/// Packets of the arm whose order is planted. They are 8 ms apart, and netem holds four of five back for 20 ms. So the order is
/// the planted one unless something else holds a packet up for 4 ms.
const ORDERED: u64 = 250;
const MS: i64 = 1_000_000;
/// How seldom a correct run leaves a random bound.
const SELDOM: f64 = 1e-9;

/// netem has the second band of the root, where test packets go by their DSCP; control connections have the first.
const ARMS: &str = "
ip netns exec far /init serve --bind 10.9.0.2 >/dev/null 2>&1 &
await far grep -q :0A6A /proc/net/tcp
tc qdisc replace dev eth0 root handle 1: prio bands 2 priomap 0 0 0 0 0 0 1 0 0 0 0 0 0 0 0 0
arm() {
    name=$1 count=$2 period=$3
    shift 3
    tc qdisc replace dev eth0 parent 1:2 handle 2: netem \"$@\"
    say $name
    /init probe 10.9.0.2 --direction up --dscp 4 --pace sleep --rtt-probes 1 --count $count --period $period -q -o /tmp/$name --json
    say $name-netem
    tc -s -j qdisc show dev eth0
    say $name-packets
    /init export /tmp/$name/probe* --csv samples -o -
    tc qdisc del dev eth0 parent 1:2
}
arm nothing 500 1ms delay 0ms
arm alternate 500 1ms loss state 100% 100%
arm loss 500 1ms loss 10%
arm copies 500 1ms duplicate 10%
arm delay 500 1ms delay 20ms
arm spread 500 1ms delay 20ms 5ms
arm order 250 8ms delay 20ms reorder 100% gap 5
hear() {
    name=$1 count=$2 period=$3
    shift 3
    tc qdisc replace dev eth0 parent 1:2 handle 2: netem \"$@\"
    far /init sink 10.9.0.2:2670 --for 60s --count 200 --receive block -q -o /tmp/$name --json >/tmp/summary &
    sink=$!
    await far grep -q :0A6E /proc/net/udp
    /init source 10.9.0.2:2670 --dscp 4 --count $count --period $period --pace sleep -q >/dev/null
    wait $sink
    say $name
    cat /tmp/summary
    say $name-packets
    /init export /tmp/$name/sink* --csv samples -o -
    tc qdisc del dev eth0 parent 1:2
}
hear sink-nothing 1500 1ms delay 0ms
hear sink-alternate 1500 1ms loss state 100% 100%
hear sink-copies 1500 1ms duplicate 100%
hear sink-order 750 8ms delay 20ms reorder 100% gap 5
";

/// One arm: what quaver says, what netem counted, and times of sending and arrival of each packet that came, by its number.
struct Arm {
    summary: Value,
    passed: u64,
    dropped: u64,
    arrivals: Vec<(u64, i64, i64)>,
}

impl Arm {
    fn of(parts: &BTreeMap<String, String>, name: &str) -> Self {
        let json = |part: &str| -> Value { serde_json::from_str(&parts[part]).unwrap() };
        let disciplines = json(&format!("{name}-netem"));
        let mut all = disciplines.as_array().unwrap().iter();
        let netem = all.find(|one| one["kind"] == "netem").expect("tc shows netem");
        let count = |field: &str| netem[field].as_u64().unwrap();
        let rows = parts.get(&format!("{name}-packets")).map_or("", String::as_str).lines().skip(1);
        let arrivals = rows.filter_map(|row| {
            let fields: Vec<&str> = row.split(',').collect();
            Some((fields[1].parse().unwrap(), fields[2].parse().unwrap(), fields[3].parse().ok()?))
        });
        let (passed, dropped) = (count("packets"), count("drops"));
        Self { summary: json(name), passed, dropped, arrivals: arrivals.collect() }
    }

    fn number(&self, place: &str) -> u64 {
        let found = self.summary.pointer(place).and_then(Value::as_u64);
        found.unwrap_or_else(|| panic!("{place}: {:#}", self.summary))
    }

    /// Sent, lost, copies, and packets out of order.
    fn counts(&self) -> [u64; 4] {
        ["/up/packets/sent", "/up/loss/packets", "/up/packets/duplicate", "/up/packets/reordered"]
            .map(|place| self.number(place))
    }

    fn delays_ns(&self) -> Vec<i64> {
        self.arrivals.iter().map(|(_, sent_ns, received_ns)| received_ns - sent_ns).collect()
    }
}

/// Whether so many of `trials` at `chance` are as seldom as [`SELDOM`] allows at either end (Hoeffding's bound).
fn is_likely(found: u64, trials: u64, chance: f64) -> bool {
    let most_off = ((2.0 / SELDOM).ln() / (2.0 * trials as f64)).sqrt();
    (found as f64 / trials as f64 - chance).abs() <= most_off
}

#[test]
fn counts_and_delays_of_a_path_are_those_of_netem() {
    let name = "counts_and_delays_of_a_path_are_those_of_netem";
    let options = ["--module", "sch_netem", "--module", "sch_prio"];
    let script = Script { options: &options, programs: &["tc"], text: ARMS };
    let Some(parts) = lab_guest::run(name, &script) else { return };
    let arm = |name: &str| Arm::of(&parts, name);

    // The placebo: netem passes all, and its counter sees the test packets and the end of the flow alone.
    let nothing = arm("nothing");
    assert_eq!((nothing.counts(), nothing.passed, nothing.dropped), ([SENT, 0, 0, 0], SENT + 1, 0));

    // Every other packet, from the first on: each loss is a period of its own.
    let alternate = arm("alternate");
    assert_eq!(alternate.counts(), [SENT, SENT / 2, 0, 0]);
    // The end of the flow is lost too, and sent again.
    assert_eq!((alternate.passed, alternate.dropped), (SENT / 2 + 1, SENT / 2 + 1));
    assert!(alternate.arrivals.iter().map(|(number, ..)| *number).eq((1..SENT).step_by(2)));
    // A period ends with a packet that came; what was lost at the beginning is one.
    assert_eq!(alternate.number("/up/loss/pattern/periods"), SENT / 2);

    let loss = arm("loss");
    // One end of the flow came; those before it, if any, are among the lost.
    let lost = loss.dropped - (loss.passed + loss.dropped - SENT - 1);
    assert_eq!((loss.counts(), loss.passed), ([SENT, lost, 0, 0], SENT - lost + 1));
    assert!(is_likely(lost, SENT, 0.1), "{lost}");

    let copies = arm("copies");
    let made = copies.number("/up/packets/duplicate");
    assert_eq!((copies.counts(), copies.dropped), ([SENT, 0, made, 0], 0));
    // The end of the flow may have been copied too.
    assert!([1, 2].contains(&(copies.passed - SENT - made)), "{made} of {}", copies.passed);
    assert!(is_likely(made, SENT, 0.1), "{made}");

    // None may come earlier than netem lets it, and without netem some do.
    let delay = arm("delay");
    assert_eq!((delay.counts(), delay.dropped), ([SENT, 0, 0, 0], 0));
    assert!(delay.delays_ns().iter().all(|delay_ns| *delay_ns >= 20 * MS), "{:?}", delay.delays_ns());
    assert!(nothing.delays_ns().iter().any(|delay_ns| *delay_ns < 20 * MS));
    let least_ns = delay.delays_ns().into_iter().min().unwrap();
    assert_eq!(delay.summary.pointer("/up/delay/as_measured/min_ns"), Some(&least_ns.into()));

    spread(&arm("spread"), &delay);
    order(&arm("order"));
    sink(&parts);
}

/// netem draws each delay evenly from 15 to 25 ms. The path adds at least nothing, and mostly no more than it added to any packet
/// whose delay was the same as the others'.
fn spread(spread: &Arm, delay: &Arm) {
    assert_eq!(spread.counts()[..3], [SENT, 0, 0]);
    let added_ns = delay.delays_ns().into_iter().max().unwrap() - 20 * MS;
    let mut delays_ns = spread.delays_ns();
    delays_ns.sort_unstable();
    assert!(delays_ns[0] >= 15 * MS, "{delays_ns:?}");
    // The inequality of Dvoretzky, Kiefer and Wolfowitz, with Massart's constant.
    let most_off = ((2.0 / SELDOM).ln() / (2.0 * SENT as f64)).sqrt();
    let drawn = |below_ns: i64| ((below_ns - 15 * MS) as f64 / (10 * MS) as f64).clamp(0.0, 1.0);
    for (place, delay_ns) in delays_ns.iter().enumerate() {
        let share = (place + 1) as f64 / SENT as f64;
        let (least, most) = (drawn(delay_ns - added_ns) - most_off, drawn(*delay_ns) + most_off);
        assert!(least <= share && share <= most, "{delay_ns} ns: {share} not in {least} to {most}");
    }
    // Times of arrival are the truth about order (RFC 4737: a packet behind one with a greater number).
    let mut arrivals = spread.arrivals.clone();
    arrivals.sort_by_key(|(_, _, received_ns)| *received_ns);
    let mut greatest = 0;
    let behind = arrivals.iter().filter(|(number, ..)| {
        greatest = greatest.max(*number);
        *number < greatest
    });
    assert_eq!(spread.number("/up/packets/reordered"), behind.count() as u64);
}

/// Every fifth packet is not held back and overtakes the two before it, which are 8 and 16 ms ahead of it.
fn order(order: &Arm) {
    assert_eq!(order.counts(), [ORDERED, 0, 0, ORDERED / 5 * 2]);
    let mut arrivals = order.arrivals.clone();
    arrivals.sort_by_key(|(_, _, received_ns)| *received_ns);
    let mut expected: Vec<u64> = (0..ORDERED).collect();
    expected.chunks_mut(5).for_each(|five| five[2..].rotate_right(1));
    assert_eq!(arrivals.iter().map(|(number, ..)| *number).collect::<Vec<_>>(), expected);
}

/// Packets that a sink counts.
const HEARD: u64 = 200;

/// A sink learns a stream before it measures, so that it hears a part of what netem was given. That part is a piece of the planted
/// order without a gap, and its counts are those of the piece.
fn sink(parts: &BTreeMap<String, String>) {
    let piece = |name: &str, planted: fn(u64) -> [u64; 10]| {
        let summary: Value = serde_json::from_str(&parts[name]).unwrap();
        let counts =
            ["received", "duplicates", "reordered"].map(|of| summary["losses"][of].as_u64().unwrap());
        let rows = parts[&format!("{name}-packets")].lines().skip(1);
        let heard: Vec<u64> = rows.map(|row| row.split(',').next().unwrap().parse().unwrap()).collect();
        assert_eq!(heard.len() as u64, HEARD, "{name}");
        let whole: Vec<u64> = (0..150).flat_map(planted).collect();
        let found = whole.windows(heard.len()).any(|piece| piece == heard);
        assert!(found, "{name}: {heard:?}");
        (counts, heard)
    };
    assert_eq!(piece("sink-nothing", |n| std::array::from_fn(|at| 10 * n + at as u64)).0, [HEARD, 0, 0]);
    // Every other packet, from the second on.
    assert_eq!(
        piece("sink-alternate", |n| std::array::from_fn(|at| 20 * n + 2 * at as u64 + 1)).0,
        [HEARD, 0, 0]
    );
    // Each twice.
    let (counts, heard) = piece("sink-copies", |n| std::array::from_fn(|at| 5 * n + at as u64 / 2));
    let copies = heard.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
    assert_eq!(counts, [HEARD, copies, 0]);
    // Every fifth overtakes two.
    let (counts, heard) = piece("sink-order", |n| [0, 1, 4, 2, 3, 5, 6, 9, 7, 8].map(|at| 10 * n + at));
    let mut greatest = 0;
    let behind = heard.iter().filter(|number| {
        greatest = greatest.max(**number);
        **number < greatest
    });
    assert_eq!(counts, [HEARD, 0, behind.count() as u64]);
}
