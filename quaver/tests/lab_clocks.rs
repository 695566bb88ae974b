//! Clocks of network cards, in a guest of the QEMU lab whose two cards have one (igb): read, stamping what is sent, and steered by
//! linuxptp. Receive stamps of UDP stay untested: the emulated card stamps messages of PTP on layer 2 alone, and keeps the first
//! stamp until a register is read that the driver does not read.

mod lab_guest;

use lab_guest::Script;
use serde_json::Value;

const SCRIPT: &str = "
far /init serve >/dev/null 2>/tmp/serve.log &
until grep -q listening /tmp/serve.log; do :; done
probe() {
    say $1
    /init probe 10.9.0.2 --direction up --count 100 --period 5ms -q --json -o /tmp/runs
}
phc_ctl eth0 adj 0.25 >/dev/null
probe ahead
phc_ctl eth0 adj -0.5 >/dev/null
probe behind
say steered
phc2sys -s eth0 -c CLOCK_REALTIME -O 0 -m -R 4 &
steering=$!
sleep 8
kill -TERM $steering
wait $steering || true
ptp4l -2 -i eth0 -m --masterOnly 1 --uds_address /tmp/master --logAnnounceInterval -1 >/tmp/master.log 2>&1 &
master=$!
far ptp4l -2 -i eth1 -m --slaveOnly 1 --uds_address /tmp/slave >/tmp/slave.log 2>&1 &
slave=$!
sleep 10
kill -TERM $master $slave
wait $master || true
wait $slave || true
say master
cat /tmp/master.log
say slave
cat /tmp/slave.log
";

fn figure(summary: &Value, pointer: &str) -> f64 {
    summary.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer}: {summary:#}"))
}

/// What phc2sys found each time, nanoseconds.
fn offsets(log: &str) -> Vec<i64> {
    let after = log.lines().filter_map(|line| line.split_once("phc offset "));
    after.map(|(_, rest)| rest.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_cards_clock_stamps_what_is_sent_and_steers_the_hosts() {
    let name = "a_cards_clock_stamps_what_is_sent_and_steers_the_hosts";
    let programs = ["phc_ctl", "phc2sys", "ptp4l", "sleep"];
    let Some(parts) =
        lab_guest::run(name, &Script { options: &["--clocked"], programs: &programs, text: SCRIPT })
    else {
        return;
    };
    // Whatever the card's clock shows, a packet left by it after it was given away, and before it arrived.
    for which in ["ahead", "behind"] {
        let summary: Value = serde_json::from_str(&parts[which]).unwrap();
        let departures = &summary["up"]["flow"]["departures"];
        assert_eq!(departures["stamped_by"], "hardware", "{which}: {departures:#}");
        assert_eq!(departures["stamped"].as_u64(), Some(100), "{which}: {departures:#}");
        let all_ns = figure(&summary, "/up/delay/corrected/p50_ns");
        let (before_ns, after_ns) = (figure(departures, "/p50_ns"), figure(departures, "/delay/p50_ns"));
        assert!(0.0 < before_ns && before_ns < all_ns, "{which}: {before_ns} of {all_ns}");
        assert!(0.0 < after_ns && after_ns < all_ns, "{which}: {after_ns} of {all_ns}");
    }
    // 250 ms at first, and next to nothing at last.
    let offsets = offsets(&parts["steered"]);
    let (first, last) = (offsets.first().unwrap(), offsets.last().unwrap());
    assert!(first.abs() > 200_000_000 && last.abs() < 10_000, "{offsets:?}");
    // A two-step master needs the stamp of each message that it sends.
    let master = &parts["master"];
    assert!(master.contains("assuming the grand master role"), "{master}");
    assert!(!master.contains("tx timestamp") && !master.contains("FAULTY"), "{master}");
    assert!(parts["slave"].contains("new foreign master"), "{}", parts["slave"]);
}
