//! Waits that a program ends late by amounts that it measures itself come back from `quaver sync` with these amounts, in the
//! right class and by the right cause.

mod sync_run;

use serde_json::Value;
use sync_run::{Bench, number, privileged};

/// Part of the injected time by which the measured may differ.
const TOLERANCE: f64 = 0.05;

/// What the program says of one wait.
#[derive(Debug)]
struct Injected {
    how: String,
    thread: u64,
    signalled_ns: u64,
    after_ns: u64,
    let_go_ns: u64,
    returned_ns: u64,
}

impl Injected {
    fn parse(line: &str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().unwrap_or_else(|_| panic!("{line}"));
        Self {
            how: words[0].to_owned(),
            thread: number(1),
            signalled_ns: number(2),
            after_ns: number(3),
            let_go_ns: number(4),
            returned_ns: number(5),
        }
    }

    fn allowed_ns(&self) -> u64 {
        ((self.let_go_ns - self.signalled_ns) as f64 * TOLERANCE) as u64
    }

    /// Whether a duration lies between two that the program's own clock gives, give or take the tolerance. They are apart
    /// where something else held the signalling or the waiting thread up between its call and its look at the clock.
    fn agrees(&self, found_ns: u64, least_ns: u64, most_ns: u64) -> bool {
        (least_ns.saturating_sub(self.allowed_ns())..=most_ns + self.allowed_ns()).contains(&found_ns)
    }
}

/// Time of a wait's pieces with one of these causes, between two instants.
fn caused_ns(wait: &Value, causes: &[&str], from_ns: u64, to_ns: u64) -> u64 {
    let pieces = wait["pieces"].as_array().expect("a list");
    let of = pieces.iter().filter(|piece| causes.contains(&piece["cause"].as_str().expect("a name")));
    of.map(|piece| {
        number(piece, "/end_ns").min(to_ns).saturating_sub(number(piece, "/start_ns").max(from_ns))
    })
    .sum()
}

fn assert_found(injected: &Injected, waits: &[Value]) {
    let during = |wait: &&Value| {
        number(wait, "/thread") == injected.thread
            && (injected.signalled_ns..injected.returned_ns).contains(&number(wait, "/released_ns"))
    };
    let found: Vec<&Value> = waits.iter().filter(during).collect();
    assert_eq!(found.len(), 1, "{injected:?}: {found:?}");
    let wait = found[0];
    assert_eq!(wait["class"], "signal-wait", "{injected:?}: {wait}");
    // The wait was over when it was let go and before the program saw it return.
    let took_ns = number(wait, "/ended_ns") - number(wait, "/released_ns");
    let (least_ns, most_ns) =
        (injected.let_go_ns - injected.after_ns, injected.returned_ns - injected.signalled_ns);
    assert!(injected.agrees(took_ns, least_ns, most_ns), "{injected:?}: {took_ns}: {wait}");
    let moved = wait["entered_cpu"] != wait["ended_cpu"];
    let (causes, case): (&[&str], bool) = match injected.how.as_str() {
        "held" => (&["mutex-held"], !moved),
        "hog" => (&["other-thread-first", "run-queue"], !moved && number(wait, "/case") != 3),
        "moved" => (&["other-thread-first", "run-queue", "migrated"], moved && number(wait, "/case") == 3),
        other => panic!("{other} is not known"),
    };
    assert!(case, "{injected:?}: {wait}");
    // The injected delay is from the wake-up, which happens within the call of signal, until the waiter was let go. Interrupts
    // that its CPU took meanwhile lie inside it.
    let causes: Vec<&str> = causes.iter().copied().chain(["interrupt"]).collect();
    let caused = caused_ns(wait, &causes, injected.signalled_ns, injected.let_go_ns);
    let most_ns = injected.let_go_ns - injected.signalled_ns;
    assert!(injected.agrees(caused, least_ns, most_ns), "{injected:?}: {caused}: {wait}");
}

#[test]
fn injected_delays_come_back_in_the_right_class_and_cause() {
    if !privileged("injecting delays with real-time threads") {
        return;
    }
    let bench = Bench::of("truth");
    let ended = bench.run(&[]);
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(0), "{told}");
    let lines = String::from_utf8(ended.stdout).expect("the program's own words, and nothing else");
    let injected: Vec<Injected> = lines.lines().map(Injected::parse).collect();
    assert_eq!(injected.len(), 9, "{lines}");
    let summary = bench.summary();
    assert_eq!(summary["schema"], "quaver.sync/1");
    assert_eq!(number(&summary, "/facts/kernel/lost"), 0, "{told}");
    let waits = summary["results"]["longest"].as_array().expect("a list").clone();
    for one in &injected {
        assert_found(one, &waits);
    }
    let coverage = &summary["results"]["coverage"];
    assert_eq!(number(coverage, "/matched"), number(coverage, "/wake_ups"));
    assert_eq!(summary["objects"][0]["name"], "told");
}
