//! Accounts of `quaver capture` that hold when a disk is full, a ring is small, a filter asks for tags, or a link goes down.

use super::support::*;
use quaver_host::netns::Lab;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::net::netdevice::name_to_index;
use std::ffi::CString;
use std::io::{Error, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A disk of so many bytes that goes away with this value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, kibibytes: u32) -> Self {
        let size = CString::new(format!("size={kibibytes}k")).unwrap();
        mount("quaver-test", at, "tmpfs", MountFlags::empty(), size.as_c_str()).unwrap();
        Self(at.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.0, UnmountFlags::DETACH) {
            let _ = writeln!(std::io::stderr(), "{}: {error}", self.0.display());
        }
    }
}

#[test]
fn a_full_disk_holds_as_many_packets_as_are_told() {
    if !privileged("a_full_disk_holds_as_many_packets_as_are_told") {
        return;
    }
    let lab = Lab::create().unwrap();
    for kibibytes in [4, 100, 256, 300, 700] {
        let directory = tempfile::tempdir().unwrap();
        let disk = SmallDisk::mount(directory.path(), kibibytes);
        let path = disk.0.join("full.pcapng");
        let options =
            ["-o", path.to_str().unwrap(), "--json", "--direction", "in", "udp", "dst", "port", "9"];
        let capture = Capture::start(&lab.sink, &options);
        send(&lab, std::iter::repeat_n(1000, 981));
        let (status, stdout, said) = capture.wait();
        assert_eq!(status.code(), Some(6), "{said}");
        let named =
            format!("quaver: write {}: No space left on device (os error 28); free some", path.display());
        assert!(said.contains(&named) && said.contains("the file is readable up to there"), "{said}");
        let summary: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
        assert_accounts(&summary);
        let (packets, whole) = read(&path);
        assert!(whole && packets.len() < 981);
        let interface = &summary["interfaces"][0];
        assert_eq!(number(interface, "/captured"), packets.len() as u64, "{kibibytes} KiB");
        assert_eq!(number(interface, "/octets"), 1000 * packets.len() as u64);
        assert_eq!(number(interface, "/stamped/application"), packets.len() as u64);
    }
}

#[test]
fn a_small_ring_cuts_no_packet() {
    if !privileged("a_small_ring_cuts_no_packet") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("small.pcapng");
    let options = ["-o", path.to_str().unwrap(), "--json", "--buffer", "8KiB", "udp dst port 9"];
    let capture = Capture::start(&lab.sink, &options);
    assert!(capture.heard.concat().contains("--buffer has no room for two blocks"), "{:?}", capture.heard);
    // Loopback's packets are as long as they can be; a link's are cut into fragments before.
    let sent = send(&lab, [60, 500, 1400, 1514].into_iter());
    let summary = capture.end();
    assert_accounts(&summary);
    let (packets, _) = read(&path);
    assert_eq!(packets.len() as u64, sent);
    assert!(packets.iter().all(|packet| packet.data.len() == packet.original_length as usize));
}

/// An Ethernet frame with UDP to `port`, in VLAN `tag`.
pub(super) fn frame(port: u16, tag: Option<u8>) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend(tag.map(|tag| [0x81, 0, 0, tag]).into_iter().flatten());
    frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 9]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 8, 0, 0]);
    frame.resize(64, 0);
    frame
}

/// Sends frames as they are out of the interface.
pub(super) fn send_frames(interface: &str, frames: impl Iterator<Item = Vec<u8>>) {
    // SAFETY: takes no pointers.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    assert!(socket >= 0, "{}", Error::last_os_error());
    // SAFETY: the descriptor was made just now and belongs to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let index = name_to_index(&socket, interface).unwrap();
    // SAFETY: zeros are a valid address of the family.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index.cast_signed();
    for frame in frames {
        // SAFETY: frame and address live through the call and are as long as it says.
        let sent = unsafe {
            libc::sendto(
                std::os::fd::AsRawFd::as_raw_fd(&socket),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        assert_eq!(sent, frame.len() as isize, "{}", Error::last_os_error());
    }
}

#[test]
fn a_filter_with_tags_leaves_its_other_terms_as_they_are() {
    if !privileged("a_filter_with_tags_leaves_its_other_terms_as_they_are") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tags.pcapng");
    let sent =
        [(30, 7, None), (40, 7, Some(5)), (60, 8, Some(5)), (20, 8, None), (10, 8, Some(6)), (7, 7, Some(6))];
    // As tcpdump 4.99 with libpcap 1.10 counts them: the kernel keeps the tag beside the packet, so a term before `vlan`
    // matches packets of every VLAN.
    for (filter, expected) in [
        ("udp port 7 or vlan 5", 137),
        ("vlan 5 or udp port 7", 107),
        ("udp port 7 and not vlan", 30),
        ("udp dst port 7", 77),
    ] {
        let options = ["-o", path.to_str().unwrap(), "--json", "--direction", "in", "--filter", filter];
        let capture = Capture::start(&lab.sink, &options);
        let frames = sent.iter().flat_map(|&(count, port, tag)| std::iter::repeat_n(frame(port, tag), count));
        lab.source.within(|| send_frames(&lab.source.interface, frames)).unwrap();
        let summary = capture.end();
        assert_accounts(&summary);
        assert_eq!(number(&summary, "/captured"), expected, "{filter}");
    }
}

#[test]
fn a_link_that_goes_down_once_is_told_once() {
    if !privileged("a_link_that_goes_down_once_is_told_once") {
        return;
    }
    let lab = Lab::create().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("down.pcapng");
    let capture = Capture::start(&lab.sink, &["-o", path.to_str().unwrap(), "--json"]);
    let link = |state: &str| {
        let interface = &lab.sink.interface;
        let run = || Command::new("ip").args(["link", "set", interface, state]).status().unwrap();
        assert!(lab.sink.within(run).unwrap().success());
    };
    link("down");
    link("up");
    for _ in 0..10 {
        // Each block is another event of the socket.
        let frames = std::iter::once(frame(7, None));
        lab.source.within(|| send_frames(&lab.source.interface, frames)).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(60));
    }
    capture.signal(rustix::process::Signal::INT);
    let (_, _, said) = capture.wait();
    assert_eq!(said.matches("is down").count(), 1, "{said}");
}
