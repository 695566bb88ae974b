//! Jitlat as its document has it (sections 4.2 and 4.3). Such a peer cannot show that it wants the packets, so it
//! is served only on request, within caps, and only at the address of its control connection.

use super::break_off::Break;
use super::extended::give_up_after;
use super::session::Session;
use super::turns::Turn;
use crate::control;
use crate::control::{Incoming, at_port};
use crate::drive;
use crate::drive::Happening;
use crate::limits::{Demand, FlowRequest, No};
use crate::outcome::Protocol;
use crate::room::Room;
use quaver_abi::wire::extension::Refusal;
use quaver_abi::wire::jitlat::{
    Command, PROTO_TCP, PROTO_UDP, SINGLETON_BYTES, TEST_PACKET_BYTES, Workorder,
};
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::{
    AcceptFrom, FlowSchedule, FlowSpec, Received, TestListener, TestSocket, Transport, prepare_receive,
};
use socket2::{Domain, Socket, Type};
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A flow gets so many times the silence without any packet, as in the extension.
const PATIENCE: u32 = 4;
/// How often a test connection, or a first packet, is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// Serves the test that this workorder asks for.
pub(super) fn serve(session: &mut Session<'_>, workorder: Workorder) -> Result<(), Break> {
    let flow = judge(session, &workorder)?;
    let up = workorder.command == Command::Sending;
    let request = flow_request(&flow.schedule, &workorder, up);
    let demand = Demand { legacy: true, ..session.limits().demand(&request) };
    let turn = session.turn(demand, true)?;
    let what = format!(
        "{} packets of {} bytes, {} ns apart, by {}",
        workorder.npkts,
        workorder.pktlen,
        workorder.period_ns,
        if flow.transport == Transport::Udp { "UDP" } else { "TCP" }
    );
    match workorder.command {
        Command::Sending => receive(session, workorder, flow, what, turn),
        _ => send(session, workorder, &flow, what, turn),
    }
}

/// What of a workorder counts: not its addresses, which anybody may write there.
fn judge(session: &Session<'_>, workorder: &Workorder) -> Result<FlowSpec, No> {
    let options = &session.shared.options;
    let no = |refusal, sentence: &str| Err((refusal, sentence.to_owned()));
    if !options.legacy {
        return no(Refusal::Unsupported, "speaks Jitlat as its document has it, and --legacy was not given");
    }
    if options.key.is_some() {
        return no(Refusal::Unsupported, "speaks Jitlat as its document has it, which cannot bear the key");
    }
    if !session.peer().is_ipv4() {
        return no(Refusal::Unsupported, "Jitlat as its document has it knows only IPv4");
    }
    let transport = match workorder.proto {
        PROTO_UDP => Transport::Udp,
        PROTO_TCP => Transport::Tcp,
        _ => return no(Refusal::Unsupported, "the test packets are neither UDP nor TCP"),
    };
    let Workorder { npkts, pktlen, period_ns, dst_port, src_port, dscp, .. } = *workorder;
    if npkts == 0 || period_ns == 0 || dscp > 63 {
        return no(Refusal::Malformed, "no packets, no period, or a DSCP above 63");
    }
    if (pktlen as usize) < TEST_PACKET_BYTES {
        return no(Refusal::Size, "packets of fewer than 12 bytes");
    }
    let least_port = options.limits.legacy.least_port;
    if dst_port < least_port {
        return Err((Refusal::Unsupported, format!("test packets to port {dst_port}, below {least_port}")));
    }
    if src_port != 0 && src_port < least_port {
        return Err((Refusal::Unsupported, format!("test packets from port {src_port}, below {least_port}")));
    }
    let up = workorder.command == Command::Sending;
    let schedule = FlowSchedule::every(period_ns);
    let asked = flow_request(&schedule, workorder, up);
    options.limits.for_legacy().admit(&asked)?;
    let packets = asked.packets;
    let silence_ns = u64::try_from(options.limits.silence.as_nanos()).unwrap_or(u64::MAX);
    Ok(FlowSpec {
        transport,
        stamps: options.stamps,
        pace: options.pace,
        thread: options.thread.clone(),
        accept_from: drive::accept_from(transport, session.peer_ip()),
        end_timeout_ns: silence_ns,
        sentinel_timeout_ns: silence_ns,
        segments: false,
        ..FlowSpec::new(pktlen, packets, schedule)
    })
}

fn flow_request<'a>(
    schedule: &'a FlowSchedule,
    workorder: &Workorder,
    received_here: bool,
) -> FlowRequest<'a> {
    let packets = Some(u64::from(workorder.npkts));
    FlowRequest { packet_bytes: workorder.pktlen, packets, schedule, rolling: false, received_here }
}

/// SENDING: the client sends.
fn receive(
    session: &mut Session<'_>,
    mut workorder: Workorder,
    mut flow: FlowSpec,
    what: String,
    turn: Turn,
) -> Result<(), Break> {
    let at = session.here(workorder.dst_port);
    workorder.command = Command::Ack;
    let socket = if flow.transport == Transport::Udp {
        // Any other port must be free: one that a service of this host has is never shared.
        let socket = TestSocket::udp(at, workorder.dst_port == session.test_port)?;
        // Connected to port 0 of a host, a socket receives from all its ports, and before the lobby's.
        socket.connect(at_port(session.peer(), workorder.src_port))?;
        prepare_receive(&socket, &flow)?;
        session.control.say_workorder(&workorder, session.silence())?;
        if workorder.src_port == 0 {
            // The sender's system fills it in (4.3.2), and here its first packet tells.
            flow.accept_from = AcceptFrom::Socket(first_packet(session, &socket)?);
        }
        socket
    } else {
        let listener = TestListener::bind(at)?;
        session.control.say_workorder(&workorder, session.silence())?;
        session.connection(&listener, None)?
    };
    let flow = &flow;
    session.started(Protocol::Legacy, Direction::Up, what);
    let (limits, shared) = (session.limits().clone(), session.shared);
    let mut room = Room::of(&limits, flow);
    let patience = patience(session, flow);
    let mut progress = Instant::now();
    let end = Instant::now() + limits.duration + limits.silence * 2;
    let (mut rows, mut broken) = (Vec::<Received>::new(), None);
    let report = drive::receive(&mut session.control, &socket, flow, &mut |happening, control, signals| {
        match happening {
            Happening::Batch(batch) => {
                progress = Instant::now();
                rows.extend(batch.iter().filter(|row| room.has(row.singleton.flags)).copied());
            }
            Happening::Heard(_) => broken = Some(Break::Hostile("spoke while its test ran".into())),
            Happening::Gone(error) => broken = Some(error.into()),
            Happening::Tick => {}
        }
        if shared.stop.load(Ordering::Relaxed) {
            broken = Some(Break::Ending);
        }
        if room.is_overdrawn {
            broken = Some(Break::Hostile("sent more packets than it had asked for".into()));
        }
        if broken.is_some() {
            control.deafen();
        }
        let now = Instant::now();
        if broken.is_some() || now >= end || now >= progress + patience {
            signals.end();
        }
    })?;
    // Others may measure while the rows are told.
    drop(turn);
    session.ended(Direction::Up, report.summary.received);
    if let Some(broken) = broken {
        return Err(broken);
    }
    workorder.command = Command::Samples;
    session.control.say_workorder(&workorder, limits.silence)?;
    let octets = (rows.len() * SINGLETON_BYTES) as u64;
    let end = Instant::now() + control::patience(octets, limits.silence);
    for rows in rows.chunks(1_000) {
        let octets: Vec<u8> = rows.iter().flat_map(|row| row.singleton.to_octets()).collect();
        session.control.write_by(&octets, end)?;
    }
    Ok(())
}

/// How long a flow may be without a packet: longer than its packets are apart.
fn patience(session: &Session<'_>, flow: &FlowSpec) -> Duration {
    let apart = Duration::from_nanos(flow.schedule.mean_period_ns().saturating_mul(20));
    session.silence().saturating_mul(PATIENCE).saturating_add(apart)
}

/// Waits for the first packet and leaves it there; from then on only its port counts.
fn first_packet(session: &mut Session<'_>, socket: &TestSocket) -> Result<SocketAddr, Break> {
    let end = Instant::now() + session.silence();
    loop {
        let mut octets = [MaybeUninit::uninit(); 1];
        match socket.socket().recv_from_with_flags(&mut octets, libc::MSG_PEEK | libc::MSG_DONTWAIT) {
            Ok((_, from)) => {
                let from =
                    from.as_socket().ok_or_else(|| Break::Failed("a packet without address".into()))?;
                socket.connect(from)?;
                return Ok(from);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => session.wait_for_arrival(end, LOOK)?,
            // The answer to something that was sent from here before; the next call works again.
            Err(_) => session.idle(Some(LOOK))?,
        }
    }
}

/// SEND_ME: the client wants packets.
fn send(
    session: &mut Session<'_>,
    mut workorder: Workorder,
    flow: &FlowSpec,
    what: String,
    turn: Turn,
) -> Result<(), Break> {
    let to = at_port(session.peer(), workorder.dst_port);
    let from = session.here(workorder.src_port);
    let sender = Sender::bind(flow.transport, from, workorder.src_port == session.test_port)?;
    workorder.command = Command::Sending;
    workorder.src_port = sender.port()?;
    if let (IpAddr::V4(here), IpAddr::V4(there)) = (from.ip(), to.ip()) {
        (workorder.src_ip, workorder.dst_ip) = (here, there);
    }
    session.control.say_workorder(&workorder, session.silence())?;
    match session.hear()? {
        Incoming::Workorder(answer) if answer.command == Command::Ack => {}
        Incoming::Workorder(answer) if answer.command == Command::Nak => {
            return Err(Break::Lost("refused our SENDING with NAK".into()));
        }
        _ => return Err(Break::Hostile("answered SENDING with neither ACK nor NAK".into())),
    }
    let mut turn = Some(turn);
    let socket = sender.connect(session, to, &mut turn)?;
    give_up_after(&socket, patience(session, flow));
    socket.set_dscp(workorder.dscp as u8)?;
    session.started(Protocol::Legacy, Direction::Down, what);
    let (limits, shared) = (session.limits().clone(), session.shared);
    let end = Instant::now() + limits.duration + limits.silence;
    let mut broken = None;
    let report = drive::send(&mut session.control, &socket, flow, &mut |happening, control, signals| {
        match happening {
            Happening::Heard(Incoming::Workorder(answer))
                if answer.command == Command::Ack && !signals.acknowledged.load(Ordering::Relaxed) =>
            {
                signals.acknowledged.store(true, Ordering::Relaxed);
            }
            Happening::Heard(Incoming::Workorder(answer)) if answer.command == Command::Nak => {
                broken = Some(Break::Lost("ended the test with NAK".into()));
            }
            Happening::Heard(_) => broken = Some(Break::Hostile("spoke while its test ran".into())),
            // The document's client closes right after its ACK, and then all is well.
            Happening::Gone(_) if signals.acknowledged.load(Ordering::Relaxed) => {}
            Happening::Gone(error) => broken = Some(error.into()),
            Happening::Batch(_) | Happening::Tick => {}
        }
        if shared.stop.load(Ordering::Relaxed) {
            broken = Some(Break::Ending);
        }
        if broken.is_some() {
            control.deafen();
        }
        if broken.is_some() || Instant::now() >= end {
            signals.acknowledged.store(true, Ordering::Relaxed);
            signals.end();
        }
    })?;
    session.ended(Direction::Down, report.summary.packets);
    broken.map_or(Ok(()), Err)
}

/// The sender's socket before its peer may be called: its port is known, no packet was sent.
enum Sender {
    Udp(TestSocket),
    Tcp(Socket),
}

impl Sender {
    fn bind(transport: Transport, from: SocketAddr, share_port: bool) -> Result<Self, Break> {
        if transport == Transport::Udp {
            return Ok(Self::Udp(TestSocket::udp(from, share_port)?));
        }
        let open = || {
            let socket = Socket::new(Domain::for_address(from), Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&from.into())?;
            Ok(socket)
        };
        open().map(Self::Tcp).map_err(|e: std::io::Error| Break::Failed(format!("bind TCP {from}: {e}")))
    }

    fn port(&self) -> Result<u16, Break> {
        match self {
            Self::Udp(socket) => Ok(socket.local_address()?.port()),
            Self::Tcp(socket) => {
                let at = socket.local_addr().map_err(|e| Break::Failed(format!("read a port: {e}")))?;
                Ok(at.as_socket().map_or(0, |at| at.port()))
            }
        }
    }

    /// Calls the peer. Whether its host refuses the port, filters it or is slow, the answer is the same and comes at
    /// the same time, so that nobody can look for open ports through us; others need not wait for it.
    fn connect(
        self,
        session: &mut Session<'_>,
        to: SocketAddr,
        turn: &mut Option<Turn>,
    ) -> Result<TestSocket, Break> {
        let socket = match self {
            Self::Udp(socket) => {
                socket.connect(to)?;
                return Ok(socket);
            }
            Self::Tcp(socket) => socket,
        };
        let failed = |e: std::io::Error| Break::Failed(format!("call {to}: {e}"));
        let end = Instant::now() + session.silence();
        socket.set_nonblocking(true).map_err(failed)?;
        let mut refused = socket
            .connect(&to.into())
            .is_err_and(|e| e.kind() != ErrorKind::WouldBlock && e.raw_os_error() != Some(libc::EINPROGRESS));
        while Instant::now() < end {
            refused = refused || socket.take_error().map_err(failed)?.is_some();
            if refused {
                *turn = None;
            } else if socket.peer_addr().is_ok() {
                return Ok(TestSocket::from_socket(socket, Transport::Tcp)?);
            }
            session.idle(Some(LOOK))?;
        }
        Err(Break::Lost("does not take the test connection".into()))
    }
}
