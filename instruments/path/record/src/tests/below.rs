//! What each end knows below the program reaches the client.

use super::*;
use quaver_path_flow::StampSource;

#[test]
fn both_ends_of_a_tcp_flow_tell_of_its_segments() {
    let server = Served::at(V4);
    let options =
        ClientOptions { transport: Transport::Tcp, directions: Directions::Both, ..server.client() };
    let outcome = measure(&options).unwrap();
    assert!(outcome.is_complete(), "{outcome:?}");
    for flow in &outcome.flows {
        let (sender, receiver) = (flow.sender.unwrap(), flow.receiver.unwrap());
        let (sent, received) = (sender.segments.unwrap(), receiver.segments.unwrap());
        assert!(sent.segments > Some(0) && received.segments > Some(0), "{flow:?}");
        assert_eq!(received.reordered, Some(0));
        assert_eq!(sent.captured, received.captured, "one host, one set of rights");
        if sent.captured {
            // A sender that got no CPU for a while may send again what had arrived: loopback loses nothing, so it comes
            // twice. The receiver's end is that of the flow, and what comes twice after it is not seen.
            assert!(received.duplicate <= sent.retransmitted, "{sent:?} {received:?}");
            assert_eq!(received.retransmitted, Some(0), "and fills no hole");
        }
        assert_eq!(sender.departures, None, "stamps of departure are for datagrams");
    }
    server.stop();
}

#[test]
fn both_senders_of_datagrams_tell_when_their_kernel_let_them_go() {
    let server = Served::at(V4);
    let options = ClientOptions { directions: Directions::Both, ..server.client() };
    let outcome = measure(&options).unwrap();
    for flow in &outcome.flows {
        let sender = flow.sender.unwrap();
        let departures = sender.departures.unwrap();
        assert_eq!(departures.stamped_by, StampSource::Kernel, "loopback has no other");
        assert_eq!((departures.stamped + departures.missing, sender.sent), (100, 100));
        let told = flow.departed.iter().flatten().count() as u64;
        let wanted = if flow.direction == Direction::Down { departures.stamped } else { 0 };
        assert_eq!(told, wanted, "each departure of the server's packets, and of no others");
        assert!((0..=departures.p99_ns).contains(&departures.median_ns), "{departures:?}");
        assert_eq!(sender.segments, None);
    }
    let application = ClientOptions { stamps: quaver_path_flow::StampWish::Application, ..server.client() };
    assert_eq!(measure(&application).unwrap().flows[0].sender.unwrap().departures, None);
    server.stop();
}
