//! Which process a receiver is now.

use crate::config::ReceiverSettings;
use quaver_host::root::HostRoot;
use quaver_host::sockets::ProcessIdentity;

/// The process with the lowest number that the settings describe; none where there is none now.
pub(super) fn find(settings: &ReceiverSettings, root: &HostRoot) -> Option<u32> {
    let mut processes: Vec<u32> = match settings.pid {
        Some(pid) => vec![pid],
        None => root.names("proc").iter().filter_map(|name| name.parse().ok()).collect(),
    };
    processes.sort_unstable();
    processes.into_iter().find(|pid| is_it(settings, *pid, root))
}

fn is_it(settings: &ReceiverSettings, pid: u32, root: &HostRoot) -> bool {
    let named =
        |comm: &String| root.text(&format!("proc/{pid}/comm")).is_some_and(|name| name.trim() == comm);
    let in_unit = |unit: &String| {
        let groups = root.text(&format!("proc/{pid}/cgroup")).unwrap_or_default();
        groups.lines().any(|line| line.split('/').any(|part| part == unit))
    };
    if !settings.comm.as_ref().is_none_or(named) || !settings.unit.as_ref().is_none_or(in_unit) {
        return false;
    }
    let Ok(process) = ProcessIdentity::of(root, pid) else { return false };
    let receives = |local: u16| local != 0 && settings.port.is_none_or(|port| port == local);
    process.udp_sockets(root).is_ok_and(|sockets| sockets.iter().any(|socket| receives(socket.local.port())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn by(comm: Option<&str>, port: Option<u16>, pid: Option<u32>) -> ReceiverSettings {
        let comm = comm.map(str::to_owned);
        ReceiverSettings {
            name: "a".to_owned(),
            pid,
            comm,
            unit: None,
            port,
            late: None,
            gap: None,
            losses: Some(1),
        }
    }

    #[test]
    fn a_process_is_found_by_its_port_its_name_and_its_number_while_it_has_the_socket() {
        let root = HostRoot::system();
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let own = std::process::id();
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap().trim().to_owned();
        assert_eq!(find(&by(None, Some(port), None), &root), Some(own));
        assert_eq!(find(&by(Some(&comm), Some(port), None), &root), Some(own));
        assert_eq!(find(&by(None, Some(port), Some(own)), &root), Some(own));
        assert_eq!(find(&by(Some("no such name"), Some(port), None), &root), None);
        let unit =
            ReceiverSettings { unit: Some("no-such.service".to_owned()), ..by(None, Some(port), None) };
        assert_eq!(find(&unit, &root), None);
        drop(socket);
        assert_eq!(find(&by(None, Some(port), Some(own)), &root), None);
    }
}
