//! Network traffic that is not the followed stream, processed by the softirq of the sink's CPU.

use super::{Injection, schedule};
use crate::phase;
use std::io;
use std::net::UdpSocket;
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

/// Sends bursts of `burst` packets each `period_ns` from `sender_cpu` over loopback, steered to `cpu`.
pub fn steered(cpu: u16, sender_cpu: u16, burst: u32, period_ns: u64) -> io::Result<Injection> {
    let steering = Steering::to_cpu(cpu)?;
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    Injection::spawn("inject-traffic", move |stop| {
        schedule::bind(0, sender_cpu).expect("the truth run starts with a CPU that exists");
        let _kept = (steering, receiver);
        let mut next = phase::now_ns();
        while !stop.load(Ordering::Relaxed) {
            next += period_ns;
            phase::sleep_until(next);
            if phase::is_on(next) {
                for _ in 0..burst {
                    // Nobody reads: the socket buffer is full after a moment, and dropping is work enough.
                    let _ = sender.send(&[0; 1024]);
                }
            }
        }
    })
}
