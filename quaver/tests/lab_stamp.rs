//! The module `quaver_stamp` (`kmod/`), built for the stock kernel of the QEMU lab and at work in a guest.

mod lab_guest;

use lab_guest::Script;
use quaver_testbed::privileged::{Lack, skip};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const PACKETS: usize = 300;
/// Bytes of a packet with its headers: of Ethernet, IP and UDP.
const LENGTH: u64 = 100 + 14 + 20 + 8;

/// Packets go to an address that nobody has, so that the kernel counts them as such once they are through, and answers none.
/// Records are shown by od: stamp, kernel's stamp, first checkpoint, and two numbers of 32 bits in one each (length below interface,
/// cycles between the checkpoints below CPU). The shell that opens a device keeps it open until it ends. System call 176 is delete_module, here without waiting.
const AT_WORK: &str = "
ip neigh replace 10.9.0.3 dev eth0 lladdr 02:51:c0:00:02:02 nud permanent
send() { /init source 10.9.0.3:2670 --size 100 --count 300 --period 1ms --pace sleep -q >/dev/null; }
arrived() { far grep -q \"^Ip: [0-9]* [0-9]* [0-9]* [0-9]* $1 \" /proc/net/snmp; }
now() { date +%s%N; }
unload() { perl -e '$name = \"quaver_stamp\"; syscall(176, $name, 2048) == 0 or print \"unload: $!\n\"'; }
say unused
grep quaver_stamp /proc/modules
say both
far sh -c 'exec 3</dev/quaver_stamp; cat /dev/quaver_stamp_clock; cat /dev/quaver_stamp; true' 2>&1
exec 3</dev/quaver_stamp
unload
exec 3<&-
count=0
for device in quaver_stamp quaver_stamp_clock quaver_stamp_none; do
    ip netns exec far sh -c \"
        exec 3</dev/$device
        : >/tmp/open
        until [ -e /tmp/sent ]; do sleep 0.01; done
        cat <&3 >/tmp/records
    \" &
    shell=$!
    await [ -e /tmp/open ]
    echo 0 >/sys/devices/system/cpu/cpu1/online
    from=$(now)
    send
    count=$((count + 300))
    await arrived $count
    to=$(now)
    echo 1 >/sys/devices/system/cpu/cpu1/online
    : >/tmp/sent
    wait $shell
    rm -f /tmp/open /tmp/sent
    say $device
    echo $from 0 0 0 0
    od -An -v -tu8 -w40 /tmp/records
    echo $to 0 0 0 0
done
say busy
far sh -c 'exec 3</dev/quaver_stamp_clock; /init capture -i eth1 --stamp raw --layers none --for 1s -o /tmp/y.pcapng' 2>&1 || true
say capture-heard
ip netns exec far /init capture -i eth1 --stamp raw --layers none --direction in --json -o /tmp/x.pcapng \
    >/tmp/captured 2>/tmp/heard &
capture=$!
await grep -q 'raw stamp by' /tmp/heard
send
await arrived $((count + 300))
kill -TERM $capture
wait $capture
cat /tmp/heard
say capture
cat /tmp/captured
say compared
/init capture --compare --pattern 2 --packets 20 --rounds 1 --starts 1 --no-loss --seed 7 --runs /tmp/runs -q --json
say gone
unload
cat /dev/quaver_stamp 2>&1 || true
";

/// Builds the module in a directory of its own; none where the kernel's headers or a compiler are not there.
fn build(directory: &Path) -> Option<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kmod");
    let headers = Command::new(sources.join("headers.sh")).arg("--there").output().unwrap();
    if !headers.status.success() {
        println!("{}", String::from_utf8_lossy(&headers.stderr));
        return None;
    }
    for file in ["quaver_stamp.c", "Kbuild"] {
        std::fs::copy(sources.join(file), directory.join(file)).unwrap();
    }
    let headers = String::from_utf8(headers.stdout).unwrap();
    let mut make = Command::new("make");
    make.args(["-s", "W=1", "KCFLAGS=-Werror", "-C", headers.trim()]);
    let made = make.arg(format!("M={}", directory.display())).arg("modules").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(directory.join("quaver_stamp.ko").to_str().unwrap().to_owned())
}

/// The wall clock before the stream and after it, and of each packet in the order of the records its stamp, its first checkpoint
/// and the cycles to its second.
fn stamps(shown: &str) -> ([u64; 2], Vec<[u64; 3]>) {
    let rows = shown
        .lines()
        .map(|line| -> Vec<u64> { line.split_whitespace().map(|number| number.parse().unwrap()).collect() });
    let rows: Vec<Vec<u64>> = rows.collect();
    let ours = rows.iter().filter(|row| row[3] & 0xffff_ffff == LENGTH);
    let ours = ours.map(|row| [row[0], row[2], row[4] & 0xffff_ffff]);
    ([rows[0][0], rows[rows.len() - 1][0]], ours.collect())
}

#[test]
fn the_module_stamps_each_packet_for_one_reader_and_goes_when_nobody_reads() {
    let name = "the_module_stamps_each_packet_for_one_reader_and_goes_when_nobody_reads";
    let directory = tempfile::tempdir().unwrap();
    let Some(module) = build(directory.path()) else {
        return skip(name, Lack::Installed("headers of the lab's kernel"));
    };
    let options =
        ["--module", "veth", "--module", &module, "--boot", "tsc=reliable", "--boot", "clocksource=tsc"];
    let script = Script { options: &options, programs: &["date", "od", "perl", "rm"], text: AT_WORK };
    let Some(parts) = lab_guest::run(name, &script) else { return };

    assert!(parts["unused"].split_whitespace().nth(2) == Some("0"), "{}", parts["unused"]);
    // One reader at a time of both devices, and no unloading while there is one.
    assert_eq!(parts["both"].matches("Device or resource busy").count(), 2, "{}", parts["both"]);
    assert!(parts["both"].contains("unload: Resource temporarily unavailable"), "{}", parts["both"]);

    let (_, raw) = stamps(&parts["quaver_stamp"]);
    let ([from_ns, to_ns], clock) = stamps(&parts["quaver_stamp_clock"]);
    let (_, none) = stamps(&parts["quaver_stamp_none"]);
    assert_eq!((raw.len(), clock.len(), none.len()), (PACKETS, PACKETS, PACKETS), "{parts:#?}");
    // Checkpoints are around the stamp, and there without one.
    let within = |[stamp, before, between]: &[u64; 3]| (*before..=before + between).contains(stamp);
    assert!(raw.iter().all(within), "{raw:?}");
    assert!(
        none.iter().all(|[stamp, before, between]| (*stamp, *before > 0, *between > 0) == (0, true, true))
    );
    let [raw, clock] = [raw, clock].map(|all| all.iter().map(|one| one[0]).collect::<Vec<_>>());
    // Of one CPU: each is later than the one before.
    assert!(raw.is_sorted_by(|a, b| a < b) && clock.is_sorted_by(|a, b| a < b), "{raw:?} {clock:?}");
    assert!(from_ns < clock[0] && clock[PACKETS - 1] < to_ns, "{from_ns} {clock:?} {to_ns}");
    // The placebo: raw cycles are counted from the start of the machine, not since 1970.
    assert!(raw[PACKETS - 1] < from_ns, "{raw:?}");

    // By whichever way is left, it is said why not by the module.
    assert!(parts["busy"].contains("not by the module: another program reads"), "{}", parts["busy"]);

    let heard = &parts["capture-heard"];
    assert!(heard.contains("read by the module quaver_stamp at netif_receive_skb"), "{heard}");
    let summary: Value = serde_json::from_str(&parts["capture"]).unwrap();
    let of =
        |place: &str| summary.pointer(place).and_then(Value::as_u64).unwrap_or_else(|| panic!("{summary:#}"));
    // The guest's own traffic is among them.
    let captured = of("/captured");
    assert!(captured >= PACKETS as u64, "{summary:#}");
    let places = ["/interfaces/0/stamped/raw", "/raw/missing", "/raw/lost"];
    assert_eq!(places.map(of), [captured, 0, 0], "{summary:#}");
    assert_eq!(of("/interfaces/0/stamps_out_of_order"), 0);

    compared(&serde_json::from_str(&parts["compared"]).unwrap());

    assert!(parts["gone"].contains("No such file or directory"), "{}", parts["gone"]);
}

/// The paper's comparison: every packet of each block has both checkpoints, and the page has each way or the reason why not.
fn compared(summary: &Value) {
    let pattern = &summary["patterns"][0];
    let module = &pattern["module"];
    assert_eq!(module["interrupts_off_share"], 1.0);
    let names = |list: &Value, key: &str| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&module["arms"], "name"), ["module-clock", "module-raw"]);
    // Two blocks of 50 packets that have settled.
    let counts = module["between"].as_array().unwrap().iter().map(|one| one[1]["count"].as_u64().unwrap());
    assert!(counts.clone().all(|count| count >= 100), "{module:#}");
    // The counter is virtual time: conversion is instructions, of which the clock's reading has more.
    let costs: Vec<f64> =
        module["differences"].as_array().unwrap().iter().map(|one| one["ns"].as_f64().unwrap()).collect();
    assert!(costs[0] > costs[1] && costs[1] > 0.0 && costs[2] > 0.0, "{costs:?}");
    let converted = |arm: usize| pattern["module_arms"][arm]["converter_ns"].as_f64().unwrap() > 0.0;
    assert_eq!([0, 1, 2].map(converted), [false, false, true], "{:#}", pattern["module_arms"]);
    for way in pattern["ways"].as_array().unwrap() {
        let lacks = way["arm"] == "bpf-cycles";
        assert_eq!(way["variance_ns2"].is_null(), lacks, "{way:#}");
        assert!(!lacks || way["absent"].as_str().unwrap().contains("bpf_get_cpu_time_counter"), "{way:#}");
    }
}
