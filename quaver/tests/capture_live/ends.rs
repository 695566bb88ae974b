//! How a capture ends, and what it leaves behind: limits of time and size, an interface that vanishes, another user, and
//! the kernel's stamping, which is switched off.

use super::support::*;
use quaver_abi::stamp::Layer;
use quaver_capture::compare::record::stamped_for_others;
use quaver_host::netns::Lab;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, Instant};

/// Numbers that the test's packets bear.
fn numbers(packets: &[Packet]) -> Vec<u64> {
    let number = |data: &[u8]| u64::from_be_bytes(data[HEADERS..HEADERS + 8].try_into().unwrap());
    packets.iter().map(|packet| number(&packet.data)).collect()
}

#[test]
fn files_follow_each_other_by_time_and_hold_each_packet_once() {
    if !privileged("files_follow_each_other_by_time_and_hold_each_packet_once") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("turn.pcapng");
    let options = ["-o", path.to_str().unwrap(), "--json", "--file-time", "100ms", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    let files = || std::fs::read_dir(directory.path()).unwrap().count();
    // Packets until the third file is there.
    let lengths = std::iter::from_fn(|| {
        std::thread::sleep(Duration::from_millis(5));
        (files() < 3).then_some(200)
    });
    let sent = send(&lab, lengths);
    let summary = capture.end();
    assert_accounts(&summary);
    let files: Vec<String> = serde_json::from_value(summary["files"].clone()).unwrap();
    assert!(files.len() >= 3, "{files:?}");
    let packets: Vec<_> = files.iter().map(|file| read(file.as_ref())).collect();
    assert!(packets.iter().all(|(_, whole)| *whole));
    let all: Vec<u64> = packets.iter().flat_map(|(packets, _)| numbers(packets)).collect();
    assert_eq!(all, (0..sent).collect::<Vec<_>>());
}

#[test]
fn a_limit_of_size_ends_it_and_what_came_after_is_told() {
    if !privileged("a_limit_of_size_ends_it_and_what_came_after_is_told") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("limit.pcapng");
    let options = ["-o", path.to_str().unwrap(), "--json", "--size-limit", "50kB", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    send(&lab, std::iter::repeat_n(500, 1_000));
    let summary = capture.summary();
    assert_accounts(&summary);
    assert_eq!(summary["ended_by"].as_str(), Some("limit"));
    let octets = std::fs::metadata(&path).unwrap().len();
    // The packet that reaches the limit is whole, and the counts come after it.
    assert!((50_000..54_000).contains(&octets), "{octets}");
    let (packets, whole) = read(&path);
    assert_eq!((packets.len() as u64, whole), (number(&summary, "/captured"), true));
    assert_eq!(numbers(&packets), (0..packets.len() as u64).collect::<Vec<_>>());
}

#[test]
fn an_interface_that_vanishes_ends_it_and_the_file_is_whole() {
    if !privileged("an_interface_that_vanishes_ends_it_and_the_file_is_whole") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gone.pcapng");
    let options = ["-o", path.to_str().unwrap(), "--json", "--direction", "in", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    let sent = send(&lab, std::iter::repeat_n(300, 100));
    let Lab { source, sink } = lab;
    // With its namespace one end of the link goes, and with it the other.
    drop(source);
    let (status, stdout, rest) = capture.wait();
    assert_eq!(status.code(), Some(6), "{rest}");
    assert!(rest.contains(&format!(
        "interface {} was removed, or moved to another network namespace; capture ended and kept",
        sink.interface
    )));
    let summary: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    assert_accounts(&summary);
    assert_eq!((number(&summary, "/captured"), summary["ended_by"].as_str()), (sent, Some("interface")));
    let (packets, whole) = read(&path);
    assert_eq!((packets.len() as u64, whole), (sent, true));
}

#[test]
fn of_two_interfaces_the_one_that_is_left_is_captured_on() {
    if !privileged("of_two_interfaces_the_one_that_is_left_is_captured_on") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("left.pcapng");
    let options = ["-i", "lo", "-o", path.to_str().unwrap(), "--json", "--direction", "in", "udp dst port 9"];
    let mut capture = Capture::start(&lab.sink, &options);
    let sent = send(&lab, std::iter::repeat_n(300, 100));
    let Lab { source, sink } = lab;
    drop(source);
    capture.until_it_says(&format!(
        "interface {} was removed, or moved to another network namespace; the others are still captured",
        sink.interface
    ));
    let inside = sink.within(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).unwrap();
    for number in 0..50u64 {
        inside.send_to(&number.to_be_bytes(), (Ipv4Addr::LOCALHOST, 9)).unwrap();
    }
    let summary = capture.end();
    assert_accounts(&summary);
    let captured = [0, 1].map(|at| number(&summary, &format!("/interfaces/{at}/captured")));
    assert_eq!((captured, summary["ended_by"].as_str()), ([sent, 50], Some("interrupted")));
    let noted = summary["notes"].to_string();
    assert!(
        noted.contains(&format!(
            "interface {} was removed, or moved to another network namespace, after ",
            sink.interface
        )),
        "{noted}"
    );
    let (packets, whole) = read(&path);
    assert_eq!((packets.len() as u64, whole), (sent + 50, true));
}

#[test]
fn after_opening_all_it_is_another_user() {
    if !privileged("after_opening_all_it_is_another_user") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::Builder::new().prefix("quaver-capture-").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let path = directory.path().join("theirs.pcapng");
    let options = ["-o", path.to_str().unwrap(), "--json", "--user", "nobody", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    for thread in std::fs::read_dir(format!("/proc/{}/task", capture.child.id())).unwrap() {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let line = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(line("Uid:").iter().all(|user| *user == line("Uid:")[0] && user != "0"), "{status}");
        assert!(line("Gid:").iter().all(|group| group != "0"), "{status}");
        assert_eq!(u64::from_str_radix(&line("CapEff:")[0], 16), Ok(0), "{status}");
    }
    let sent = send(&lab, std::iter::repeat_n(300, 100));
    let summary = capture.end();
    assert_accounts(&summary);
    assert_eq!(number(&summary, "/captured"), sent);
    assert_ne!(std::fs::metadata(&path).unwrap().uid(), 0);
    assert!(read(&path).0.iter().all(|packet| packet.stamps.get(Layer::Tc).is_some()));
    let unknown = ["capture", "-i", "lo", "-o", "/dev/null", "--user", "no-such-user"];
    let unknown = Command::new(QUAVER).args(unknown).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2), "{}", String::from_utf8_lossy(&unknown.stderr));
}

/// Waits until the kernel stamps, or does not: it switches in its own time, which nothing tells.
fn kernel_stamps(wanted: bool) -> bool {
    let give_up = Instant::now() + Duration::from_secs(30);
    loop {
        match stamped_for_others() {
            Some(stamps) if stamps == wanted => return true,
            _ if Instant::now() > give_up => return false,
            _ => {}
        }
    }
}

#[test]
fn the_kernel_stamps_for_everybody_no_longer_than_it_lasts() {
    const NAME: &str = "the_kernel_stamps_for_everybody_no_longer_than_it_lasts";
    if !privileged(NAME) {
        return;
    }
    let lab = Lab::create().unwrap();
    let alone = alone();
    if !kernel_stamps(false) {
        return skip(NAME, Lack::Quiet("another program has the kernel stamp packets; end it for this test"));
    }
    let capture = || {
        let mut command = Command::new(QUAVER);
        command.args(["capture", "-i", &lab.sink.interface, "-o", "/dev/null", "--json"]);
        let capture = Capture::spawn_alone(&lab.sink, command);
        assert_eq!(stamped_for_others(), Some(true));
        capture
    };
    capture().end();
    assert!(kernel_stamps(false), "it goes on after the capture's end");
    let killed = capture();
    killed.signal(Signal::KILL);
    killed.wait();
    assert!(kernel_stamps(false), "it goes on after the capture was killed");
    drop(alone);
}

/// Lines of `quaver extcap` for an interface, and how it ended.
fn extcap(interface: &str) -> (String, Option<i32>) {
    let output = Command::new(QUAVER)
        .args(["extcap", "--extcap-dlts", "--extcap-interface", interface])
        .output()
        .unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

#[test]
fn link_types_for_wireshark_are_those_of_dumpcap() {
    assert_eq!(extcap("quaver-nosuch0"), (String::new(), Some(2)));
    for (interface, number) in [("lo", 1), ("any", 276)] {
        let (line, status) = extcap(&format!("quaver-{interface}"));
        assert!(status == Some(0) && line.starts_with(&format!("dlt {{number={number}}}")), "{line}");
    }
    if !privileged("link_types_for_wireshark_are_those_of_dumpcap") {
        return;
    }
    let dumpcap = |interface: &str| Command::new("dumpcap").args(["-L", "-i", interface]).output();
    let Ok(none) = dumpcap("nosuch0") else {
        return skip("link_types_for_wireshark_are_those_of_dumpcap", Lack::Installed("dumpcap"));
    };
    assert_eq!((none.stdout.len(), none.status.code()), (0, Some(2)));
    for interface in ["lo", "any"] {
        let text = String::from_utf8(dumpcap(interface).unwrap().stdout).unwrap();
        let line = extcap(&format!("quaver-{interface}")).0;
        let (name, words) = line.split_once("{name=").unwrap().1.split_once("}{display=").unwrap();
        assert!(text.contains(&format!("{name} ({})", words.trim().trim_end_matches('}'))), "{text}");
    }
}

/// Wireshark reads a pipe that it made, and waits for its first writer.
#[test]
fn a_capture_for_wireshark_that_cannot_begin_ends_its_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let reader =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&fifo).unwrap();
    let ended = || {
        let mut descriptors = [PollFd::new(&reader, PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        descriptors[0].revents().contains(PollFlags::HUP)
    };
    assert!(!ended());
    let options = ["extcap", "--capture", "--extcap-interface", "quaver-nosuch0", "--fifo"];
    let output = Command::new(QUAVER).args(options).arg(&fifo).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(ended(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Without `--breach` the gap's file had gone: the ring has 8 files, and 20 follow.
#[test]
fn the_files_around_a_breach_are_kept() {
    if !privileged("the_files_around_a_breach_are_kept") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring.pcapng");
    let mut options =
        vec!["-o", path.to_str().unwrap(), "--json", "--ring-files", "8", "--file-time", "200ms"];
    options.extend(["--qos", "--breach", "loss=5%", "udp dst port 9"]);
    let capture = Capture::start(&lab.sink, &options);
    let latest = || {
        let files = std::fs::read_dir(directory.path()).unwrap();
        let number = |name: String| name["ring_".len()..][..5].parse::<u32>().unwrap();
        files.map(|file| number(file.unwrap().file_name().into_string().unwrap())).max().unwrap()
    };
    // Of 8 kHz, a packet each 5 ms; 200 to 299 are not sent.
    let to = (lab.sink.ipv4, PORT);
    let mut at_gap = 0;
    lab.source
        .within(|| {
            let socket = std::net::UdpSocket::bind((lab.source.ipv4, 0)).unwrap();
            for number in (0u16..200).chain(300..) {
                let head = [&[0x80, 0][..], &number.to_be_bytes(), &(40 * u32::from(number)).to_be_bytes()];
                // Nobody listens: that comes back as an error of the next call, which then sends nothing.
                while socket.send_to(&[&head.concat()[..], &[7; 52]].concat(), to).is_err() {}
                match number {
                    300 => at_gap = latest(),
                    301.. if latest() >= at_gap + 20 => break,
                    _ => std::thread::sleep(Duration::from_millis(5)),
                }
            }
        })
        .unwrap();
    let summary = capture.end();
    assert_accounts(&summary);
    let notes: Vec<String> = serde_json::from_value(summary["notes"].clone()).unwrap();
    let breaches: Vec<_> = notes.iter().filter(|note| note.starts_with("breach at ")).collect();
    assert!(breaches.len() == 1 && breaches[0].ends_with("; the files around it are kept"), "{notes:?}");
    let files: Vec<String> = serde_json::from_value(summary["files"].clone()).unwrap();
    assert!(files.len() > 8 && files.len() as u32 <= 8 + 8 + 2, "{files:?}");
    let sequence = |packet: &Packet| u16::from_be_bytes([packet.data[HEADERS + 2], packet.data[HEADERS + 3]]);
    let kept: Vec<u16> =
        files.iter().flat_map(|file| read(file.as_ref()).0).map(|packet| sequence(&packet)).collect();
    assert!(kept.contains(&199) && kept.contains(&300), "{kept:?}");
}
