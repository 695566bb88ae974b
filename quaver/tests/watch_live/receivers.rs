//! Receivers that peek, are restarted again and again, or are watched twice.

use super::support::{
    QUAVER, Receiver, Sender, Watch, alone_on_cpu_0, note, said, stop_for_a_while, summary,
};
use quaver_testbed::privileged::privileged;
use std::process::{Command, Stdio};

const PACKETS: &str = "quaver_watch_packets_total";

#[test]
fn each_packet_counts_once_whether_or_not_the_receiver_peeks_at_it_first() {
    if !privileged("each_packet_counts_once_whether_or_not_the_receiver_peeks_at_it_first") {
        return;
    }
    let _alone = alone_on_cpu_0();
    for receiver in [Receiver::start(0), Receiver::that_peeks()] {
        let mut sender = Sender::start(receiver.port);
        let watch = Watch::of(receiver.port);
        let before = sender.sent();
        let daemon = watch.start();
        watch.wait("the receiver", |watch| watch.log().contains("watching "));
        watch.wait("packets", |watch| watch.metric(PACKETS) > 0.0);
        let counted = sender.sent();
        watch.wait_watching(1);
        stop_for_a_while(receiver.pid());
        watch.wait_incidents(1);
        let found = summary(&watch.incidents()[0]);
        assert_eq!(found["causes"][0]["source"], "stopped", "{}", found["causes"]);
        assert!(found["causes"][0]["share"].as_f64().unwrap() > 0.9, "{}", found["causes"]);
        let sent = sender.stop();
        // A stop that lasts too long on a busy machine fills the socket.
        let lost = |place: &str| {
            watch.metric(&format!("quaver_watch_lost_packets_total{{receiver=\"studio\",place=\"{place}\"}}"))
        };
        watch.wait("all packets", |watch| {
            watch.metric(PACKETS) + lost("missing") + lost("dropped") >= f64::from(sent - counted)
        });
        assert!(watch.metric(PACKETS) <= f64::from(sent - before), "{}", watch.metric(PACKETS));
        assert_eq!(lost("missing") + lost("dropped"), f64::from(receiver.missing()));
        watch.end(daemon);
    }
}

/// Files that a process has open.
fn open_files(process: u32) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count()
}

#[test]
fn a_receiver_is_found_again_after_each_of_five_restarts_and_nothing_is_left_of_it() {
    if !privileged("a_receiver_is_found_again_after_each_of_five_restarts_and_nothing_is_left_of_it") {
        return;
    }
    let _alone = alone_on_cpu_0();
    let mut receiver = Receiver::start(0);
    let port = receiver.port;
    let mut sender = Sender::start(port);
    let watch = Watch::of(port);
    let daemon = watch.start();
    watch.wait_watching(1);
    let files = open_files(daemon.0.id());
    // A file that is read once is open for a moment. One that stays open is left of a receiver.
    let wait_closed = || watch.wait("the end of files", |_| open_files(daemon.0.id()) <= files);
    for restart in 1..=5 {
        watch.wait_watching(restart);
        wait_closed();
        stop_for_a_while(receiver.pid());
        // The one that is kept, and those that are counted in it.
        watch.wait("the incident", |watch| {
            watch.incidents().first().is_some_and(|incident| note(incident)["count"] == restart)
        });
        drop(receiver);
        watch.wait("the end of the receiver", |watch| watch.log().matches("is gone").count() == restart);
        receiver = Receiver::start(port);
    }
    watch.wait_watching(6);
    wait_closed();
    let incidents = watch.incidents();
    assert_eq!((incidents.len(), &note(&incidents[0])["cause"]), (1, &"stopped".into()), "{}", watch.log());
    assert!(watch.metric(PACKETS) <= f64::from(sender.stop()), "counted twice");
    watch.end(daemon);
}

#[test]
fn a_receiver_that_moves_to_another_port_is_found_there_and_its_next_stop_is_an_incident() {
    if !privileged("a_receiver_that_moves_to_another_port_is_found_there_and_its_next_stop_is_an_incident") {
        return;
    }
    let _alone = alone_on_cpu_0();
    let receiver = Receiver::that_moves();
    let sender = Sender::start(receiver.port);
    let watch = Watch::of(receiver.port);
    watch.set(&format!("port = {}", receiver.port), &format!("pid = {}", receiver.pid().as_raw_nonzero()));
    let daemon = watch.start();
    watch.wait_watching(1);
    let port = receiver.moves();
    drop(sender);
    let _sender = Sender::start(port);
    watch.wait_watching(2);
    let closed = format!("has closed its socket on port {}\n", receiver.port);
    assert_eq!(watch.log().matches(&closed).count(), 1, "{}", watch.log());
    assert!(watch.ask("status").contains(&format!("port {port}")), "{}", watch.ask("status"));
    stop_for_a_while(receiver.pid());
    watch.wait_incidents(1);
    let found = summary(&watch.incidents()[0]);
    assert_eq!(found["causes"][0]["source"], "stopped", "{}", found["causes"]);
    assert!(found["causes"][0]["share"].as_f64().unwrap() > 0.9, "{}", found["causes"]);
    watch.end(daemon);
}

#[test]
fn two_watches_of_a_receiver_each_keep_what_happens_and_a_directory_has_one_watch() {
    if !privileged("two_watches_of_a_receiver_each_keep_what_happens_and_a_directory_has_one_watch") {
        return;
    }
    let _alone = alone_on_cpu_0();
    let receiver = Receiver::start(0);
    let _sender = Sender::start(receiver.port);
    let watches = [Watch::of(receiver.port), Watch::of(receiver.port)];
    let daemons = watches.each_ref().map(Watch::start);
    watches.iter().for_each(|watch| watch.wait_watching(1));
    // A third one has a socket and an address of its own, and the directory of the first.
    let third = Watch::of(receiver.port);
    let directory = |watch: &Watch| format!("directory = '{}'", watch.path("data").display());
    third.set(&directory(&third), &directory(&watches[0]));
    let mut command = Command::new(QUAVER);
    command.args(["watch", "--config"]).arg(third.path("watch.toml")).stdin(Stdio::null());
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("another watch keeps its incidents in "), "{}", said(&refused));
    stop_for_a_while(receiver.pid());
    for (watch, daemon) in watches.iter().zip(daemons) {
        watch.wait_incidents(1);
        let found = summary(&watch.incidents()[0]);
        assert_eq!(found["causes"][0]["source"], "stopped", "{}", found["causes"]);
        assert!(found["causes"][0]["share"].as_f64().unwrap() > 0.9, "{}", found["causes"]);
        watch.end(daemon);
    }
}

#[test]
fn a_sender_that_stops_for_good_is_said_once_and_again_when_packets_come() {
    if !privileged("a_sender_that_stops_for_good_is_said_once_and_again_when_packets_come") {
        return;
    }
    let _alone = alone_on_cpu_0();
    let receiver = Receiver::start(0);
    let mut sender = Sender::start(receiver.port);
    let watch = Watch::of(receiver.port);
    let daemon = watch.start();
    watch.wait_watching(1);
    let silent = || watch.metric("quaver_watch_receiver_silent{receiver=\"studio\"}");
    // A receiver that hangs is no sender that stops: packets come.
    stop_for_a_while(receiver.pid());
    watch.wait_incidents(1);
    assert_eq!(silent(), 0.0);
    sender.stop();
    watch.wait("the silence", |_| silent() == 1.0);
    assert!(watch.ask("status").contains("; no packet comes\n"), "{}", watch.ask("status"));
    let _again = Sender::start(receiver.port);
    watch.wait("packets", |_| silent() == 0.0);
    let said = |words: &str| watch.log().matches(words).count();
    assert_eq!((said("no packet has entered"), said("packets come again")), (1, 1), "{}", watch.log());
    assert_eq!(watch.incidents().len(), 1, "{}", watch.log());
    watch.end(daemon);
}
