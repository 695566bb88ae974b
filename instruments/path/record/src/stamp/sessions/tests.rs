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
    let granted = (0..250).filter(|n| admitted(&mut sessions, key(*n, 2000, 0), SECOND_NS).is_ok()).count();
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
    // Two packets each: no newcomers, which make room for others.
    let mut enter = |key: SessionKey, now_ns| {
        sessions.enter(key, now_ns).and_then(|_| sessions.enter(key, now_ns)).map(|_| ())
    };
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

/// Sessions of real senders beside a hundred thousand forged addresses.
#[test]
fn a_flood_of_forged_addresses_takes_no_session_from_who_sends_twice() {
    let forged = |n: u32| SessionKey {
        from: SocketAddr::from((std::net::Ipv4Addr::from(0x0a00_0000 + n), 2000)),
        to: None,
        ssid: 0,
    };
    for stateful in [true, false] {
        let caps = Caps { sessions: 1_000, packets_per_second_per_peer: 1_000_000, ..Caps::default() };
        let mut sessions = Sessions::new(caps, stateful);
        let real: Vec<SessionKey> = (0..50).map(|host| key(host, 2000, 7)).collect();
        for _ in 0..2 {
            real.iter().for_each(|key| assert!(sessions.enter(*key, 0).is_ok()));
        }
        for n in 0..100_000 {
            assert!(sessions.enter(forged(n), i64::from(n)).is_ok(), "{n}");
            assert!(sessions.sessions.len() <= 1_000 && sessions.peers.len() <= 1_000);
            assert!(sessions.newcomers.0.len() <= 2_000 && sessions.new_peers.0.len() <= 2_000);
        }
        for key in &real {
            let found = sessions.enter(*key, 100_000).expect("room");
            let expected = stateful.then_some((3, false));
            assert_eq!(found.map(|(session, new)| (session.received, new)), expected);
        }
        assert!(sessions.enter(key(200, 2000, 7), 100_000).is_ok(), "a new one gets in meanwhile");
        let newest = sessions.peers.contains_key(&forged(99_999).from.ip());
        let oldest = sessions.peers.contains_key(&forged(0).from.ip());
        assert_eq!((newest, oldest), (true, false), "the longest silent went");
    }
}

#[test]
fn forged_ports_of_one_address_take_no_session_from_its_real_ones() {
    let mut sessions = Sessions::new(Caps::default(), true);
    for n in 0..100_000u32 {
        let forged = key(1, 3_000 + (n % 60_000) as u16, (n / 60_000) as u16);
        assert!(sessions.enter(forged, i64::from(n)).is_ok(), "{n}");
        if n == 10 {
            assert!((0..2).all(|_| sessions.enter(key(1, 2_000, 7), 10).is_ok()));
        }
    }
    let (real, new) = sessions.enter(key(1, 2_000, 7), 100_000).expect("room").expect("state");
    assert_eq!((real.received, new), (3, false));
    let peer = &sessions.peers[&IpAddr::from([192, 0, 2, 1])];
    assert_eq!((peer.sessions, sessions.sessions.len()), (256, 256));
    assert!(peer.newcomers.0.len() <= 512);
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
