//! Moves datagrams between the clients' sockets and the server through the lanes.

use super::lane::{Lane, Leaving};
use super::log::Record;
use super::report::{Keep, Report};
use super::script::Script;
use quaver_arrivals::path::direction::Direction;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Room in each socket for packets that come faster than they are carried.
const BUFFER_BYTES: usize = 32 << 20;
/// Datagrams taken from one socket before the others and the lanes have their turn.
const MOST_AT_ONCE: usize = 64;
/// Flows beyond these are not served.
const MOST_FLOWS: usize = 1024;

/// A socket that can be polled, with a large buffer.
pub(super) fn socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address)?;
    socket.set_nonblocking(true)?;
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES)?;
    }
    Ok(socket)
}

/// Packets that the kernel dropped at this socket for want of buffer (`SO_MEMINFO`).
fn unread(socket: &UdpSocket) -> u32 {
    /// Position of the drop counter in the answer.
    const SK_MEMINFO_DROPS: usize = 8;
    let mut numbers = [0_u32; 9];
    let mut octets = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: `numbers` and `octets` are valid for writing, and the kernel writes no more than `octets`.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut octets,
        )
    };
    if outcome == 0 { numbers[SK_MEMINFO_DROPS] } else { 0 }
}

/// The packets of one client's socket.
struct Flow {
    client: SocketAddr,
    server: UdpSocket,
    up: Lane,
    down: Lane,
}

/// The thread that carries datagrams.
pub(super) struct Carrier {
    pub(super) clients: UdpSocket,
    pub(super) server: SocketAddr,
    pub(super) from: Option<IpAddr>,
    pub(super) script: Script,
    pub(super) keep: Keep,
    pub(super) wake: UnixStream,
}

struct Carrying {
    this: Carrier,
    start: Instant,
    flows: Vec<Flow>,
    by_client: HashMap<SocketAddr, usize>,
    report: Report,
    room: Box<[u8]>,
}

impl Carrier {
    /// Carries until something can be read from `wake`; what happened.
    pub(super) fn carry(self) -> io::Result<Report> {
        let mut carrying = Carrying {
            this: self,
            start: Instant::now(),
            flows: Vec::new(),
            by_client: HashMap::new(),
            report: Report::default(),
            room: vec![0; 1 << 16].into(),
        };
        while carrying.wait()? {
            carrying.take_in()?;
            carrying.send_on();
            carrying.write_down(false)?;
        }
        carrying.write_down(true)?;
        let Carrying { this, flows, mut report, .. } = carrying;
        let sockets = flows.iter().map(|flow| &flow.server).chain([&this.clients]);
        report.unread = sockets.map(|socket| u64::from(unread(socket))).sum();
        if let Keep::Lines(mut lines) = this.keep {
            lines.flush()?;
        }
        Ok(report)
    }
}

impl Carrying {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Waits until there is something to do; false when the relay is to stop.
    fn wait(&self) -> io::Result<bool> {
        let lanes = self.flows.iter().flat_map(|flow| [&flow.up, &flow.down]);
        let timeout = lanes.filter_map(Lane::next_ns).min().map(|next| {
            let wait_ns = next.saturating_sub(self.now_ns());
            Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as i64 }
        });
        let sockets = self.flows.iter().map(|flow| &flow.server).chain([&self.this.clients]);
        let mut fds = vec![PollFd::new(&self.this.wake, PollFlags::IN)];
        fds.extend(sockets.map(|socket| PollFd::new(socket, PollFlags::IN)));
        match poll(&mut fds, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(fds[0].revents().is_empty()),
        }
    }

    fn take_in(&mut self) -> io::Result<()> {
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let utc_ns = utc.as_nanos() as i64;
        for _ in 0..MOST_AT_ONCE {
            let Some((octets, client)) = taken(self.this.clients.recv_from(&mut self.room)) else { break };
            let flow = match self.by_client.get(&client) {
                Some(flow) => *flow,
                None if self.flows.len() < MOST_FLOWS => self.open(client)?,
                None => {
                    self.report.refused += 1;
                    continue;
                }
            };
            let now_ns = self.now_ns();
            self.flows[flow].up.arrive(&self.room[..octets], now_ns, utc_ns);
        }
        let start = self.start;
        for flow in &mut self.flows {
            for _ in 0..MOST_AT_ONCE {
                let Some(octets) = taken(flow.server.recv(&mut self.room)) else { break };
                flow.down.arrive(&self.room[..octets], start.elapsed().as_nanos() as u64, utc_ns);
            }
        }
        Ok(())
    }

    fn open(&mut self, client: SocketAddr) -> io::Result<usize> {
        let any = if self.this.server.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
        let server = socket(SocketAddr::from((self.this.from.unwrap_or(any), 0)))?;
        server.connect(self.this.server)?;
        let number = self.flows.len();
        let lane = |direction| Lane::new(&self.this.script, number as u32, direction);
        let (up, down) = (lane(Direction::Up), lane(Direction::Down));
        self.flows.push(Flow { client, server, up, down });
        self.by_client.insert(client, number);
        self.report.clients.push(client);
        Ok(number)
    }

    fn send_on(&mut self) {
        let start = self.start;
        let clients = &self.this.clients;
        for Flow { client, server, up, down } in &mut self.flows {
            let_leave(up, start, |octets| sent(server, || server.send(octets)));
            let_leave(down, start, |octets| sent(clients, || clients.send_to(octets, *client)));
        }
    }

    /// Moves the records whose story has ended to where they are kept.
    fn write_down(&mut self, at_end: bool) -> io::Result<()> {
        for flow in &mut self.flows {
            for lane in [&mut flow.up, &mut flow.down] {
                while let Some(record) = lane.take_record(at_end) {
                    self.report.totals.add(&record);
                    keep(&mut self.this.keep, record, &mut self.report.records)?;
                }
            }
        }
        Ok(())
    }
}

fn keep(keep: &mut Keep, record: Record, records: &mut Vec<Record>) -> io::Result<()> {
    match keep {
        Keep::Totals => {}
        Keep::Memory => records.push(record),
        Keep::Lines(lines) => {
            let mut line = serde_json::to_vec(&record)?;
            line.push(b'\n');
            lines.write_all(&line)?;
        }
    }
    Ok(())
}

/// Sends all that leaves the lane now.
fn let_leave(lane: &mut Lane, start: Instant, mut send: impl FnMut(&[u8]) -> bool) {
    while let Some(leaving) = lane.leave(start.elapsed().as_nanos() as u64) {
        let Leaving { octets, .. } = &leaving;
        if !send(octets) {
            lane.failed(&leaving);
        }
    }
}

/// What was received. An error is that of an earlier packet, or that there is nothing.
fn taken<T>(received: io::Result<T>) -> Option<T> {
    received.ok()
}

/// Sends; whether the kernel took it.
fn sent(socket: &UdpSocket, mut send: impl FnMut() -> io::Result<usize>) -> bool {
    // Once more after an error: it may be that of an earlier packet which nobody wanted.
    for _ in 0..2 {
        match send() {
            Ok(_) => return true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // An error shows at the next try.
                let _ = poll(&mut [PollFd::new(socket, PollFlags::OUT)], None);
            }
            Err(_) => {}
        }
    }
    false
}
