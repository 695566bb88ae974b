//! Forwards TCP connections, so that the relay's address looks like the server's.

use super::control::Rewriter;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long the server may take to accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A place that connections come to, and the place they are forwarded to.
#[derive(Debug)]
pub(super) struct Door {
    pub(super) listener: TcpListener,
    pub(super) server: SocketAddr,
    /// Port of test packets that the server names, and the one that clients are to use instead.
    pub(super) ports: Option<(u16, u16)>,
}

/// The connections that are open, for [`Connections::cut`].
#[derive(Debug, Default, Clone)]
pub(super) struct Connections(Arc<Mutex<Vec<TcpStream>>>);

impl Connections {
    fn add(&self, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        Ok(())
    }

    /// Ends all connections at once, in both directions.
    pub(super) fn cut(&self) {
        for stream in self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Accepts at all doors until something can be read from `wake`.
pub(super) fn forward(doors: &[Door], from: Option<IpAddr>, connections: &Connections, wake: &UnixStream) {
    loop {
        let mut fds: Vec<PollFd<'_>> =
            doors.iter().map(|door| PollFd::new(&door.listener, PollFlags::IN)).collect();
        fds.push(PollFd::new(wake, PollFlags::IN));
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[doors.len()] {
            return;
        }
        for (door, _) in doors.iter().zip(&ready).filter(|(_, ready)| **ready) {
            if let Err(error) = accept(door, from, connections) {
                eprintln!("relay: a connection to {}: {error}", door.server);
            }
        }
    }
}

fn accept(door: &Door, from: Option<IpAddr>, connections: &Connections) -> io::Result<()> {
    let (client, _) = door.listener.accept()?;
    let (server, ports, connections) = (door.server, door.ports, connections.clone());
    std::thread::Builder::new().name("relay-tcp".into()).spawn(move || {
        if let Err(error) = join(client, server, ports, from, &connections) {
            eprintln!("relay: a connection to {server}: {error}");
        }
    })?;
    Ok(())
}

/// Connects to the server and carries bytes both ways until both have ended.
fn join(
    client: TcpStream,
    server: SocketAddr,
    ports: Option<(u16, u16)>,
    from: Option<IpAddr>,
    connections: &Connections,
) -> io::Result<()> {
    let domain = socket2::Domain::for_address(server);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
    if let Some(from) = from {
        socket.bind(&SocketAddr::from((from, 0)).into())?;
    }
    socket.connect_timeout(&server.into(), CONNECT_TIMEOUT)?;
    let server = TcpStream::from(socket);
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        connections.add(stream)?;
    }
    let (client_again, server_again) = (client.try_clone()?, server.try_clone()?);
    let back = std::thread::Builder::new()
        .name("relay-tcp".into())
        .spawn(move || carry(&server_again, &client_again, ports))?;
    carry(&client, &server, None);
    // A panic there was printed already.
    let _ = back.join();
    Ok(())
}

/// Carries bytes one way. An end is passed on as an end; a failure ends both ways.
fn carry(mut from: &TcpStream, mut to: &TcpStream, ports: Option<(u16, u16)>) {
    let mut rewriter = ports.map(|(server, relay)| Rewriter::new(server, relay));
    let mut room = vec![0; 1 << 16];
    let whole = loop {
        let octets = match from.read(&mut room) {
            Ok(octets) => &room[..octets],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break false,
        };
        let written = match &mut rewriter {
            Some(rewriter) if octets.is_empty() => to.write_all(&rewriter.end()),
            Some(rewriter) => to.write_all(&rewriter.pass(octets)),
            None => to.write_all(octets),
        };
        match (written, octets.is_empty()) {
            (Ok(()), false) => {}
            (Ok(()), true) => break true,
            (Err(_), _) => break false,
        }
    };
    // The other side may have ended already.
    let _ = to.shutdown(if whole { Shutdown::Write } else { Shutdown::Both });
    if !whole {
        let _ = from.shutdown(Shutdown::Both);
    }
}
