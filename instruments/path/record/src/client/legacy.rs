//! Jitlat as its document has it (sections 4.2 and 4.3, annex A.2).

use super::{Test, is_udp, probes, tcp_source, udp_socket};
use crate::control::{ControlError, Incoming};
use crate::drive;
use crate::drive::{Happening, Signals};
use crate::error::PathError;
use crate::options::{ClientOptions, Directions};
use crate::outcome::{Completion, FlowOutcome};
use quaver_abi::wire::jitlat::{Command, PROTO_TCP, PROTO_UDP, Singleton, Workorder};
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{
    FlowSchedule, ReceiveEnd, Received, StampSource, TestListener, TestSocket, Transport, prepare_receive,
};
use socket2::{Domain, Socket, Type};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Rows that a server may send beyond those asked for: copies.
const SPARE_ROWS: u64 = 1 << 16;

/// Whether the document has all that was asked for.
pub(super) fn check(options: &ClientOptions) -> Result<(), PathError> {
    let wrong = |what: &str| Err(PathError::Options(what.to_owned()));
    if !options.server.is_ipv4() {
        return wrong(
            "Jitlat as its document has it knows only IPv4: give an IPv4 address, or use `quaver probe`",
        );
    }
    if matches!(options.directions, Directions::Both | Directions::AtOnce) {
        return wrong("Jitlat as its document has it measures one way at a time: choose one");
    }
    if !matches!(options.schedule, FlowSchedule::Periodic { .. }) {
        return wrong("Jitlat as its document has it sends periodically: give a period or a rate");
    }
    if options.rolling || options.key.is_some() {
        return wrong("Jitlat as its document has it has neither rolling tests nor keys: use `quaver probe`");
    }
    if options.packets.is_none_or(|packets| u32::try_from(packets).is_err()) {
        return wrong("Jitlat as its document has it needs a number of packets, below 2^32");
    }
    Ok(())
}

pub(super) fn run(test: &mut Test<'_>) -> Result<Completion, PathError> {
    probes::run(test, false)?;
    match test.options.directions {
        Directions::Down => down(test),
        _ => up(test),
    }
}

fn workorder(test: &Test<'_>, command: Command) -> Workorder {
    let options = test.options;
    Workorder {
        npkts: options.packets.and_then(|packets| u32::try_from(packets).ok()).unwrap_or(u32::MAX),
        pktlen: options.packet_bytes,
        proto: if options.transport == Transport::Udp { PROTO_UDP } else { PROTO_TCP },
        period_ns: options.schedule.mean_period_ns(),
        dscp: options.dscp.into(),
        dst_port: options.destination_port,
        ..Workorder::new(command)
    }
}

fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// The next workorder, which must have this command.
fn hear(test: &mut Test<'_>, command: Command, waiting_for: &'static str) -> Result<Workorder, PathError> {
    let (end, server) = (test.answer_due(), test.server());
    match test.control.hear(end, test.stop).map_err(|e| test.failed(e, waiting_for))? {
        Incoming::Workorder(answer) if answer.command == command => Ok(answer),
        Incoming::Workorder(answer) if answer.command == Command::Nak => Err(PathError::Nak { server }),
        Incoming::Workorder(answer) => Err(test.protocol_error(format!(
            "said {} where {} was due",
            answer.command.name(),
            command.name()
        ))),
        Incoming::Message(_) => Err(test.protocol_error("spoke the extension without being asked")),
    }
}

fn say(test: &mut Test<'_>, workorder: &Workorder) -> Result<(), PathError> {
    let patience = test.patience();
    test.control
        .say_workorder(workorder, patience)
        .map_err(|e| test.failed(e, "when it was to take the workorder"))
}

/// SENDING: we send, and the samples come back.
fn up(test: &mut Test<'_>) -> Result<Completion, PathError> {
    let to = SocketAddr::new(test.server().ip(), test.options.destination_port);
    let mut order = workorder(test, Command::Sending);
    (order.src_ip, order.dst_ip) = (v4(test.control.local().ip()), v4(to.ip()));
    let socket = if is_udp(test) {
        let socket = udp_socket(test)?;
        socket.connect(to)?;
        order.src_port = socket.local_address()?.port();
        say(test, &order)?;
        hear(test, Command::Ack, "for ACK")?;
        socket
    } else {
        let (socket, port) = bound_tcp(test)?;
        order.src_port = port;
        say(test, &order)?;
        hear(test, Command::Ack, "for ACK")?;
        let refused = |e| PathError::os(format!("make the test connection to TCP {to}"), e);
        socket.connect_timeout(&to.into(), test.patience()).map_err(refused)?;
        TestSocket::from_socket(socket, Transport::Tcp)?
    };
    socket.set_dscp(test.options.dscp)?;
    let mut flow = test.begin(Direction::Up, &socket)?;
    let spec = test.spec();
    let (mut nak, mut begun, mut lost) = (false, false, None);
    let (stop, pairs) = (test.stop, &mut test.pairs);
    let mut on = |happening: Happening<'_>, _: &mut _, signals: &Signals| {
        let over = |signals: &Signals| signals.acknowledged.store(true, Ordering::Relaxed);
        match happening {
            Happening::Heard(Incoming::Workorder(answer)) => {
                nak = answer.command == Command::Nak;
                begun = answer.command == Command::Samples;
                if !matches!(answer.command, Command::Samples | Command::Ack | Command::Nak) {
                    lost = Some(format!("said {} while the test ran", answer.command.name()));
                }
                over(signals);
            }
            Happening::Heard(Incoming::Message(_)) => {
                lost = Some("spoke the extension without being asked".into());
                over(signals);
            }
            Happening::Gone(error) => {
                lost = Some(error.to_string());
                over(signals);
            }
            Happening::Tick => pairs.tick(),
            Happening::Batch(_) => {}
        }
        if stop.load(Ordering::Relaxed) {
            signals.end();
        }
    };
    let report = drive::send(&mut test.control, &socket, &spec, &mut on)?;
    if nak {
        return Err(PathError::Nak { server: test.server() });
    }
    let all_sent = Some(report.summary.packets) == test.options.packets;
    flow.sent(report);
    let lost = match lost {
        Some(lost) => Some(lost),
        None => samples(test, &mut flow, begun)?,
    };
    flow.complete = lost.is_none() && all_sent;
    test.end(flow);
    Ok(completion(test, lost))
}

/// Takes the samples, until the server closes; why they are not all there, if so.
fn samples(test: &mut Test<'_>, flow: &mut FlowOutcome, begun: bool) -> Result<Option<String>, PathError> {
    // A user who interrupts still wants what there is.
    let never = std::sync::atomic::AtomicBool::new(false);
    let (server, end) = (test.server(), test.answer_due());
    if !begun {
        match test.control.hear(end, &never) {
            Ok(Incoming::Workorder(answer)) if answer.command == Command::Samples => {}
            Ok(Incoming::Workorder(answer)) if answer.command == Command::Nak => {
                return Err(PathError::Nak { server });
            }
            Ok(_) => return Ok(Some("did not send the samples".into())),
            Err(error) => return Ok(Some(error.to_string())),
        }
    }
    let most = test.options.packets.unwrap_or(0).saturating_mul(4) + SPARE_ROWS;
    let (mut rest, keep) = (Vec::new(), true);
    loop {
        match test.control.raw(test.options.answer_timeout, &never) {
            Ok(Some(octets)) => {
                rest.extend(octets);
                let (rows, left) = Singleton::all_in(&rest);
                let rows: Vec<Received> = rows
                    .map(|singleton| Received {
                        singleton,
                        stamped_by: StampSource::Application,
                        of_train: false,
                    })
                    .collect();
                let left = left.to_vec();
                rest = left;
                super::take(flow, &rows, keep, test.watch);
            }
            Ok(None) if rest.is_empty() => return Ok(None),
            Ok(None) => return Ok(Some("closed in the middle of a sample".into())),
            Err(error) => return Ok(Some(error.to_string())),
        }
        if flow.rows > most {
            return Ok(Some("sent more samples than there can be".into()));
        }
    }
}

/// SEND_ME: the server sends.
fn down(test: &mut Test<'_>) -> Result<Completion, PathError> {
    let here = SocketAddr::new(test.control.local().ip(), test.options.destination_port);
    let mut order = workorder(test, Command::SendMe);
    (order.src_ip, order.dst_ip) = (v4(test.server().ip()), v4(here.ip()));
    order.src_port = test.options.source_port;
    let (receiver, port) = Receiver::bind(test.options.transport, here)?;
    order.dst_port = port;
    say(test, &order)?;
    let mut answer = hear(test, Command::Sending, "for SENDING")?;
    answer.command = Command::Ack;
    let spec = test.spec();
    if let Receiver::Udp(socket) = &receiver {
        socket.connect((test.server().ip(), answer.src_port).into())?;
        prepare_receive(socket, &spec)?;
    }
    say(test, &answer)?;
    let Some(socket) = receiver.accept(test)? else {
        return Err(test.failed(ControlError::TimedOut, "for the test connection"));
    };
    let mut flow = test.begin(Direction::Down, &socket)?;
    let (mut lost, mut nak, stop) = (None, false, test.stop);
    let (watch, pairs) = (&mut *test.watch, &mut test.pairs);
    let mut on = |happening: Happening<'_>, _: &mut _, signals: &Signals| {
        match happening {
            Happening::Batch(batch) => super::take(&mut flow, batch, true, watch),
            Happening::Heard(incoming) => {
                nak = matches!(&incoming, Incoming::Workorder(answer) if answer.command == Command::Nak);
                lost = Some("spoke while the test ran".to_owned());
            }
            Happening::Gone(error) => lost = Some(error.to_string()),
            Happening::Tick => pairs.tick(),
        }
        if lost.is_some() || stop.load(Ordering::Relaxed) {
            signals.end();
        }
    };
    let report = drive::receive(&mut test.control, &socket, &spec, &mut on)?;
    if nak {
        return Err(PathError::Nak { server: test.server() });
    }
    if lost.is_none() {
        // What is lost here is only the server's knowledge that all is well.
        let _ = say(test, &answer);
    }
    if lost.is_none() && report.end == ReceiveEnd::TimedOut {
        lost = Some("sent nothing more, not even the end".into());
    }
    flow.complete = report.end == ReceiveEnd::Sentinel && lost.is_none();
    flow.receiver = Some(report.summary);
    test.end(flow);
    Ok(completion(test, lost))
}

fn completion(test: &Test<'_>, lost: Option<String>) -> Completion {
    match lost {
        Some(lost) => Completion::ServerLost(format!("{} {lost}", test.server())),
        None if test.stop.load(Ordering::Relaxed) => Completion::Interrupted,
        None => Completion::Complete,
    }
}

/// A TCP socket whose port is known before it connects.
fn bound_tcp(test: &Test<'_>) -> Result<(Socket, u16), PathError> {
    let from = tcp_source(test).unwrap_or_else(|| SocketAddr::new(test.control.local().ip(), 0));
    let open = || {
        let socket = Socket::new(Domain::for_address(from), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&from.into())?;
        let port = socket.local_addr()?.as_socket().map_or(0, |at| at.port());
        Ok((socket, port))
    };
    open().map_err(|e: std::io::Error| PathError::os(format!("bind the test connection to TCP {from}"), e))
}

/// Where test packets are received.
enum Receiver {
    Udp(TestSocket),
    Tcp(TestListener),
}

impl Receiver {
    fn bind(transport: Transport, here: SocketAddr) -> Result<(Self, u16), PathError> {
        Ok(match transport {
            Transport::Udp => {
                // On one host with a server of the same user, that has the port too.
                let socket = TestSocket::udp(here, true)?;
                let port = socket.local_address()?.port();
                (Self::Udp(socket), port)
            }
            Transport::Tcp => {
                let listener = TestListener::bind(here)?;
                let port = listener.local_address()?.port();
                (Self::Tcp(listener), port)
            }
        })
    }

    fn accept(self, test: &Test<'_>) -> Result<Option<TestSocket>, PathError> {
        let server = test.server().ip();
        match self {
            Self::Udp(socket) => Ok(Some(socket)),
            Self::Tcp(listener) => {
                let left = test.answer_due().saturating_duration_since(Instant::now());
                Ok(listener.accept(left, test.stop, |from| from.ip() == server)?)
            }
        }
    }
}
