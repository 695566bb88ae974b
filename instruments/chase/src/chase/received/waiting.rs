//! Waiting for a stream to start.

use crate::args::StreamArgs;
use crate::first_look::{Learned, look};
use anyhow::Context;
use clap::ValueEnum;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_probe::sink::Sink;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// How long somebody's stream may take to start.
pub(super) const START: Duration = Duration::from_secs(10);

/// Somebody's stream to `address`; `interface` is the one that was named for a multicast group.
pub(super) fn for_anyone(
    sink: &Sink,
    address: SocketAddr,
    interface: Option<&str>,
    progress: &Progress,
    interrupt: &Interrupt,
) -> anyhow::Result<Learned> {
    let waiting = format!("waiting for packets to {address} ({} s at most)", START.as_secs());
    let look = look(sink, START, interrupt, progress, &waiting, |_| true)?;
    look.learned().ok_or_else(|| {
        let interface = match (interface, address.ip().is_multicast()) {
            (Some(name), _) => format!(", that it arrives on {name}"),
            (None, true) => ", that routes to the sender's network exist (else name the interface with --interface)".to_owned(),
            (None, false) => String::new(),
        };
        let came = match look.packets() {
            0 => "no packet",
            _ => "only one packet",
        };
        let (port, seconds) = (address.port(), START.as_secs());
        failure(
            ExitCode::Peer,
            format!(
                "{came} for {address} within {seconds} s: check the sender{interface} and the firewall for UDP port {port}"
            ),
        )
    })
}

/// Address of this host that `host` reaches, with `port`. Nothing is sent.
pub(super) fn address_towards(host: IpAddr, port: u16) -> anyhow::Result<SocketAddr> {
    let any: SocketAddr = if host.is_ipv4() { ([0u8; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let unreachable = || format!("--from {host}: no route leads there (see: ip route get {host})");
    let socket = UdpSocket::bind(any).context("opening a socket to look up the way to the other host")?;
    socket
        .connect((host, port))
        .and_then(|()| socket.local_addr())
        .map(|local| SocketAddr::new(local.ip(), port))
        .map_err(|_| failure(ExitCode::Peer, unreachable()))
}

/// What to run on the other host for this stream, which is measured for `duration`.
pub(super) fn command(stream: &StreamArgs, duration: Duration, here: SocketAddr) -> String {
    let mut words = vec!["quaver source".to_owned(), here.to_string()];
    if let Some(profile) = stream.profile {
        words.push(format!("--profile {}", profile.name()));
    }
    if let Some(period) = stream.period {
        words.push(format!("--period {}ns", period.picoseconds as f64 / 1e3));
    }
    match stream.rate {
        Some(quaver_instrument::quantity::Rate::Packets(packets)) => {
            words.push(format!("--rate {packets}pps"))
        }
        Some(quaver_instrument::quantity::Rate::Bits(bits)) => words.push(format!("--rate {bits}bit/s")),
        None => {}
    }
    if let Some(size) = stream.size {
        words.push(format!("--size {size}"));
    }
    if let Some(pace) = stream.pace.and_then(|pace| pace.to_possible_value()) {
        words.push(format!("--pace {}", pace.get_name()));
    }
    if stream.dscp != 0 {
        words.push(format!("--dscp {}", stream.dscp));
    }
    if stream.catch_up {
        words.push("--catch-up".to_owned());
    }
    // It may run longer than needed: it is ended by hand, or by its own time.
    let long = duration + Duration::from_secs(10);
    words.push(format!("--for {}s", long.as_secs_f64().ceil()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{ChaseArgs, SourceArgs};
    use quaver_instrument::args::parse;

    fn args(line: &str) -> ChaseArgs {
        parse(line.split_whitespace().skip(1)).unwrap()
    }

    #[test]
    fn the_command_for_the_other_host_makes_the_stream_that_was_asked_for() {
        let here: SocketAddr = ([192, 0, 2, 7], 2670).into();
        let cases = [
            ("quaver chase --from 192.0.2.1", "quaver source 192.0.2.7:2670 --for 20s"),
            (
                "quaver chase --from 192.0.2.1 --period 7.4198us --size 1400 --pace sleep --for 1500ms",
                "quaver source 192.0.2.7:2670 --period 7419.8ns --size 1400 --pace sleep --for 12s",
            ),
            (
                "quaver chase --from 192.0.2.1 --rate 1.5Gbit/s --dscp 46 --catch-up",
                "quaver source 192.0.2.7:2670 --rate 1500000000bit/s --dscp 46 --catch-up --for 20s",
            ),
            (
                "quaver chase --from 192.0.2.1 --profile st2022-6",
                "quaver source 192.0.2.7:2670 --profile st2022-6 --for 20s",
            ),
        ];
        for (asked, expected) in cases {
            let args = args(asked);
            let command = command(&args.stream, args.duration, here);
            assert_eq!(command, expected);
            parse::<SourceArgs>(command.split_whitespace().skip(1)).unwrap();
        }
    }

    #[test]
    fn the_own_address_is_the_one_that_the_other_host_sees() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(address_towards(loopback, 2670).unwrap(), SocketAddr::new(loopback, 2670));
    }
}
