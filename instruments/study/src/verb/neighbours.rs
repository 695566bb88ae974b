//! What a factor lets run beside source and sink: a busy thread, a ticker, another stream.

use super::settings::{NeighbourWork, Settings};
use anyhow::Context;
use quaver_host::netns::Lab;
use quaver_probe::thread::{ThreadSettings, run_when_idle};
use quaver_waiting as waiting;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Priority of the ticker: above a sink of the usual 50.
const TICKER_FIFO: u8 = 80;
/// Bytes of a packet of the other stream.
const OTHER_BYTES: usize = 1_428;

/// Sockets that each packet of a neighbour with packets goes to.
const RECEIVERS: usize = 64;
/// The loopback network's broadcast address.
const LOOPBACK_BROADCAST: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);

/// Threads that end when this is dropped.
pub struct Neighbours {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Settings that the kernel refused to them.
    pub refused: Vec<String>,
    /// Receives the other stream; never read.
    _other: Option<UdpSocket>,
}

impl Neighbours {
    /// Starts what `settings` name; returns when all of it runs.
    pub fn start(settings: &Settings, lab: Option<&Lab>) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut all = Self { stop, threads: Vec::new(), refused: Vec::new(), _other: None };
        let on_sink = |fifo| ThreadSettings {
            cpu: Some(settings.sink_cpu),
            fifo,
            exact_timers: true,
            ..Default::default()
        };
        if settings.neighbour.is_some() {
            let thread = ThreadSettings { cpu: settings.neighbour, ..on_sink(None) };
            match settings.neighbour_work {
                NeighbourWork::Spin => all.spawn("quaver-busy", thread, |stop| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })?,
                NeighbourWork::Packets => {
                    let many = many_receivers(lab).context("opening the sockets of the busy neighbour")?;
                    all.spawn("quaver-busy", thread, move |stop| {
                        let (sender, to, _receivers) = many;
                        while !stop.load(Ordering::Relaxed) {
                            // What finds no room is dropped, after the stack's work.
                            let _ = sender.send_to(&[0; 64], to);
                        }
                    })?;
                }
            }
        }
        if settings.keep_busy {
            all.spawn("quaver-awake", on_sink(None), |stop| {
                // At any other priority it would take the CPU from the sink.
                let idle_class = run_when_idle().is_ok();
                while idle_class && !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })?;
        }
        if let Some((period, work)) = settings.ticker {
            all.spawn("quaver-ticker", on_sink(Some(TICKER_FIFO)), move |stop| {
                each(period, stop, || {
                    let start = Instant::now();
                    while start.elapsed() < work {
                        std::hint::spin_loop();
                    }
                });
            })?;
        }
        if let Some(period) = settings.other_traffic {
            let (sender, receiver) = other_stream(lab).context("opening the sockets of the other stream")?;
            let thread =
                ThreadSettings { cpu: Some(settings.source_cpu), exact_timers: true, ..Default::default() };
            all._other = Some(receiver);
            all.spawn("quaver-other", thread, move |stop| {
                let packet = [0u8; OTHER_BYTES];
                // Where its receiver's buffer is full the kernel drops it, which is all the same here.
                each(period, stop, || drop(sender.send(&packet)));
            })?;
        }
        Ok(all)
    }

    fn spawn(
        &mut self,
        name: &str,
        settings: ThreadSettings,
        body: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> anyhow::Result<()> {
        let stop = Arc::clone(&self.stop);
        let (tell, told) = sync_channel(1);
        let thread = waiting::start(name, move || {
            let refused = match settings.prepare() {
                Ok(thread) => thread.refused.iter().map(ToString::to_string).collect(),
                Err(refused) => vec![refused.to_string()],
            };
            let _ = tell.send(refused);
            body(&stop);
        });
        self.threads.push(thread.with_context(|| format!("starting thread {name}"))?);
        let refused: Option<Vec<String>> =
            waiting::hear(name, &told).context("waiting for a neighbour to start")?;
        let refused = refused.context("a neighbour ended before it had begun")?;
        self.refused.extend(refused.into_iter().map(|sentence| format!("{name}: {sentence}")));
        Ok(())
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = waiting::join("of a neighbour", thread);
        }
    }
}

/// Does something at each multiple of `period`; what is missed is not made up for.
fn each(period: Duration, stop: &AtomicBool, mut act: impl FnMut()) {
    let mut due = Instant::now() + period;
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        if let Some(rest) = due.checked_duration_since(now) {
            std::thread::sleep(rest);
        } else {
            due = now;
        }
        act();
        due += period;
    }
}

/// A socket, where it sends to, and the sockets that each packet goes to: by broadcast over the loopback interface, so that
/// the stack's work on all of them is done in one softirq on the sender's CPU.
fn many_receivers(lab: Option<&Lab>) -> anyhow::Result<(UdpSocket, SocketAddr, Vec<UdpSocket>)> {
    let open = || -> std::io::Result<_> {
        let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
        let sender = UdpSocket::bind((any, 0))?;
        sender.set_broadcast(true)?;
        sender.set_nonblocking(true)?;
        let mut receivers: Vec<UdpSocket> = Vec::new();
        let mut port = 0;
        for _ in 0..RECEIVERS {
            let receiver =
                rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            rustix::net::sockopt::set_socket_reuseaddr(&receiver, true)?;
            rustix::net::bind(&receiver, &SocketAddr::new(any, port))?;
            let receiver = UdpSocket::from(receiver);
            port = receiver.local_addr()?.port();
            receivers.push(receiver);
        }
        Ok((sender, SocketAddr::new(LOOPBACK_BROADCAST.into(), port), receivers))
    };
    Ok(match lab {
        Some(lab) => lab.sink.within(open)??,
        None => open()?,
    })
}

fn other_stream(lab: Option<&Lab>) -> anyhow::Result<(UdpSocket, UdpSocket)> {
    let address: IpAddr = lab.map_or(Ipv4Addr::LOCALHOST, |lab| lab.sink.ipv4).into();
    let receive = || UdpSocket::bind((address, 0));
    let receiver = match lab {
        Some(lab) => lab.sink.within(receive)??,
        None => receive()?,
    };
    let to = receiver.local_addr()?;
    let send = || {
        let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(to)?;
        std::io::Result::Ok(socket)
    };
    let sender = match lab {
        Some(lab) => lab.source.within(send)??,
        None => send()?,
    };
    sender.set_nonblocking(true)?;
    Ok((sender, receiver))
}
