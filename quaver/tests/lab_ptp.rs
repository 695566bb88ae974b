//! Clocks of cards (PHC) and the program that steers the kernel's clock by one, phc2sys of linuxptp, in a guest of the QEMU lab.

mod lab_guest;

use lab_guest::Script;
use serde_json::Value;

/// The rate that is given to the second card's clock, parts per billion.
const RATE_PPB: f64 = 20_000.0;

/// Doctor runs as nobody, since loading BPF programs takes an emulated processor minutes. Once phc2sys has ended, the card's clock
/// gets another rate and parts from the kernel's. It is a higher one: at a lower one the emulated clock jumps by 2^41 ns.
const STEERED: &str = "
doctor() {
    say $1
    setpriv --reuid=65534 --clear-groups --inh-caps=-all /init doctor --json || true
}
clock() { phc_ctl /dev/ptp1 \"$@\" >/dev/null 2>&1; }
chmod a+r /dev/ptp0 /dev/ptp1
/init capture -i eth0 --layers none --for 40s --json -o /tmp/x.pcapng >/tmp/captured 2>/tmp/heard &
capture=$!
await grep -q eth0 /tmp/heard
clock adj 5
clock freq 20000
phc2sys -s /dev/ptp1 -c CLOCK_REALTIME -O 0 -m >/tmp/phc2sys 2>&1 &
steering=$!
sleep 12
doctor steered
kill $steering
wait $steering || true
clock freq 40000
sleep 10
doctor left
wait $capture
say phc2sys
cat /tmp/phc2sys
say capture
cat /tmp/captured
";

/// Verdict and evidence of a check of doctor.
fn found<'a>(doctor: &'a Value, id: &str) -> (&'a str, &'a str) {
    let check = doctor["checks"].as_array().unwrap().iter().find(|check| check["id"] == id).unwrap();
    (check["verdict"].as_str().unwrap(), check["evidence"].as_str().unwrap())
}

/// The number that stands between two words, the first time.
fn between(text: &str, before: &str, after: &str) -> f64 {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{before}: {text}"));
    rest.split_once(after).unwrap().0.trim().parse().unwrap()
}

/// A card's clock minus CLOCK_REALTIME, and how wrong that may be, nanoseconds.
fn ahead(doctor: &Value, number: usize) -> [f64; 2] {
    let (verdict, evidence) = found(doctor, "clock-ptp");
    assert_eq!(verdict, "good", "{evidence}");
    let (_, of_card) = evidence.split_once(&format!("/dev/ptp{number}")).unwrap();
    [between(of_card, " is ", " ns from"), between(of_card, "within ", " ns")]
}

#[test]
fn who_steers_the_clock_is_named_and_its_end_and_its_steps_are_noticed() {
    let name = "who_steers_the_clock_is_named_and_its_end_and_its_steps_are_noticed";
    let programs = ["phc2sys", "phc_ctl", "setpriv", "chmod"];
    let script = Script { options: &["--clocked"], programs: &programs, text: STEERED };
    let Some(parts) = lab_guest::run(name, &script) else { return };
    let [steered, left] = ["steered", "left"].map(|part| serde_json::from_str(&parts[part]).unwrap());

    let locked: Vec<&str> = parts["phc2sys"].lines().filter(|line| line.contains(" s2 ")).collect();
    assert!(locked.len() >= 10, "{}", parts["phc2sys"]);
    let number = |line: &str, before: &str| -> f64 {
        line.split_once(before).unwrap().1.split_whitespace().next().unwrap().parse().unwrap()
    };
    let theirs: Vec<[f64; 3]> = locked[locked.len() - 8..]
        .iter()
        .map(|line| ["offset", "freq", "delay"].map(|figure| number(line, figure)))
        .collect();
    let [ours_ns, within_ns] = ahead(&steered, 1);
    // As phc2sys has it: CLOCK_REALTIME minus the card's clock. So is its rate, which it takes away.
    let near =
        |[behind_ns, _, delay_ns]: &[f64; 3]| (ours_ns + behind_ns).abs() <= within_ns + delay_ns / 2.0;
    assert!(theirs.iter().any(near), "{ours_ns} ± {within_ns}: {theirs:?}");
    // The other card's clock was left alone.
    let [other_ns, _] = ahead(&steered, 0);
    assert!((-5_001_000_000.0..-5_000_000_000.0).contains(&other_ns), "{other_ns}");

    let (verdict, evidence) = found(&steered, "clock-reference");
    assert!(verdict == "good" && evidence.contains("running: phc2sys (process "), "{evidence}");
    assert!(between(evidence, "corrected within the last ", " s") <= 2.0, "{evidence}");
    let rate_ppb = between(evidence, "rate corrected by ", " ppm") * 1e3;
    let set = |[_, theirs_ppb, _]: &[f64; 3]| (rate_ppb + theirs_ppb).abs() <= 1.0;
    assert!(theirs.iter().any(set) && rate_ppb > RATE_PPB / 2.0, "{evidence}: {theirs:?}");

    // The kernel still calls it synchronised.
    let (verdict, evidence) = found(&left, "clock-reference");
    assert!(
        verdict == "missing" && evidence.contains("no program known to correct clocks runs"),
        "{evidence}"
    );
    assert!(between(evidence, "corrected within the last ", " s") >= 10.0, "{evidence}");
    // Ten seconds and more of a rate higher by 20 ppm, as near as the card has it; the kernel's clock has kept the last one.
    let [parted_ns, _] = ahead(&left, 1);
    assert!(parted_ns > 10.0 * 0.75 * RATE_PPB, "{parted_ns}");

    let capture: Value = serde_json::from_str(&parts["capture"]).unwrap();
    let notes: Vec<&str> =
        capture["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    let once = |words: &str| notes.iter().filter(|note| note.contains(words)).count() == 1;
    assert!(
        once("wall clock stepped by 5.00 s") && once("corrected regularly and is no longer"),
        "{notes:#?}"
    );
}
