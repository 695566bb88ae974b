//! Who may come in: at most so many, and not too often.

use crate::limits::Limits;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Peers and sites whose rate is remembered.
const MOST_PEERS: usize = 4_096;
/// A site may have as much as so many of its peers. One has 65536 networks of 64 bits to be a peer from.
const PEERS_OF_A_SITE: u32 = 4;

/// Counts of those inside, and allowances of all.
#[derive(Debug)]
pub(super) struct Door {
    inside: Arc<Mutex<HashMap<Party, usize>>>,
    allowances: HashMap<Party, Allowance>,
}

/// Who counts as one: an address, or a network, with its length.
type Party = (IpAddr, u8);

/// How many more may come at this time: grows with it, up to a minute's worth.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    left: f64,
    at: Instant,
}

/// A place inside; dropping it leaves.
#[derive(Debug)]
pub(super) struct Admission {
    peer: IpAddr,
    inside: Arc<Mutex<HashMap<Party, usize>>>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        for (party, _) in parties(self.peer) {
            if let Some(count) = inside.get_mut(&party) {
                *count -= 1;
                if *count == 0 {
                    inside.remove(&party);
                }
            }
        }
    }
}

impl Door {
    pub(super) fn new() -> Self {
        Self { inside: Arc::default(), allowances: HashMap::new() }
    }

    /// Lets a peer in, or says why not.
    pub(super) fn enter(&mut self, peer: IpAddr, limits: &Limits, now: Instant) -> Result<Admission, String> {
        let most = limits.hellos_per_minute;
        for (party, times) in parties(peer) {
            if !self.allowed(party, most.saturating_mul(times), now) {
                return Err(format!("more than {} connections a minute", most.saturating_mul(times)));
            }
        }
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        // Each is inside as an address or a network of 64 bits.
        let all: usize =
            inside.iter().filter(|((_, bits), _)| *bits != SITE_BITS).map(|(_, count)| *count).sum();
        if all >= limits.sessions {
            return Err(format!("all {} sessions are taken", limits.sessions));
        }
        for (party, times) in parties(peer) {
            let count = inside.get(&party).copied().unwrap_or(0);
            if count >= limits.sessions_per_peer.saturating_mul(times as usize) {
                return Err(format!("has {count} sessions already"));
            }
        }
        for (party, _) in parties(peer) {
            *inside.entry(party).or_default() += 1;
        }
        Ok(Admission { peer, inside: Arc::clone(&self.inside) })
    }

    fn allowed(&mut self, peer: Party, per_minute: u32, now: Instant) -> bool {
        let most = f64::from(per_minute);
        let refilled = |allowance: &Allowance| {
            let minutes = now.saturating_duration_since(allowance.at).as_secs_f64() / 60.0;
            (allowance.left + minutes * most).min(most)
        };
        if self.allowances.len() >= MOST_PEERS && !self.allowances.contains_key(&peer) {
            self.allowances.retain(|_, allowance| refilled(allowance) < most);
            if self.allowances.len() >= MOST_PEERS {
                return false;
            }
        }
        let allowance = self.allowances.entry(peer).or_insert(Allowance { left: most, at: now });
        allowance.left = refilled(allowance);
        allowance.at = now;
        // The sum of small pieces may miss a whole by the last bit.
        let allowed = allowance.left >= 1.0 - 1e-9;
        if allowed {
            allowance.left -= 1.0;
        }
        allowed
    }
}

/// Bits of the network that a site has.
const SITE_BITS: u8 = 48;

/// Whom a peer counts for, and for how many times a peer's share: for an IPv4 address; or for an IPv6 network of 64
/// bits, in which it may take any address, and for the site that has it.
fn parties(peer: IpAddr) -> impl Iterator<Item = (Party, u32)> {
    let own = party(peer);
    let site = match own {
        IpAddr::V6(ip) => {
            let [a, b, c, ..] = ip.segments();
            Some(((Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).into(), SITE_BITS), PEERS_OF_A_SITE))
        }
        IpAddr::V4(_) => None,
    };
    std::iter::once(((own, 64), 1)).chain(site)
}

/// Who counts as one peer: an IPv4 address, or an IPv6 network of 64 bits.
pub(super) fn party(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn places_are_counted_by_peer_and_in_all() {
        let limits = Limits { sessions: 3, sessions_per_peer: 2, ..Limits::default() };
        let (mut door, now) = (Door::new(), Instant::now());
        let first = door.enter(ip("192.0.2.1"), &limits, now).unwrap();
        let _second = door.enter(ip("192.0.2.1"), &limits, now).unwrap();
        assert!(door.enter(ip("192.0.2.1"), &limits, now).unwrap_err().contains("2 sessions already"));
        let _third = door.enter(ip("2001:db8::1"), &limits, now).unwrap();
        assert!(door.enter(ip("192.0.2.2"), &limits, now).unwrap_err().contains("all 3"));
        drop(first);
        let _fourth = door.enter(ip("2001:db8::ffff:2"), &limits, now).unwrap();
        assert!(door.enter(ip("2001:db8::3"), &limits, now).is_err(), "all again");
    }

    #[test]
    fn a_network_of_64_bits_is_one_peer() {
        assert_eq!(party(ip("2001:db8:1:2:3:4:5:6")), party(ip("2001:db8:1:2::")));
        assert_ne!(party(ip("2001:db8:1:2::")), party(ip("2001:db8:1:3::")));
        assert_eq!(party(ip("::ffff:192.0.2.1")), ip("192.0.2.1"));
    }

    #[test]
    fn a_site_of_many_networks_has_what_four_peers_have() {
        let limits = Limits { sessions_per_peer: 2, hellos_per_minute: 5, ..Limits::default() };
        let (mut door, now) = (Door::new(), Instant::now());
        let peer = |site: u32, network: u32| ip(&format!("2001:db8:{site:x}:{network:x}::1"));
        let inside: Vec<_> = (0..50).filter_map(|n| door.enter(peer(1, n), &limits, now).ok()).collect();
        assert_eq!(inside.len(), 8, "a network each, but one site");
        assert!(door.enter(peer(1, 60), &limits, now).unwrap_err().contains("20 connections a minute"));
        let other = door.enter(peer(2, 1), &limits, now);
        assert!(other.is_ok(), "another site");
        drop((inside, other));
        assert!(door.inside.lock().unwrap().is_empty());
        assert!(door.enter(peer(1, 1), &limits, now + Duration::from_secs(60)).is_ok());
    }

    #[test]
    fn who_comes_too_often_waits_for_time_to_pass() {
        let limits = Limits { hellos_per_minute: 6, ..Limits::default() };
        let (mut door, now) = (Door::new(), Instant::now());
        let mut came = |at| door.enter(ip("192.0.2.1"), &limits, at).is_ok();
        assert_eq!((0..10).filter(|_| came(now)).count(), 6);
        assert!(!came(now + Duration::from_secs(9)));
        assert!(came(now + Duration::from_secs(10)));
        assert!(!came(now + Duration::from_secs(11)));
        assert_eq!(
            (0..10).filter(|_| came(now + Duration::from_secs(3_600))).count(),
            6,
            "no more than that"
        );
    }

    #[test]
    fn the_memory_of_peers_is_bounded() {
        let limits = Limits { hellos_per_minute: 6, ..Limits::default() };
        let (mut door, now) = (Door::new(), Instant::now());
        let peer = |number: u32| IpAddr::from(number.to_be_bytes());
        for number in 0..10_000 {
            let _ = door.enter(peer(number), &limits, now);
        }
        assert_eq!(door.allowances.len(), MOST_PEERS);
        let later = now + Duration::from_secs(60);
        assert!(door.enter(peer(20_000), &limits, later).is_ok(), "those with full allowance are forgotten");
        assert_eq!(door.allowances.len(), 1);
    }
}
