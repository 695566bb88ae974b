//! What a reflector remembers of its senders, within bounds. Times are CLOCK_MONOTONIC nanoseconds, given by the
//! caller.

use super::event::Refusal;
use super::options::Caps;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Whoever shares a cap: an address, or the 64 bits of prefix that one IPv6 host can choose addresses from.
fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

/// What tells one session from another (RFC 8972, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    pub(super) from: SocketAddr,
    pub(super) to: Option<IpAddr>,
    pub(super) ssid: u16,
}

/// State of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Session {
    /// Packets received.
    pub(super) received: u32,
    /// Replies sent; the number of the next one.
    pub(super) transmitted: u32,
    /// Number and T3 (UTC nanoseconds) of the last reply.
    pub(super) last: Option<(u32, i64)>,
    heard_ns: i64,
}

/// A rate with a burst of one second, by the virtual scheduling of ITU-T I.371: `due_ns` is when the next packet
/// would come at exactly that rate.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    due_ns: i64,
}

const BURST_NS: i64 = 1_000_000_000;

impl Meter {
    fn admits(&self, now_ns: i64) -> bool {
        self.due_ns.saturating_sub(now_ns) < BURST_NS
    }

    fn count(&mut self, now_ns: i64, per_second: u32) {
        let interval_ns = 1_000_000_000 / i64::from(per_second.max(1));
        self.due_ns = self.due_ns.max(now_ns).saturating_add(interval_ns);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    meter: Meter,
    sessions: usize,
    heard_ns: i64,
}

/// All sessions and peers of a reflector.
#[derive(Debug)]
pub(super) struct Sessions {
    caps: Caps,
    stateful: bool,
    all: Meter,
    peers: HashMap<IpAddr, Peer>,
    sessions: HashMap<SessionKey, Session>,
    swept_ns: Option<i64>,
}

/// Least time between two looks for what is idle.
const SWEEP_NS: i64 = 1_000_000_000;

impl Sessions {
    pub(super) fn new(caps: Caps, stateful: bool) -> Self {
        let (peers, sessions) = (HashMap::new(), HashMap::new());
        Self { caps, stateful, all: Meter::default(), peers, sessions, swept_ns: None }
    }

    /// Whether a packet of this peer may be looked at and answered at all.
    pub(super) fn admits(&self, from: IpAddr, now_ns: i64) -> Result<(), Refusal> {
        if self.caps.packets_per_second == 0 || !self.all.admits(now_ns) {
            return Err(Refusal::Rate);
        }
        let meter = self.peers.get(&peer_of(from)).map(|peer| peer.meter).unwrap_or_default();
        if self.caps.packets_per_second_per_peer == 0 || !meter.admits(now_ns) {
            return Err(Refusal::PeerRate);
        }
        Ok(())
    }

    /// Counts an admitted packet; its session, with this packet in `received`, and whether it is new. None where no
    /// state is kept.
    pub(super) fn enter(&mut self, key: SessionKey, now_ns: i64) -> Result<Option<(Session, bool)>, Refusal> {
        let address = peer_of(key.from.ip());
        let known = self.peers.contains_key(&address);
        let new = self.stateful && !self.sessions.contains_key(&key);
        let full = |this: &Self| {
            (!known && this.peers.len() >= this.caps.sessions)
                || (new && this.sessions.len() >= this.caps.sessions)
        };
        let crowded = |this: &Self| {
            new && this.peers.get(&address).is_some_and(|peer| peer.sessions >= this.caps.sessions_per_peer)
        };
        if full(self) || crowded(self) {
            self.sweep(now_ns);
        }
        if full(self) {
            return Err(Refusal::Sessions);
        }
        if crowded(self) || (new && self.caps.sessions_per_peer == 0) {
            return Err(Refusal::PeerSessions);
        }
        let peer = self.peers.entry(address).or_default();
        peer.sessions += usize::from(new);
        peer.heard_ns = now_ns;
        peer.meter.count(now_ns, self.caps.packets_per_second_per_peer);
        self.all.count(now_ns, self.caps.packets_per_second);
        if !self.stateful {
            return Ok(None);
        }
        let idle_ns = idle_ns(&self.caps);
        let session = self.sessions.entry(key).or_default();
        let stale = !new && now_ns.saturating_sub(session.heard_ns) > idle_ns;
        if stale {
            *session = Session::default();
        }
        session.received = session.received.wrapping_add(1);
        session.heard_ns = now_ns;
        Ok(Some((*session, new || stale)))
    }

    /// Notes a reply that was sent at `sent_ns` (UTC).
    pub(super) fn replied(&mut self, key: &SessionKey, sent_ns: i64) {
        if let Some(session) = self.sessions.get_mut(key) {
            session.last = Some((session.transmitted, sent_ns));
            session.transmitted = session.transmitted.wrapping_add(1);
        }
    }

    /// Forgets what is idle.
    fn sweep(&mut self, now_ns: i64) {
        if self.swept_ns.is_some_and(|swept_ns| now_ns.saturating_sub(swept_ns) < SWEEP_NS) {
            return;
        }
        self.swept_ns = Some(now_ns);
        let idle_ns = idle_ns(&self.caps);
        let Self { sessions, peers, .. } = self;
        sessions.retain(|key, session| {
            let keep = now_ns.saturating_sub(session.heard_ns) <= idle_ns;
            if !keep && let Some(peer) = peers.get_mut(&peer_of(key.from.ip())) {
                peer.sessions = peer.sessions.saturating_sub(1);
            }
            keep
        });
        // A peer without sessions is only a rate, which is as new after the burst time.
        peers.retain(|_, peer| peer.sessions > 0 || now_ns.saturating_sub(peer.heard_ns) <= 2 * BURST_NS);
    }
}

fn idle_ns(caps: &Caps) -> i64 {
    i64::try_from(caps.session_idle.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SECOND_NS: i64 = 1_000_000_000;

    fn caps() -> Caps {
        Caps {
            packets_per_second: 100,
            packets_per_second_per_peer: 10,
            sessions: 4,
            sessions_per_peer: 2,
            session_idle: Duration::from_secs(30),
        }
    }

    fn key(host: u8, port: u16, ssid: u16) -> SessionKey {
        SessionKey { from: SocketAddr::from(([192, 0, 2, host], port)), to: None, ssid }
    }

    fn admitted(sessions: &mut Sessions, key: SessionKey, now_ns: i64) -> Result<(), Refusal> {
        sessions.admits(key.from.ip(), now_ns)?;
        sessions.enter(key, now_ns).map(|_| ())
    }

    #[test]
    fn a_peer_gets_its_rate_and_no_more() {
        for stateful in [true, false] {
            let mut sessions = Sessions::new(caps(), stateful);
            // A thousand packets a second for ten seconds: the burst, then ten a second.
            let step = |n: i64| SECOND_NS + n * 1_000_000;
            let granted =
                (0..10_000).filter(|n| admitted(&mut sessions, key(1, 2000, 0), step(*n)).is_ok()).count();
            assert_eq!(granted, 10 + 100, "stateful: {stateful}");
        }
    }

    #[test]
    fn all_peers_together_get_the_rate_for_all() {
        let caps = Caps { sessions: 1000, ..caps() };
        let mut sessions = Sessions::new(caps, true);
        let granted =
            (0..250).filter(|n| admitted(&mut sessions, key(*n, 2000, 0), SECOND_NS).is_ok()).count();
        assert_eq!(granted, 100);
        assert_eq!(admitted(&mut sessions, key(251, 2000, 0), SECOND_NS), Err(Refusal::Rate));
    }

    #[test]
    fn a_session_counts_for_itself() {
        let mut sessions = Sessions::new(caps(), true);
        let mut enter = |key: SessionKey| sessions.enter(key, 0).expect("room").expect("state");
        let (first, new) = enter(key(1, 2000, 7));
        assert_eq!((first.received, first.transmitted, first.last, new), (1, 0, None, true));
        assert!(enter(key(1, 2000, 8)).1, "another identifier is another session");
        let (second, new) = enter(key(1, 2000, 7));
        assert_eq!((second.received, new), (2, false));
        sessions.replied(&key(1, 2000, 7), 55);
        let (third, _) = sessions.enter(key(1, 2000, 7), 0).expect("room").expect("state");
        assert_eq!((third.received, third.transmitted, third.last), (3, 1, Some((0, 55))));
    }

    #[test]
    fn sessions_are_few_and_make_room_when_idle() {
        let mut sessions = Sessions::new(caps(), true);
        let mut enter = |key: SessionKey, now_ns| sessions.enter(key, now_ns).map(|_| ());
        assert_eq!(enter(key(1, 2000, 0), 0), Ok(()));
        assert_eq!(enter(key(1, 2001, 0), 0), Ok(()));
        assert_eq!(enter(key(1, 2002, 0), 0), Err(Refusal::PeerSessions));
        assert_eq!(enter(key(2, 2000, 0), 0), Ok(()));
        assert_eq!(enter(key(3, 2000, 0), 20 * SECOND_NS), Ok(()));
        assert_eq!(enter(key(4, 2000, 0), 21 * SECOND_NS), Err(Refusal::Sessions));
        assert_eq!(enter(key(4, 2000, 0), 31 * SECOND_NS), Ok(()), "the first three are idle");
        assert_eq!(enter(key(1, 2005, 0), 31 * SECOND_NS), Ok(()));
        assert_eq!(sessions.sessions.len(), 3);
        assert_eq!(sessions.peers.len(), 3);
    }

    #[test]
    fn a_session_that_was_idle_begins_anew() {
        let mut sessions = Sessions::new(caps(), true);
        assert_eq!(sessions.enter(key(1, 2000, 0), 0).map(|found| found.map(|(_, new)| new)), Ok(Some(true)));
        let later = sessions.enter(key(1, 2000, 0), 31 * SECOND_NS).expect("room").expect("state");
        assert_eq!((later.0.received, later.1), (1, true));
    }

    #[test]
    fn addresses_of_one_prefix_are_one_peer() {
        let of = |text: &str| peer_of(text.parse().expect("an address"));
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2::1"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
