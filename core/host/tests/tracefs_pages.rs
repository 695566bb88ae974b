//! Pages recorded from a running kernel (`fixtures/tracefs/record.sh`), decoded, against the kernel's own text of the
//! same records.

use quaver_abi::record::{EventKind, EventRecord};
use quaver_host::tracefs::assemble::Assembler;
use quaver_host::tracefs::events::TRACEPOINTS;
use quaver_host::tracefs::instance::Instance;
use quaver_host::tracefs::page::{Lost, decode};
use quaver_host::tracefs::survey::{Bound, page_layout, probe_root};
use quaver_host::tracefs::timeline::TraceClock;
use quaver_host::tracefs::{Dir, Reached, remove_stale_instances};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tracefs")
}

fn bound(root: &Dir) -> Bound {
    let mut bound = Bound::default();
    TRACEPOINTS.iter().for_each(|tracepoint| bound.bind(root, tracepoint));
    bound
}

/// Ticks, current thread and event name of each record, and what each page says was lost before it.
fn decoded(name: &str) -> (Vec<(u64, u32, String)>, Vec<Lost>) {
    let root = Dir::open(&fixtures()).unwrap();
    let layout = page_layout(&root).unwrap();
    let bound = bound(&root);
    let names: BTreeMap<u16, String> = bound
        .present
        .iter()
        .map(|t| {
            let text = root.read(&format!("events/{}/{}/format", t.group, t.name)).unwrap();
            let id = text.lines().find_map(|line| line.strip_prefix("ID:")).unwrap();
            (id.trim().parse().unwrap(), t.name.to_owned())
        })
        .collect();
    let pages = std::fs::read(fixtures().join(name)).unwrap();
    let mut rows = Vec::new();
    let mut losses = Vec::new();
    for page in pages.chunks(layout.size) {
        let lost = decode(page, &layout, |event| {
            let reader = bound.readers[usize::from(event.id)].as_ref().expect("only events with a format");
            let (current, _) = reader.read(event.record, &BTreeSet::new()).expect("no record is cut short");
            rows.push((event.timestamp, current, names[&event.id].clone()));
        });
        losses.push(lost.unwrap());
    }
    (rows, losses)
}

fn told_by_the_kernel(name: &str) -> Vec<(u64, u32, String)> {
    let text = std::fs::read_to_string(fixtures().join(name)).unwrap();
    let row = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0].parse().unwrap(), words[1].parse().unwrap(), words[2].to_owned())
    };
    text.lines().map(row).collect()
}

#[test]
fn pages_say_what_the_kernel_says() {
    for name in ["sparse", "lossy"] {
        let (rows, _) = decoded(&format!("{name}.pages"));
        let expected = told_by_the_kernel(&format!("{name}.txt"));
        assert!(rows.len() >= 4 && rows.len() <= expected.len());
        assert_eq!(rows, expected[..rows.len()], "{name}");
    }
}

#[test]
fn far_apart_records_need_time_extensions() {
    let (rows, losses) = decoded("sparse.pages");
    assert!(rows.windows(2).any(|pair| pair[1].0 - pair[0].0 >= 1 << 27));
    assert_eq!(losses, [Lost::Nothing]);
}

#[test]
fn a_page_tells_what_was_lost_before_it() {
    let (_, losses) = decoded("lossy.pages");
    assert_eq!(losses, [Lost::Counted(3953), Lost::Nothing]);
}

#[test]
fn recorded_pages_become_intervals() {
    let root = Dir::open(&fixtures()).unwrap();
    let (layout, bound) = (page_layout(&root).unwrap(), bound(&root));
    let mut assembler = Assembler::default();
    let mut records: Vec<EventRecord> = Vec::new();
    for page in std::fs::read(fixtures().join("lossy.pages")).unwrap().chunks(layout.size) {
        let taken = decode(page, &layout, |event| {
            let reader = bound.readers[usize::from(event.id)].as_ref().unwrap();
            let (current, what) = reader.read(event.record, &BTreeSet::new()).unwrap();
            assembler.feed(1, event.timestamp, current, &what, &mut |record| records.push(record));
        });
        assert!(taken.is_ok());
    }
    // As many as the kernel's text has ends of each kind, of which the first may have begun before the page.
    let (rows, _) = decoded("lossy.pages");
    let count = |kind: EventKind| records.iter().filter(|r| r.kind == kind as u8).count();
    let ends = |name: &str| rows.iter().filter(|row| row.2 == name).count();
    for (kind, name) in [
        (EventKind::Thread, "sched_switch"),
        (EventKind::Softirq, "softirq_exit"),
        (EventKind::Hrtimer, "hrtimer_expire_exit"),
    ] {
        assert!(ends(name) > 0 && (ends(name) - 1..=ends(name)).contains(&count(kind)), "{name}");
    }
    let vectors = ends("local_timer_exit") + ends("reschedule_exit");
    assert!((vectors - 1..=vectors).contains(&count(EventKind::Vector)));
    let unpaired = assembler.unpaired();
    assert_eq!((unpaired.exits, unpaired.entries, unpaired.switches), (0, 0, 0), "{unpaired:?}");
    let timed = records.iter().filter(|r| r.kind != EventKind::TaskName as u8);
    assert!(timed.clone().is_sorted_by_key(|r| r.end_ns));
}

/// A folder that looks like a tracefs of a kernel with few tracepoints.
fn fake_tracefs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let format = fixtures().join("events/sched/sched_switch/format");
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("trace_clock", "[local] global mono\n");
    put("events/header_page", &std::fs::read_to_string(fixtures().join("events/header_page")).unwrap());
    let format = std::fs::read_to_string(format).unwrap();
    put("events/sched/sched_switch/format", &format);
    put("events/irq/irq_handler_entry/format", &format);
    std::fs::create_dir(folder.path().join("instances")).unwrap();
    folder
}

#[test]
fn a_kernel_without_tracepoints_is_blind_by_name() {
    let folder = fake_tracefs();
    let survey = probe_root(&Dir::open(folder.path()).unwrap(), Reached::Privately);
    assert_eq!((survey.clock, survey.pages), (Some(TraceClock::Mono), true));
    assert_eq!(survey.present, ["sched:sched_switch"]);
    assert_eq!(survey.missing["irq:irq_handler_entry"], "its format lacks the field irq");
    assert_eq!(survey.missing["csd:csd_function_exit"], "this kernel has no such tracepoint");
    assert!(survey.blind.iter().any(|line| line.starts_with("device interrupts (irq:irq_handler_entry: ")));
    assert!(!survey.blind.iter().any(|line| line.contains("deferred_error")), "most machines lack it");
}

#[test]
fn leftovers_of_the_dead_go_and_others_stay() {
    let folder = fake_tracefs();
    let root = Dir::open(folder.path()).unwrap();
    let mut child = Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    let alive = std::process::id();
    let names =
        [format!("quaver-{dead}-00000001"), format!("quaver-{alive}-00000002"), "someone-else".to_owned()];
    for name in &names {
        root.make_dir(&format!("instances/{name}")).unwrap();
    }
    assert_eq!(probe_root(&root, Reached::Privately).leftovers, names[..1]);
    assert_eq!(remove_stale_instances(&root).unwrap(), names[..1]);
    assert_eq!(root.names("instances").unwrap(), names[1..]);
    let instance = Instance::create(&root).unwrap();
    assert!(root.has(&format!("instances/{}", instance.name())));
    drop(instance);
    assert_eq!(root.names("instances").unwrap(), names[1..]);
}
