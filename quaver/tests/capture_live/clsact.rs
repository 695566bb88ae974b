//! The ingress hook as kernels before 6.6 have it (`--layers tc-clsact`): the stamps are the same, and what a killed
//! capture leaves goes with the next.

use super::support::*;
use quaver_abi::stamp::Layer;
use quaver_host::netns::Lab;
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;

fn capture(lab: &Lab, path: &Path) -> Capture {
    let options = ["-o", path.to_str().unwrap(), "--json", "--direction", "in", "--layers", "xdp,tc-clsact"];
    let capture = Capture::start(&lab.sink, &[&options[..], &["udp dst port 9"]].concat());
    let told = capture.heard.concat();
    assert!(told.contains("tc stamp by BPF at the ingress hook (a filter at clsact"), "{told}");
    capture
}

/// All packets are there with all stamps in their order.
fn assert_stamped(path: &Path, sent: u64) {
    let (packets, whole) = read(path);
    assert_eq!((packets.len() as u64, whole), (sent, true));
    for packet in &packets {
        let [xdp, kernel, tc] = [Layer::Xdp, Layer::Kernel, Layer::Tc].map(|layer| packet.stamps.get(layer));
        let (Some(xdp), Some(kernel), Some(tc)) = (xdp, kernel, tc) else { panic!("{:?}", packet.stamps) };
        assert!(xdp.time_ns <= tc.time_ns, "{:?}", packet.stamps);
        let apart = |bound: u32| i64::from(bound) + i64::from(kernel.bound_ns);
        assert!(xdp.time_ns <= kernel.time_ns + apart(xdp.bound_ns), "{:?}", packet.stamps);
        assert!(kernel.time_ns <= tc.time_ns + apart(tc.bound_ns), "{:?}", packet.stamps);
    }
}

#[test]
fn a_filter_stamps_as_a_link_does_and_a_killed_captures_goes_with_the_next() {
    if !privileged("a_filter_stamps_as_a_link_does_and_a_killed_captures_goes_with_the_next") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("filter.pcapng");
    let killed = capture(&lab, &path);
    killed.signal(Signal::KILL);
    killed.wait();
    for _ in 0..2 {
        let running = capture(&lab, &path);
        let sent = send(&lab, std::iter::repeat_n(200, 500));
        let summary = running.end();
        assert_accounts(&summary);
        let of = |place| number(&summary, place);
        assert_eq!((of("/captured"), of("/stamps_lost"), of("/stamps_unmatched")), (sent, 0, 0));
        assert_stamped(&path, sent);
    }
}

#[test]
fn another_user_could_not_remove_it_so_that_is_refused() {
    let words = ["capture", "-i", "lo", "-o", "/dev/null", "--layers", "tc-clsact", "--user", "nobody"];
    let output = Command::new(QUAVER).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("use only one of them"), "{said}");
}
