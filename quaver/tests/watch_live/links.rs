//! A stream whose link goes down and comes back, whose interface gets another name, and whose interface is removed.

use super::support::{Receiver, Sender, Watch, alone_on_cpu_0, asked, note};
use quaver_host::netns::{Lab, LabEnd};
use quaver_testbed::privileged::privileged;
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A watch that waits for a gap far longer than a shared machine makes, and for lost packets.
const TRIGGERS: &str = "gap = '300ms'";
const OUTAGE: Duration = Duration::from_millis(700);

fn ip(end: &LabEnd, words: &str) {
    let words = words.replace("{}", &end.interface);
    let ip = || Command::new("ip").args(words.split(' ')).status().unwrap();
    assert!(end.within(ip).unwrap().success(), "ip {words}");
}

/// Waits until so many more packets are counted.
fn wait_packets(watch: &Watch, more: f64) {
    let from = watch.metric("quaver_watch_packets_total");
    watch.wait("packets", |watch| watch.metric("quaver_watch_packets_total") >= from + more);
}

#[test]
fn a_link_that_is_down_for_a_while_is_an_incident_with_the_packets_that_are_missing() {
    if !privileged("a_link_that_is_down_for_a_while_is_an_incident_with_the_packets_that_are_missing") {
        return;
    }
    let _alone = alone_on_cpu_0();
    // Either end, and so the receiver's host, or another one on the way.
    for near in [true, false] {
        let lab = Lab::create().unwrap();
        let receiver = Receiver::at(&lab.sink);
        let sender = Sender::at(&lab.source, (lab.sink.ipv4, receiver.port));
        let watch = Watch::with(receiver.port, TRIGGERS);
        let daemon = watch.start_at(Some(&lab.sink));
        watch.wait_watching(1);
        let end = if near { &lab.sink } else { &lab.source };
        ip(end, "link set {} down");
        std::thread::sleep(OUTAGE);
        ip(end, "link set {} up");
        let missing = receiver.says("missing ");
        watch.wait_incidents(1);
        let incident = watch.incidents().remove(0);
        let said = asked(&incident)["trigger"].as_str().unwrap().to_owned();
        assert!(said.ends_with(&format!("and {missing} packets are missing")), "{said}");
        assert_eq!(
            (&note(&incident)["cause"], &note(&incident)["reasons"]),
            (&"missing".into(), &json!(["gap"]))
        );
        wait_packets(&watch, 200.0);
        let lost = watch.metric("quaver_watch_lost_packets_total{receiver=\"studio\",place=\"missing\"}");
        // Of the first packets over a link that has just come up, too, some may be missing.
        let missing = u32::from(missing) + receiver.missing();
        assert_eq!(lost, f64::from(missing), "{}", watch.ask("status"));
        drop(sender);
        watch.end(daemon);
    }
}

#[test]
fn another_name_of_the_interface_is_nothing_to_a_watch_and_its_end_ends_the_stream_alone() {
    if !privileged("another_name_of_the_interface_is_nothing_to_a_watch_and_its_end_ends_the_stream_alone") {
        return;
    }
    let _alone = alone_on_cpu_0();
    let lab = Lab::create().unwrap();
    let receiver = Receiver::at(&lab.sink);
    let _sender = Sender::at(&lab.source, (lab.sink.ipv4, receiver.port));
    let watch = Watch::with(receiver.port, TRIGGERS);
    let daemon = watch.start_at(Some(&lab.sink));
    watch.wait_watching(1);
    ip(&lab.sink, "link set {} name elsewhere");
    wait_packets(&watch, 500.0);
    assert_eq!(watch.incidents(), [] as [PathBuf; 0], "{}", watch.log());
    ip(&lab.sink, "link delete elsewhere");
    // Its figures go on to be had, and an incident that is asked for.
    watch.ask("trigger");
    watch.wait_incidents(1);
    assert_eq!(note(&watch.incidents()[0])["reasons"], json!(["asked"]));
    assert_eq!(watch.metric("quaver_watch_receiver_watched{receiver=\"studio\"}"), 1.0);
    watch.end(daemon);
}
