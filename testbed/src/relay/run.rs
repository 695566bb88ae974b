//! A running relay.

use super::report::{Keep, Report};
use super::script::Script;
use super::tcp::{Connections, Door, forward};
use super::udp::{Carrier, socket};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// Where a relay stands and what it does.
pub struct RelayOptions {
    /// Address that clients take for the server.
    pub listen: IpAddr,
    /// Port of control connections; 0 lets the system choose.
    pub control_port: u16,
    /// Port of test packets, UDP and TCP; 0 lets the system choose. Where it is not the server's, the relay puts it
    /// into the server's answers, which cannot be done where these carry a key's code.
    pub test_port: u16,
    /// The server's port of control connections; without it no connections are forwarded.
    pub server_control: Option<SocketAddr>,
    /// The server's port of test packets.
    pub server_test: SocketAddr,
    /// What is done to which packets.
    pub script: Script,
    /// Where records go.
    pub keep: Keep,
}

/// A running relay. Dropping it stops it.
pub struct Relay {
    control: Option<SocketAddr>,
    test: SocketAddr,
    wakes: Vec<UnixStream>,
    connections: Connections,
    carrier: Option<JoinHandle<io::Result<Report>>>,
    forwarder: Option<JoinHandle<()>>,
}

fn failed_to(what: &str) -> impl FnOnce(io::Error) -> io::Error + '_ {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// How often the system is asked for a port that is free for UDP and TCP.
const MOST_PORTS: usize = 100;

/// The port of test packets: UDP and, where it is wanted, TCP. Where any port will do, what the system gives for UDP may be
/// taken for TCP, by a connection of somebody else; then the next one is asked for.
fn test_ports(address: SocketAddr, with_tcp: bool) -> io::Result<(UdpSocket, Option<TcpListener>)> {
    let mut passed = Vec::new();
    loop {
        let udp = socket(address).map_err(failed_to("relay: UDP port of test packets"))?;
        let listener = with_tcp.then(|| TcpListener::bind(udp.local_addr()?)).transpose();
        match listener {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse
                    && address.port() == 0
                    && passed.len() < MOST_PORTS =>
            {
                // Held until one is found, so that the system gives another.
                passed.push(udp);
            }
            listener => return Ok((udp, listener.map_err(failed_to("relay: TCP port of test packets"))?)),
        }
    }
}

impl Relay {
    /// Starts to carry.
    ///
    /// # Errors
    /// An address that cannot be listened on.
    pub fn start(options: RelayOptions) -> io::Result<Self> {
        let RelayOptions { listen, control_port, test_port, server_control, server_test, script, keep } =
            options;
        // The server must see connections and packets come from one address.
        let from = (!listen.is_unspecified() && listen.is_ipv4() == server_test.is_ipv4()).then_some(listen);
        let (clients, listener) = test_ports((listen, test_port).into(), server_control.is_some())?;
        let test = clients.local_addr()?;
        let mut doors = Vec::new();
        if let Some((server, test_listener)) = server_control.zip(listener) {
            let ports = Some((server_test.port(), test.port()));
            let listener = TcpListener::bind((listen, control_port)).map_err(failed_to("relay: TCP port"))?;
            doors.push(Door { listener, server, ports });
            doors.push(Door { listener: test_listener, server: server_test, ports: None });
        }
        let control = doors.first().map(|door| door.listener.local_addr()).transpose()?;
        let (udp_wake, wake) = UnixStream::pair()?;
        let carrier = Carrier { clients, server: server_test, from, script, keep, wake };
        let carrier = std::thread::Builder::new().name("relay-udp".into()).spawn(|| carrier.carry())?;
        let mut relay = Self {
            control,
            test,
            wakes: vec![udp_wake],
            connections: Connections::default(),
            carrier: Some(carrier),
            forwarder: None,
        };
        if !doors.is_empty() {
            let (tcp_wake, wake) = UnixStream::pair()?;
            relay.wakes.push(tcp_wake);
            let connections = relay.connections.clone();
            let forwarder = std::thread::Builder::new().name("relay-accept".into());
            relay.forwarder = Some(forwarder.spawn(move || forward(&doors, from, &connections, &wake))?);
        }
        Ok(relay)
    }

    /// Where clients connect to; none without a server's control port.
    pub fn control_address(&self) -> Option<SocketAddr> {
        self.control
    }

    /// Where clients send test packets to.
    pub fn test_address(&self) -> SocketAddr {
        self.test
    }

    /// Ends all TCP connections at once, as if the path had been cut for them.
    pub fn cut_connections(&self) {
        self.connections.cut();
    }

    /// Stops; what happened.
    ///
    /// # Errors
    /// What ended the carrying of datagrams before, such as a full disk under the log.
    pub fn stop(mut self) -> io::Result<Report> {
        self.end().unwrap_or_else(|| Err(io::Error::other("relay: the thread of datagrams panicked")))
    }

    fn end(&mut self) -> Option<io::Result<Report>> {
        for mut wake in self.wakes.drain(..) {
            // A thread that has ended needs no waking.
            let _ = wake.write_all(b"!");
        }
        if let Some(forwarder) = self.forwarder.take() {
            // A panic there was printed already.
            let _ = forwarder.join();
        }
        self.connections.cut();
        self.carrier.take()?.join().ok()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end();
    }
}
