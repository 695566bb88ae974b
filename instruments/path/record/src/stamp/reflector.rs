//! The loop of a reflector.

use super::event::{ReflectorEvent, ReflectorTotals, Refusal};
use super::loops::answers_us;
use super::options::ReflectorOptions;
use super::reply::{Local, RequestFacts, check, compose};
use super::sessions::{SessionKey, Sessions};
use super::socket::{Arrival, LONGEST_WAIT, MOST_BYTES, StampSocket};
use crate::clocks::ClockEstimate;
use crate::error::PathError;
use quaver_abi::wire::stamp::time::{ErrorEstimate, TimestampFormat};
use quaver_abi::wire::stamp::{LEAST_LIGHT_BYTES, LIGHT_BYTES};
use quaver_clock::{monotonic_ns, realtime_ns};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ports below this belong to services, some of which answer anything: a reply to one could come back for ever.
const LEAST_SENDER_PORT: u16 = 1024;
/// Packets taken before the stop flag is looked at again.
const MOST_AT_ONCE: u32 = 256;
/// How often the kernel is asked how good its clock is.
const ESTIMATE_NS: i64 = 10_000_000_000;
/// How often drops of the socket are looked for.
const DROPS_NS: i64 = 1_000_000_000;
/// Events told in a second; more are counted.
const EVENTS_PER_SECOND: u32 = 20;

/// What an unsynchronised clock that nobody vouches for may be wrong by: NTP's greatest dispersion (RFC 5905).
const UNKNOWN_ERROR_NS: u64 = 16_000_000_000;

/// How good stamps of the system's clock are, by what the kernel says.
pub(crate) fn error_estimate(format: TimestampFormat) -> ErrorEstimate {
    match ClockEstimate::kernel() {
        Some(clock) => {
            let error_ns = u64::try_from(clock.maxerror_ns).unwrap_or(UNKNOWN_ERROR_NS);
            ErrorEstimate::new(format, clock.is_synchronised(), error_ns)
        }
        None => ErrorEstimate::new(format, false, UNKNOWN_ERROR_NS),
    }
}

/// Reflects STAMP test packets on the calling thread until `stop` is set, which is seen within 50 ms. `on_event`
/// gets what happens, at most some twenty lines a second.
///
/// # Errors
/// When the address cannot be had. Nothing that comes over the network is an error.
pub fn reflect(
    options: &ReflectorOptions,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(ReflectorEvent),
) -> Result<ReflectorTotals, PathError> {
    let socket = StampSocket::bind(options.bind)?;
    let address = socket.local_address()?;
    on_event(ReflectorEvent::Listening { address, kernel_stamps: socket.kernel_stamps });
    let mut reflector = Reflector {
        options,
        port: address.port(),
        socket,
        sessions: Sessions::new(options.caps, options.stateful),
        totals: ReflectorTotals::default(),
        log: Log { on_event, second: 0, told: 0, suppressed: 0 },
        estimate: error_estimate(options.format),
        estimated_ns: monotonic_ns(),
        looked_ns: monotonic_ns(),
        reply: Vec::with_capacity(MOST_BYTES),
    };
    let mut buffer = vec![0; MOST_BYTES];
    while !stop.load(Ordering::Relaxed) {
        reflector.drain(&mut buffer);
        reflector.look_for_drops(DROPS_NS);
        options.figures.change(|figures| *figures = reflector.totals);
        reflector.log.flush(false);
        reflector.socket.wait(LONGEST_WAIT);
    }
    reflector.look_for_drops(0);
    options.figures.change(|figures| *figures = reflector.totals);
    reflector.log.flush(true);
    Ok(reflector.totals)
}

struct Reflector<'a> {
    options: &'a ReflectorOptions,
    port: u16,
    socket: StampSocket,
    sessions: Sessions,
    totals: ReflectorTotals,
    log: Log<'a>,
    estimate: ErrorEstimate,
    estimated_ns: i64,
    looked_ns: i64,
    reply: Vec<u8>,
}

impl Reflector<'_> {
    /// Answers what has come.
    fn drain(&mut self, buffer: &mut [u8]) {
        for _ in 0..MOST_AT_ONCE {
            match self.socket.receive(buffer) {
                Ok(arrival) => {
                    self.totals.received += 1;
                    let now_ns = monotonic_ns();
                    if let Err(refusal) = self.answer(&buffer[..arrival.octets], &arrival, now_ns) {
                        self.totals.refused[refusal as usize] += 1;
                        self.log.tell(now_ns, ReflectorEvent::Refused { peer: arrival.from, refusal });
                    }
                }
                Err(Errno::AGAIN) => return,
                // The answer to an earlier reply, such as a refused port; the next call works again.
                Err(_) => {}
            }
        }
    }

    /// Counts and tells what the socket dropped, where the last look is that long ago.
    fn look_for_drops(&mut self, interval_ns: i64) {
        let now_ns = monotonic_ns();
        if now_ns - self.looked_ns < interval_ns {
            return;
        }
        self.looked_ns = now_ns;
        let count = self.socket.new_drops().unwrap_or(0);
        self.totals.dropped += count;
        if count > 0 {
            // Once a second, so that no flood of other events hides it.
            (self.log.on_event)(ReflectorEvent::Dropped { count });
        }
    }

    fn answer(&mut self, request: &[u8], arrival: &Arrival, now_ns: i64) -> Result<(), Refusal> {
        let peer = arrival.from;
        if peer.port() < LEAST_SENDER_PORT || peer.port() == self.port {
            return Err(Refusal::Looping);
        }
        // Rates first: an HMAC costs more than a look at two counters.
        self.sessions.admits(peer.ip(), now_ns)?;
        let short = self.options.short_from.contains(&peer.ip().to_canonical());
        let least = if short { LEAST_LIGHT_BYTES } else { LIGHT_BYTES };
        let packet = check(request, &self.options.protection, least)?;
        if answers_us(request, self.options.protection.mode(), self.options.format, realtime_ns()) {
            return Err(Refusal::Looping);
        }
        let key = SessionKey { from: peer, to: arrival.to, ssid: packet.ssid };
        let session = self.sessions.enter(key, now_ns)?;
        if let Some((_, true)) = session {
            self.totals.sessions += 1;
            self.log.tell(now_ns, ReflectorEvent::Session { peer, ssid: packet.ssid });
        }
        if now_ns - self.estimated_ns > ESTIMATE_NS {
            self.estimate = error_estimate(self.options.format);
            self.estimated_ns = now_ns;
        }
        let seen = RequestFacts {
            from: peer,
            to: arrival.to,
            to_port: self.port,
            ttl: arrival.ttl.unwrap_or(0),
            class: arrival.class,
            received_ns: arrival.received_ns,
        };
        let local = Local {
            protection: &self.options.protection,
            error_estimate: self.estimate,
            allow_dscp: self.options.allow_dscp,
        };
        let state = session.as_ref().map(|(session, _)| session);
        let (class, sent_ns) = compose(request, &packet, &seen, &local, state, &mut self.reply, realtime_ns);
        match self.socket.reply(&self.reply, peer, arrival.to, class) {
            Ok(()) => {
                self.totals.reflected += 1;
                self.sessions.replied(&key, sent_ns);
            }
            Err(error) => {
                self.totals.not_sent += 1;
                self.log.tell(now_ns, ReflectorEvent::NotSent { peer, reason: error.to_string() });
            }
        }
        Ok(())
    }
}

/// Tells events, but not more than somebody can read.
struct Log<'a> {
    on_event: &'a mut dyn FnMut(ReflectorEvent),
    second: i64,
    told: u32,
    suppressed: u64,
}

impl Log<'_> {
    fn tell(&mut self, now_ns: i64, event: ReflectorEvent) {
        if now_ns / 1_000_000_000 != self.second {
            self.flush(true);
            (self.second, self.told) = (now_ns / 1_000_000_000, 0);
        }
        if self.told < EVENTS_PER_SECOND {
            self.told += 1;
            (self.on_event)(event);
        } else {
            self.suppressed += 1;
        }
    }

    /// Says how many were not told, once their second is over, or `now`.
    fn flush(&mut self, now: bool) {
        if self.suppressed > 0 && (now || monotonic_ns() / 1_000_000_000 != self.second) {
            (self.on_event)(ReflectorEvent::Suppressed { count: self.suppressed });
            self.suppressed = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, UdpSocket};
    use std::time::{Duration, Instant};

    /// More than its receive buffer has room for.
    const FLOOD: u64 = 60_000;

    #[test]
    fn what_the_socket_has_no_room_for_is_counted_and_told() {
        let options =
            ReflectorOptions { bind: (Ipv4Addr::LOCALHOST, 0).into(), ..ReflectorOptions::default() };
        let (stop, mut told) = (AtomicBool::new(false), 0);
        let accounted = || {
            let totals = options.figures.read();
            totals.received + totals.dropped
        };
        let totals = std::thread::scope(|scope| {
            scope.spawn(|| {
                let end = Instant::now() + Duration::from_secs(60);
                while accounted() < FLOOD && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(10));
                }
                stop.store(true, Ordering::Relaxed);
            });
            reflect(&options, &stop, &mut |event| match event {
                // It listens, and does not read before this returns.
                ReflectorEvent::Listening { address, .. } => {
                    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                    for _ in 0..FLOOD {
                        sender.send_to(b"short", address).unwrap();
                    }
                }
                ReflectorEvent::Dropped { count } => told += count,
                _ => {}
            })
        })
        .unwrap();
        assert_eq!(accounted(), FLOOD, "{totals:?}");
        assert_eq!(totals.refused[Refusal::Short as usize], totals.received);
        assert!(totals.dropped > 0, "{totals:?}");
        assert_eq!((told, options.figures.read()), (totals.dropped, totals));
    }
}
