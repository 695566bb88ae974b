use super::*;
use quaver_testbed::privileged::privileged;
use std::net::UdpSocket;

fn namespace_of_this_thread() -> std::path::PathBuf {
    std::fs::read_link("/proc/thread-self/ns/net").unwrap()
}

#[test]
fn masks_are_written_as_the_kernel_reads_them() {
    assert_eq!(cpu_mask(&[]), "00000000");
    assert_eq!(cpu_mask(&[0, 1]), "00000003");
    assert_eq!(cpu_mask(&[1, 33]), "00000002,00000002");
}

#[test]
fn datagrams_cross_and_the_caller_stays_where_it_was() {
    if !privileged("datagrams_cross_and_the_caller_stays_where_it_was") {
        return;
    }
    let before = namespace_of_this_thread();
    let lab = Lab::create().unwrap();
    let mut pairs = vec![(IpAddr::from(lab.source.ipv4), IpAddr::from(lab.sink.ipv4))];
    pairs.extend(lab.source.ipv6.zip(lab.sink.ipv6).map(|(a, b)| (a.into(), b.into())));
    for (from, to) in pairs {
        let receiver = lab.sink.within(|| UdpSocket::bind((to, 0))).unwrap().unwrap();
        let sender = lab.source.within(|| UdpSocket::bind((from, 0))).unwrap().unwrap();
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        sender.send_to(b"hello", receiver.local_addr().unwrap()).unwrap();
        let mut buffer = [0; 16];
        let (octets, peer) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..octets], peer.ip()), (&b"hello"[..], from));
    }
    assert_eq!(namespace_of_this_thread(), before);
    assert_ne!(lab.source.interface, lab.sink.interface);
    assert!(lab.source.interface_index > 1 && lab.sink.interface_index > 1);
}

#[test]
fn receive_steering_is_written_in_the_namespace() {
    if !privileged("receive_steering_is_written_in_the_namespace") {
        return;
    }
    let lab = Lab::create().unwrap();
    lab.sink.steer_receive(&[0]).unwrap();
    lab.sink.steer_receive(&[]).unwrap();
    assert!(matches!(lab.sink.steer_receive(&[40_000]), Err(LabError::Os { .. })), "no such CPU");
}

#[test]
fn a_thread_may_move_for_good() {
    if !privileged("a_thread_may_move_for_good") {
        return;
    }
    let lab = Lab::create().unwrap();
    let (here, at_source, at_sink) = std::thread::scope(|scope| {
        let here = namespace_of_this_thread();
        let at = |enter: fn(&Lab) -> Result<(), LabError>| {
            let lab = &lab;
            let thread = scope.spawn(move || {
                enter(lab).unwrap();
                namespace_of_this_thread()
            });
            thread.join().unwrap()
        };
        (here, at(Lab::enter_source), at(Lab::enter_sink))
    });
    assert!(here != at_source && at_source != at_sink && here != at_sink);
}

#[test]
fn attributes_and_features_of_an_end_are_set_in_the_namespace() {
    if !privileged("attributes_and_features_of_an_end_are_set_in_the_namespace") {
        return;
    }
    let lab = Lab::create().unwrap();
    lab.sink.set_driver("feature.rx-gro", "on").unwrap();
    let read = || crate::settings::ethtool::get(&lab.sink.interface, "feature.rx-gro").unwrap();
    assert_eq!(lab.sink.within(read).unwrap(), "on");
    assert_eq!(lab.sink.driver("feature.rx-gro").unwrap().as_deref(), Some("on"));
    assert_eq!(lab.sink.driver("feature.no-such-thing").unwrap(), None);
    lab.sink.set_attribute("gro_flush_timeout", "100000").unwrap();
    assert_eq!(lab.sink.attribute("gro_flush_timeout").unwrap().as_deref(), Some("100000"));
    assert_eq!(lab.sink.attribute("no_such_thing").unwrap(), None);
    assert!(!lab.sink.is_device && !lab.source.is_device, "a veth pair interrupts nobody");
    lab.sink.set_attribute("napi_defer_hard_irqs", "1000").unwrap();
    let error = lab.sink.set_attribute("no_such_thing", "1").unwrap_err().to_string();
    assert!(error.starts_with("set no_such_thing of "), "{error}");
}
