//! The server: one thread that lets peers in and looks at the test port, one for each session that was let in, and
//! one for the test packets of the session whose turn it is.

mod break_off;
mod door;
mod extended;
mod legacy;
mod lobby;
mod log;
mod recording;
mod roaming;
mod service;
mod session;
mod turns;

use super::control::{Control, LONGEST_WAIT};
use super::error::PathError;
use super::event::ServerEvent;
use super::hosts::Side;
use super::options::ServerOptions;
use super::owamp::Dialect;
use door::{Admission, Door};
use lobby::{Expectations, Lobby, bound};
use log::Log;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use socket2::{Protocol, Type};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};
use turns::Turns;

/// Connections taken in one go; the rest waits with the kernel until others had their turn.
const MOST_AT_ONCE: usize = 64;
/// And in one such time, however many come: letting in costs processor time that a running test may need.
const ACCEPT_WINDOW: Duration = Duration::from_millis(100);
/// Connections that the kernel keeps for us.
const BACKLOG: i32 = 256;

/// What sessions share.
struct Shared {
    options: ServerOptions,
    turns: Turns,
    expectations: Expectations,
    stop: Arc<AtomicBool>,
    wake: OwnedFd,
}

impl Shared {
    /// Makes the thread at the door look again.
    fn wake(&self) {
        // Full means that it has not yet heard of earlier ones, and so will look.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// One address that is listened on.
struct Gate {
    control: TcpListener,
    speaks: Speaks,
}

/// What is spoken behind a gate.
enum Speaks {
    /// Jitlat and the extension, whose test packets come to one port.
    Quaver { lobby: Lobby, test_port: u16 },
    /// OWAMP-Control or TWAMP-Control.
    Other(Dialect),
}

/// Serves until `stop` is set. Sessions that are under way are then ended and their peers told; `on_event` is
/// called on the calling thread.
///
/// # Errors
/// When no address can be listened on.
pub fn serve(
    options: ServerOptions,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(ServerEvent),
) -> Result<(), PathError> {
    let figures = options.figures.clone();
    let mut log = Log::new(on_event, figures.clone());
    let mut gates = open_gates(&options, &mut log)?;
    let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
        .map_err(|e| PathError::os("make an event of the server", e))?;
    let shared = Shared {
        turns: Turns::new(options.limits.budget, options.limits.queue, options.limits.tests_per_peer),
        options,
        expectations: Expectations::default(),
        stop: Arc::default(),
        wake,
    };
    let (events, arriving) = channel();
    std::thread::scope(|scope| {
        let mut porter = Porter { shared: &shared, door: Door::new(), events, window: Window::new() };
        while !stop.load(Ordering::Relaxed) {
            wait(&gates, &porter);
            let mut count = [0u8; 8];
            let _ = rustix::io::read(&shared.wake, &mut count);
            for gate in &mut gates {
                porter.let_in(scope, gate, &mut log);
                if let Speaks::Quaver { lobby, .. } = &mut gate.speaks {
                    lobby.look(&shared.expectations);
                }
            }
            tell(&arriving, &mut log);
            figures.change(|figures| shared.turns.show(figures));
        }
        shared.stop.store(true, Ordering::Relaxed);
        drop(porter);
        // Ends when the last session has dropped its sender.
        arriving.iter().for_each(|event| log.tell(event));
    });
    log.finish();
    Ok(())
}

fn tell(arriving: &Receiver<ServerEvent>, log: &mut Log<'_>) {
    arriving.try_iter().for_each(|event| log.tell(event));
    log.tick();
}

fn open_gates(options: &ServerOptions, log: &mut Log<'_>) -> Result<Vec<Gate>, PathError> {
    let (mut gates, mut closed) = (Vec::<Gate>::new(), Vec::new());
    let (mut control_port, mut test_port) = (options.control_port, options.test_port);
    for &address in &options.listen {
        match open_gate(address, control_port, test_port) {
            Ok((gate, control, test)) => {
                log.tell(ServerEvent::Listening { control, test });
                gates.push(gate);
                // Ports that the system chose are the same at all addresses.
                (control_port, test_port) = (control.port(), test.port());
            }
            Err(error) => closed.push((address, error)),
        }
    }
    where_one_is_open(&gates, closed, log)?;
    let others = [(options.owamp_port, Dialect::Owamp), (options.twamp_port, Dialect::Twamp)];
    for (port, dialect) in others.into_iter().filter_map(|(port, dialect)| Some((port?, dialect))) {
        for gate in open_others(options, port, dialect, log)? {
            gates.push(gate);
        }
    }
    if gates.is_empty() {
        return Err(PathError::Options("no address to listen on was given".into()));
    }
    Ok(gates)
}

/// Says which addresses stay closed where another is open. Where none is, the last of them is the error, said once.
fn where_one_is_open(
    gates: &[Gate],
    mut closed: Vec<(IpAddr, PathError)>,
    log: &mut Log<'_>,
) -> Result<(), PathError> {
    if gates.is_empty() {
        return closed.pop().map_or(Ok(()), |(_, error)| Err(error));
    }
    for (address, error) in closed {
        log.tell(ServerEvent::NotListening { address, reason: error.to_string() });
    }
    Ok(())
}

fn open_gate(
    address: IpAddr,
    control_port: u16,
    test_port: u16,
) -> Result<(Gate, SocketAddr, SocketAddr), PathError> {
    let (control, at) = listen((address, control_port).into())?;
    let lobby = Lobby::open((address, test_port).into())?;
    let test = lobby.address()?;
    Ok((Gate { control, speaks: Speaks::Quaver { lobby, test_port: test.port() } }, at, test))
}

/// The gates of OWAMP-Control or TWAMP-Control, at all addresses that this host has.
fn open_others(
    options: &ServerOptions,
    mut port: u16,
    dialect: Dialect,
    log: &mut Log<'_>,
) -> Result<Vec<Gate>, PathError> {
    let (mut gates, mut closed) = (Vec::new(), Vec::new());
    for &address in &options.listen {
        match listen((address, port).into()) {
            Ok((control, at)) => {
                port = at.port();
                log.tell(ServerEvent::ListeningFor { protocol: dialect.name(), control: at });
                gates.push(Gate { control, speaks: Speaks::Other(dialect) });
            }
            Err(error) => closed.push((address, error)),
        }
    }
    where_one_is_open(&gates, closed, log)?;
    Ok(gates)
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), PathError> {
    let control = bound(address, Type::STREAM, Protocol::TCP)?;
    control.listen(BACKLOG).map_err(|e| PathError::os(format!("listen at TCP {address}"), e))?;
    let control: TcpListener = control.into();
    let at = control.local_addr().map_err(|e| PathError::os("read the control port", e))?;
    Ok((control, at))
}

/// Waits until there is something to do, at most [`LONGEST_WAIT`].
fn wait(gates: &[Gate], porter: &Porter<'_>) {
    let expectations = &porter.shared.expectations;
    let mut waited = vec![PollFd::new(&porter.shared.wake, PollFlags::IN)];
    for gate in gates {
        if porter.window.is_open() {
            waited.push(PollFd::new(&gate.control, PollFlags::IN));
        }
        if let Speaks::Quaver { lobby, .. } = &gate.speaks
            && expectations.are_urgent()
        {
            waited.push(PollFd::new(&lobby.socket, PollFlags::IN));
        }
    }
    let longest = Timespec { tv_sec: 0, tv_nsec: LONGEST_WAIT.subsec_nanos().into() };
    // Whatever it says, everything is looked at.
    let _ = poll(&mut waited, Some(&longest));
}

/// How many connections were taken lately.
struct Window {
    since: Instant,
    taken: usize,
}

impl Window {
    fn new() -> Self {
        Self { since: Instant::now(), taken: 0 }
    }

    fn is_open(&self) -> bool {
        self.taken < MOST_AT_ONCE || self.since.elapsed() >= ACCEPT_WINDOW
    }

    fn take(&mut self) -> bool {
        if self.since.elapsed() >= ACCEPT_WINDOW {
            *self = Self::new();
        }
        self.taken += 1;
        self.taken <= MOST_AT_ONCE
    }
}

/// Lets peers in.
struct Porter<'a> {
    shared: &'a Shared,
    door: Door,
    events: Sender<ServerEvent>,
    window: Window,
}

impl<'a> Porter<'a> {
    fn let_in<'scope>(&mut self, scope: &'scope Scope<'scope, '_>, gate: &Gate, log: &mut Log<'_>)
    where
        'a: 'scope,
    {
        while self.window.is_open() && self.window.take() {
            match gate.control.accept() {
                Ok((socket, peer)) => {
                    if let Err(reason) = self.seat(scope, socket, peer, &gate.speaks) {
                        log.tell(ServerEvent::TurnedAway { peer, reason });
                    }
                }
                Err(e) if matches!(e.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                // Nobody there, or no more descriptors: then those inside have to leave first.
                Err(_) => {
                    self.window.taken -= 1;
                    return;
                }
            }
        }
    }

    fn seat<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        socket: TcpStream,
        peer: SocketAddr,
        speaks: &Speaks,
    ) -> Result<(), String>
    where
        'a: 'scope,
    {
        let place = self.door.enter(peer.ip(), &self.shared.options.limits, Instant::now())?;
        let (shared, events) = (self.shared, self.events.clone());
        match *speaks {
            Speaks::Quaver { test_port, .. } => {
                let control = Control::new(socket, Side::Server);
                let mut control = control.map_err(|e| format!("cannot be served: {e}"))?;
                control.heed(Arc::clone(&self.shared.stop));
                inside(scope, shared, place, move || service::run(shared, control, test_port, &events))
            }
            Speaks::Other(dialect) => inside(scope, shared, place, move || {
                service::run_other(shared, socket, peer, dialect, &events);
            }),
        }
    }
}

/// Serves a session on a thread of its own.
fn inside<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared,
    place: Admission,
    serve: impl FnOnce() + Send + 'scope,
) -> Result<(), String> {
    let work = move || {
        let _place = place;
        serve();
        shared.wake();
    };
    let builder = std::thread::Builder::new().name("quaver-session".into()).stack_size(1 << 19);
    builder.spawn_scoped(scope, work).map(|_| ()).map_err(|e| format!("no thread for it: {e}"))
}
