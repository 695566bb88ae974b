//! Each test confines a thread of its own: what it gives up is gone for that thread alone.

use super::*;
use rustix::io::Errno;
use std::io::ErrorKind::PermissionDenied;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;

/// Does something in a confined thread.
fn confined<T: Send>(keep: &Confinement<'_>, work: impl FnOnce(Confined) -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| work(confine(keep))).join().unwrap())
}

fn nothing() -> Confinement<'static> {
    Confinement {
        files: Some(Files::default()),
        network: Network::Nothing,
        tracing: false,
        programs: false,
        filter: true,
        capabilities: CapabilitySet::empty(),
    }
}

/// Whether a call is refused.
fn refused<T>(outcome: std::io::Result<T>) -> bool {
    outcome.err().is_some_and(|error| error.kind() == PermissionDenied)
}

#[test]
fn files_are_those_that_were_named() {
    let place = tempfile::tempdir().unwrap();
    let [theirs, ours, other] = ["theirs", "ours", "other"].map(|name| place.path().join(name));
    for folder in [&theirs, &ours, &other] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("old"), "x").unwrap();
    }
    for folder in [&theirs, &other] {
        std::fs::create_dir(folder.join("empty")).unwrap();
    }
    let (read, write, emptied): ([&Path; 1], [&Path; 1], [&Path; 1]) = ([&theirs], [&ours], [&other]);
    let files = Files { read: &read, write: &write, emptied: &emptied };
    let keep = Confinement { files: Some(files), ..nothing() };
    confined(&keep, |confined| {
        if confined.landlock == Enforced::Nothing {
            // This kernel has none, and everything goes on as before.
            assert_eq!(std::fs::read(other.join("old")).unwrap(), b"x");
            return;
        }
        assert_eq!(std::fs::read(theirs.join("old")).unwrap(), b"x");
        std::fs::write(ours.join("new"), "y").unwrap();
        std::fs::rename(ours.join("new"), ours.join("old")).unwrap();
        std::fs::remove_file(ours.join("old")).unwrap();
        assert!(refused(std::fs::read(other.join("old"))));
        assert!(refused(std::fs::write(theirs.join("new"), "y")));
        assert!(refused(std::fs::write(other.join("old"), "y")));
        assert!(refused(std::fs::remove_file(other.join("old"))));
        std::fs::remove_dir(other.join("empty")).unwrap();
        assert!(refused(std::fs::remove_dir(theirs.join("empty"))));
        // A thread that it starts has no more.
        let forbidden = other.join("old");
        let later = std::thread::spawn(|| std::fs::read(forbidden).map(drop)).join().unwrap();
        assert!(refused(later));
    });
    assert_eq!(std::fs::read(place.path().join("other/old")).unwrap(), b"x");
}

#[test]
fn nothing_leads_out_of_it() {
    confined(&nothing(), |confined| {
        assert!(confined.seccomp && confined.capabilities, "{confined}");
        assert!(refused(Command::new("true").status()));
        assert!(refused(TcpStream::connect("127.0.0.1:9")));
        assert!(refused(UdpSocket::bind("127.0.0.1:0")));
        let unshare = rustix::thread::UnshareFlags::NEWUSER;
        // SAFETY: it is refused, so nothing is unshared.
        assert_eq!(unsafe { rustix::thread::unshare_unsafe(unshare) }, Err(Errno::PERM));
        // SAFETY: it is refused, so there is no child.
        let child =
            unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0) };
        assert_eq!((child, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)));
        // SAFETY: a wrong number of a command does nothing even where it is permitted.
        let bpf = unsafe { libc::syscall(libc::SYS_bpf, 9_999, 0, 0) };
        assert_eq!((bpf, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)));
        let sets = rustix::thread::capabilities(None).unwrap();
        assert!(sets.effective.is_empty() && sets.permitted.is_empty(), "{sets:?}");
        assert!(rustix::thread::no_new_privs().unwrap());
        // Threads, memory and time are free.
        assert_eq!(std::thread::spawn(|| vec![1; 1 << 20].len()).join().unwrap(), 1 << 20);
        std::thread::sleep(std::time::Duration::from_millis(1));
    });
}

#[test]
fn a_server_has_its_ports_and_reaches_nobody() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let there = TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [port];
    let keep = Confinement { network: Network::Serves(&ports), ..nothing() };
    confined(&keep, |confined| {
        let ours = TcpListener::bind(("127.0.0.1", port));
        assert!(ours.is_ok(), "{ours:?}");
        assert!(UdpSocket::bind("127.0.0.1:0").is_ok());
        if confined.landlock == Enforced::Whole {
            assert!(refused(TcpStream::connect(there.local_addr().unwrap())));
            assert!(refused(TcpListener::bind("127.0.0.1:0")));
        }
    });
}

#[test]
fn capabilities_that_were_not_named_go_for_good() {
    let had = rustix::thread::capabilities(None).unwrap().effective;
    let keep = Confinement {
        files: None,
        network: Network::Free,
        tracing: false,
        programs: false,
        filter: true,
        capabilities: CapabilitySet::SYS_NICE,
    };
    confined(&keep, |confined| {
        assert_eq!(confined.landlock, Enforced::NotAsked);
        let sets = rustix::thread::capabilities(None).unwrap();
        assert_eq!(sets.effective, had & CapabilitySet::SYS_NICE);
        let back = CapabilitySets { effective: had, permitted: had, inheritable: CapabilitySet::empty() };
        if !(had - CapabilitySet::SYS_NICE).is_empty() {
            assert_eq!(rustix::thread::set_capabilities(None, back), Err(Errno::PERM));
        }
        assert!(std::fs::read("/proc/self/stat").is_ok() && UdpSocket::bind("127.0.0.1:0").is_ok());
    });
    assert_eq!(rustix::thread::capabilities(None).unwrap().effective, had, "of that thread alone");
}

#[test]
fn programs_inherit_the_restrictions_of_the_thread_that_starts_them() {
    let keep = Confinement { files: None, programs: true, ..nothing() };
    let output = confined(&keep, |_| {
        let script = "grep CapPrm /proc/self/status; exec 3<>/dev/udp/127.0.0.1/9; echo $?";
        let child = Command::new("bash").args(["-c", script]).stdout(std::process::Stdio::piped()).spawn();
        child.unwrap().wait_with_output().unwrap()
    });
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["CapPrm:", "0000000000000000", "1"]);
}
