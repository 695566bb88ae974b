//! What a reflector remembers of its senders, within bounds. Times are CLOCK_MONOTONIC nanoseconds, given by the
//! caller.

use super::event::Refusal;
use super::options::Caps;
use std::collections::{HashMap, VecDeque};
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

/// Who has sent one packet so far, which anybody can with a forged address, in order of arrival. Where there is no room
/// they make way, the longest silent first; who has sent a second packet stays.
#[derive(Debug)]
struct Newcomers<K>(VecDeque<(K, i64)>);

impl<K> Default for Newcomers<K> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<K> Newcomers<K> {
    /// Adds one. Of more than twice `most` those are forgotten that are none any more.
    fn add(&mut self, key: K, now_ns: i64, most: usize, is_one: impl Fn(&K, i64) -> bool) {
        self.0.push_back((key, now_ns));
        if self.0.len() > 2 * most.max(8) {
            self.0.retain(|(key, heard_ns)| is_one(key, *heard_ns));
        }
    }

    /// Takes out the longest silent that is still one.
    fn longest_silent(&mut self, is_one: impl Fn(&K, i64) -> bool) -> Option<K> {
        while let Some((key, heard_ns)) = self.0.pop_front() {
            if is_one(&key, heard_ns) {
                return Some(key);
            }
        }
        None
    }
}

#[derive(Debug, Default)]
struct Peer {
    meter: Meter,
    sessions: usize,
    /// Packets, as far as it matters: 0, 1 or more.
    packets: u8,
    heard_ns: i64,
    newcomers: Newcomers<SessionKey>,
}

/// All sessions and peers of a reflector.
#[derive(Debug)]
pub(super) struct Sessions {
    caps: Caps,
    stateful: bool,
    all: Meter,
    peers: HashMap<IpAddr, Peer>,
    sessions: HashMap<SessionKey, Session>,
    newcomers: Newcomers<SessionKey>,
    /// Used where no sessions are kept.
    new_peers: Newcomers<IpAddr>,
    swept_ns: Option<i64>,
}

/// Whether this session has sent the packet of that time, and no other.
fn is_newcomer(sessions: &HashMap<SessionKey, Session>, key: &SessionKey, heard_ns: i64) -> bool {
    sessions.get(key).is_some_and(|session| session.received == 1 && session.heard_ns == heard_ns)
}

/// Least time between two looks for what is idle.
const SWEEP_NS: i64 = 1_000_000_000;

impl Sessions {
    pub(super) fn new(caps: Caps, stateful: bool) -> Self {
        Self {
            caps,
            stateful,
            all: Meter::default(),
            peers: HashMap::new(),
            sessions: HashMap::new(),
            newcomers: Newcomers::default(),
            new_peers: Newcomers::default(),
            swept_ns: None,
        }
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
        let new = self.stateful && !self.sessions.contains_key(&key);
        self.make_room(address, new, now_ns)?;
        let peer = self.peers.entry(address).or_default();
        peer.sessions += usize::from(new);
        peer.heard_ns = now_ns;
        peer.packets = peer.packets.saturating_add(1);
        peer.meter.count(now_ns, self.caps.packets_per_second_per_peer);
        self.all.count(now_ns, self.caps.packets_per_second);
        if !self.stateful {
            if peer.packets == 1 {
                let peers = &self.peers;
                let is_one = |peer: &IpAddr, at_ns| is_new_peer(peers, peer, at_ns);
                self.new_peers.add(address, now_ns, self.caps.sessions, is_one);
            }
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
        let (session, begins) = (*session, new || stale);
        if begins {
            let sessions = &self.sessions;
            let is_one = |key: &SessionKey, at_ns| is_newcomer(sessions, key, at_ns);
            self.newcomers.add(key, now_ns, self.caps.sessions, is_one);
            if let Some(peer) = self.peers.get_mut(&address) {
                peer.newcomers.add(key, now_ns, self.caps.sessions_per_peer, is_one);
            }
        }
        Ok(Some((session, begins)))
    }

    /// Makes room for a packet of this peer, which begins a session if `new`: first at the cost of what is idle, then
    /// of newcomers.
    fn make_room(&mut self, address: IpAddr, new: bool, now_ns: i64) -> Result<(), Refusal> {
        if new && self.caps.sessions_per_peer == 0 {
            return Err(Refusal::PeerSessions);
        }
        if self.is_crowded(address, new) || self.is_full(address, new) {
            self.sweep(now_ns);
        }
        while self.is_crowded(address, new) {
            let Self { peers, sessions, .. } = self;
            let newcomers = peers.get_mut(&address).map(|peer| &mut peer.newcomers);
            let evicted =
                newcomers.and_then(|all| all.longest_silent(|key, at_ns| is_newcomer(sessions, key, at_ns)));
            self.forget(&evicted.ok_or(Refusal::PeerSessions)?);
        }
        while self.is_full(address, new) {
            if self.stateful {
                let sessions = &self.sessions;
                let is_one = |key: &SessionKey, at_ns| is_newcomer(sessions, key, at_ns);
                let evicted = self.newcomers.longest_silent(is_one);
                self.forget(&evicted.ok_or(Refusal::Sessions)?);
            } else {
                let peers = &self.peers;
                let is_one = |peer: &IpAddr, at_ns| is_new_peer(peers, peer, at_ns);
                let evicted = self.new_peers.longest_silent(is_one);
                self.peers.remove(&evicted.ok_or(Refusal::Sessions)?);
            }
        }
        Ok(())
    }

    fn is_full(&self, address: IpAddr, new: bool) -> bool {
        let most = self.caps.sessions;
        (new && self.sessions.len() >= most)
            || (self.peers.len() >= most && !self.peers.contains_key(&address))
    }

    fn is_crowded(&self, address: IpAddr, new: bool) -> bool {
        let most = self.caps.sessions_per_peer;
        new && self.peers.get(&address).is_some_and(|peer| peer.sessions >= most)
    }

    /// Forgets a session, and its peer if that has no other.
    fn forget(&mut self, key: &SessionKey) {
        self.sessions.remove(key);
        let address = peer_of(key.from.ip());
        if let Some(peer) = self.peers.get_mut(&address) {
            peer.sessions = peer.sessions.saturating_sub(1);
            if peer.sessions == 0 {
                self.peers.remove(&address);
            }
        }
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

/// Whether this peer has sent the packet of that time, and no other.
fn is_new_peer(peers: &HashMap<IpAddr, Peer>, peer: &IpAddr, heard_ns: i64) -> bool {
    peers.get(peer).is_some_and(|peer| peer.packets == 1 && peer.heard_ns == heard_ns)
}

fn idle_ns(caps: &Caps) -> i64 {
    i64::try_from(caps.session_idle.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
