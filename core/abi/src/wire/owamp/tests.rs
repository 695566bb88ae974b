//! Bytes as the figures of RFC 4656 and RFC 5357 have them.

use super::*;
use zerocopy::FromZeros;

/// A message of so many bytes that are all their own place.
fn counted<T: FromBytes>() -> T {
    let octets: [u8; 256] = core::array::from_fn(|at| at as u8);
    T::read_from_bytes(&octets[..size_of::<T>()]).unwrap()
}

const fn four(at: u8) -> U32 {
    U32::from_bytes([at, at + 1, at + 2, at + 3])
}

const fn eight(at: u8) -> U64 {
    U64::from_bytes([at, at + 1, at + 2, at + 3, at + 4, at + 5, at + 6, at + 7])
}

fn sixteen(at: u8) -> [u8; 16] {
    core::array::from_fn(|index| at + index as u8)
}

#[test]
fn each_field_lies_where_the_figures_draw_it() {
    let greeting: Greeting = counted();
    assert_eq!((greeting.modes, greeting.count), (four(12), four(48)));
    assert_eq!((greeting.challenge, greeting.salt), (sixteen(16), sixteen(32)));
    assert_eq!(counted::<SetUpResponse>().mode, four(0));
    let start: ServerStart = counted();
    assert_eq!((start.accept, start.start_time), (15, eight(32)));
    let asked: RequestSession = counted();
    assert_eq!((asked.command, asked.ip_version, asked.conf_sender, asked.conf_receiver), (0, 1, 2, 3));
    assert_eq!((asked.slots, asked.packets), (four(4), four(8)));
    assert_eq!(
        (asked.sender_port, asked.receiver_port),
        (U16::from_bytes([12, 13]), U16::from_bytes([14, 15]))
    );
    assert_eq!((asked.sender_address, asked.receiver_address), (sixteen(16), sixteen(32)));
    assert_eq!((asked.sid, asked.padding), (sixteen(48), four(64)));
    assert_eq!((asked.start, asked.timeout, asked.type_p), (eight(68), eight(76), four(84)));
    let slot: Slot = counted();
    assert_eq!((slot.kind, slot.parameter), (0, eight(8)));
    let answer: AcceptSession = counted();
    assert_eq!((answer.accept, answer.port, answer.sid), (0, U16::from_bytes([2, 3]), sixteen(4)));
    let stop: StopSessions = counted();
    assert_eq!((stop.command, stop.accept, stop.sessions), (0, 1, four(4)));
    let session: SessionRecord = counted();
    assert_eq!((session.sid, session.next_seqno, session.skips), (sixteen(0), four(16), four(20)));
    let fetch: FetchSession = counted();
    assert_eq!((fetch.command, fetch.begin, fetch.end, fetch.sid), (0, four(8), four(12), sixteen(16)));
    let ack: FetchAck = counted();
    assert_eq!((ack.accept, ack.finished, ack.next_seqno, ack.skips), (0, 1, four(4), four(8)));
    assert_eq!(ack.records, four(12));
    let record: PacketRecord = counted();
    assert_eq!(
        (record.sequence, record.sent, record.received, record.ttl),
        (four(0), eight(8), eight(16), 24)
    );
    let errors = (U16::from_bytes([4, 5]), U16::from_bytes([6, 7]));
    assert_eq!((record.send_error, record.receive_error), errors);
    let test: TestHeader = counted();
    assert_eq!((test.sequence, test.sent, test.error), (four(0), eight(4), U16::from_bytes([12, 13])));
}

#[test]
fn a_request_of_a_telephone_call_has_these_bytes() {
    let mut asked = RequestSession::new_zeroed();
    asked.command = command::REQUEST_TW_SESSION;
    asked.ip_version = 4;
    asked.sender_port = 20_000.into();
    asked.receiver_port = 20_010.into();
    asked.sender_address[..4].copy_from_slice(&[192, 0, 2, 7]);
    asked.padding = 66.into();
    asked.timeout = (3 << 32).into();
    asked.type_p = (46 << 24).into();
    let mut expected = [0u8; 112];
    expected[..2].copy_from_slice(&[5, 4]);
    expected[12..20].copy_from_slice(&[0x4e, 0x20, 0x4e, 0x2a, 192, 0, 2, 7]);
    expected[67] = 66;
    expected[79] = 3;
    expected[84] = 46;
    assert_eq!(asked.as_bytes(), expected);
}
