//! A directory of incidents that stalls, is full, or is removed.

use super::support::{Receiver, Sender, Watch, alone_on_cpu_0, note, stop_for_a_while};
use quaver_store::manifest::Manifest;
use quaver_store::run::RunDir;
use quaver_testbed::privileged::privileged;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A disk that takes its time: a file among the incidents that cannot be read until somebody has written it.
struct SlowDisk(PathBuf);

impl SlowDisk {
    fn below(incidents: &Path) -> Self {
        let run = RunDir::create(incidents, "watch").unwrap();
        let (asked, host) = (serde_json::json!({"incident": {}}), serde_json::json!({}));
        run.write_manifest(&Manifest::begin("1", "watch", asked, host, 0)).unwrap();
        let tags = run.path().join("tags.txt");
        rustix::fs::mknodat(CWD, &tags, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        Self(run.path().to_owned())
    }

    /// The other end of the file, once a reader has opened it. The reader gets nothing until this is dropped.
    fn is_waited_for(&self) -> Option<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(self.0.join("tags.txt"), flags, Mode::empty()).ok()
    }
}

#[test]
fn a_disk_that_stalls_costs_no_incident_that_memory_holds_and_the_others_are_said_to_be_lost() {
    if !privileged(
        "a_disk_that_stalls_costs_no_incident_that_memory_holds_and_the_others_are_said_to_be_lost",
    ) {
        return;
    }
    let _alone = alone_on_cpu_0();
    let receiver = Receiver::start(0);
    let sender = Sender::start(receiver.port);
    let watch = Watch::of(receiver.port);
    let daemon = watch.start();
    watch.wait_watching(1);
    let disk = SlowDisk::below(&watch.path("data/incidents"));
    stop_for_a_while(receiver.pid());
    let mut held = None;
    watch.wait("the writer", |_| {
        held = disk.is_waited_for();
        held.is_some()
    });
    let waiting =
        |count: f64| watch.wait("a window", |_| watch.metric("quaver_watch_waiting_windows") == count);
    for count in [1.0, 2.0] {
        stop_for_a_while(receiver.pid());
        waiting(count);
    }
    // Settings are read all the same; memory now holds the worst window alone.
    watch.reload(&daemon, "[hook]", "[limits]\nwaiting_mib = 0\n[hook]", 1);
    stop_for_a_while(receiver.pid());
    let lost = || watch.metric("quaver_watch_lost_incidents_total");
    watch.wait("the loss", |_| lost() == 2.0);
    waiting(1.0);
    let said = watch.log().matches("Z is lost: limits.waiting_mib holds no more windows").count();
    assert_eq!((said, watch.incidents()), (2, vec![disk.0.clone()]), "{}", watch.log());
    // The disk goes on: what was in hand and what waited is kept, the second counted in the first.
    std::fs::remove_dir_all(&disk.0).unwrap();
    drop(held);
    let counts = |watch: &Watch| -> Vec<Value> {
        watch.incidents().iter().map(|incident| note(incident)["count"].clone()).collect()
    };
    watch.wait("both", |watch| counts(watch) == [2]);
    assert_eq!(
        (lost(), watch.metric("quaver_watch_triggers_total{receiver=\"studio\",reason=\"held\"}")),
        (2.0, 4.0)
    );
    watch.end(daemon);
    drop(sender);
}

/// A disk of its own with little room, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(path: PathBuf, size: &str) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        let size = std::ffi::CString::new(format!("size={size}")).unwrap();
        mount("none", &path, "tmpfs", MountFlags::empty(), Some(size.as_c_str())).unwrap();
        Self(path)
    }

    fn enlarge(&self, size: &str) {
        mount_remount(&self.0, MountFlags::empty(), format!("size={size}")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn a_full_disk_costs_its_incident_and_no_later_one() {
    if !privileged("a_full_disk_costs_its_incident_and_no_later_one") {
        return;
    }
    let _alone = alone_on_cpu_0();
    let receiver = Receiver::start(0);
    let _sender = Sender::start(receiver.port);
    let watch = Watch::of(receiver.port);
    let disk = SmallDisk::at(watch.path("data"), "64k");
    let daemon = watch.start();
    watch.wait_watching(1);
    stop_for_a_while(receiver.pid());
    watch.wait("the failure", |watch| watch.metric("quaver_watch_failed_incidents_total") == 1.0);
    let log = watch.log();
    assert!(log.contains("the incident could not be kept: ") && log.contains("; free space there"), "{log}");
    assert!(!log.contains("shorter run"), "nobody asked for a length: {log}");
    assert_eq!(watch.incidents(), [] as [PathBuf; 0], "half an incident");
    disk.enlarge("64m");
    stop_for_a_while(receiver.pid());
    watch.wait_incidents(1);
    assert_eq!(note(&watch.incidents()[0])["cause"], "stopped");
    watch.end(daemon);
}

#[test]
fn directories_that_are_removed_meanwhile_are_made_again_and_no_incident_is_lost() {
    if !privileged("directories_that_are_removed_meanwhile_are_made_again_and_no_incident_is_lost") {
        return;
    }
    let _alone = alone_on_cpu_0();
    let receiver = Receiver::start(0);
    let _sender = Sender::start(receiver.port);
    let watch = Watch::of(receiver.port);
    let daemon = watch.start();
    watch.wait_watching(1);
    for (turn, removed) in ["data/incidents", "data/staging", "data"].into_iter().enumerate() {
        std::fs::remove_dir_all(watch.path(removed)).unwrap();
        stop_for_a_while(receiver.pid());
        let kept = "quaver_watch_triggers_total{receiver=\"studio\",reason=\"held\"}";
        watch.wait("the trigger", |watch| watch.metric(kept) == (turn + 1) as f64);
        // An incident counts in an earlier one of its kind, if that one still exists.
        let count = if removed == "data/staging" { 2 } else { 1 };
        let counts = |watch: &Watch| -> Vec<Value> {
            watch.incidents().iter().map(|incident| note(incident)["count"].clone()).collect()
        };
        watch.wait("the incident", |watch| counts(watch) == [count]);
        assert_eq!(watch.metric("quaver_watch_failed_incidents_total"), 0.0, "{}", watch.log());
    }
    watch.end(daemon);
}
