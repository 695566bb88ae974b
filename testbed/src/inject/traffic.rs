//! Network traffic that is not the followed stream, processed by the softirq of the sink's CPU.

use super::{Injection, schedule};
use crate::phase;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Receive packet steering of the loopback device, put back when dropped.
struct Steering {
    file: PathBuf,
    before: String,
}

impl Steering {
    fn to_cpu(cpu: u16) -> io::Result<Self> {
        let file = Path::new("/sys/class/net/lo/queues/rx-0/rps_cpus").to_owned();
        let before = std::fs::read_to_string(&file)?;
        std::fs::write(&file, format!("{:x}", 1_u64 << cpu))?;
        Ok(Self { file, before })
    }
}

impl Drop for Steering {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(&self.file, self.before.trim()) {
            eprintln!("truth: putting back {}: {error}", self.file.display());
        }
    }
}

/// A group of the administratively scoped block (RFC 2365), used on loopback only.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 77, 1);
/// Sockets that each packet is delivered to: work for the softirq of the receiving CPU at little cost to the sender.
const MEMBERS: usize = 256;

fn member(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from(SocketAddrV4::new(GROUP, port)).into())?;
    socket.join_multicast_v4(&GROUP, &Ipv4Addr::LOCALHOST)?;
    Ok(socket)
}

/// Sends bursts of `burst` packets each `period_ns` from `sender_cpu` to a group of many sockets on loopback, steered
/// to `cpu`.
pub fn steered(cpu: u16, sender_cpu: u16, burst: u32, period_ns: u64) -> io::Result<Injection> {
    let steering = Steering::to_cpu(cpu)?;
    let first = member(0)?;
    let port = first.local_addr()?.as_socket().map_or(0, |address| address.port());
    let mut members = vec![first];
    for _ in 1..MEMBERS {
        members.push(member(port)?);
    }
    let sender = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    sender.set_multicast_if_v4(&Ipv4Addr::LOCALHOST)?;
    sender.connect(&SocketAddr::from(SocketAddrV4::new(GROUP, port)).into())?;
    Injection::spawn("inject-traffic", move |stop| {
        schedule::bind(0, sender_cpu).expect("the truth run starts with a CPU that exists");
        let _kept = (steering, members);
        let mut next = phase::now_ns();
        while !stop.load(Ordering::Relaxed) {
            next += period_ns;
            phase::sleep_until(next);
            if phase::is_on(next) {
                for _ in 0..burst {
                    // Nobody reads: the sockets' buffers are full after a while, and dropping is work enough.
                    let _ = sender.send(&[0; 64]);
                }
            }
        }
    })
}
