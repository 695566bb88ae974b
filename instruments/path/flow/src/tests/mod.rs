//! Flows over loopback.

mod hops;
mod hostile;
mod schedules;
mod sending;
mod stamps;
mod tcp;
mod trains;

use super::*;
use quaver_abi::wire::jitlat::{SENTINEL, Singleton, TestPacket};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ANY_PORT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

fn udp_socket() -> TestSocket {
    TestSocket::udp(ANY_PORT.into(), false).unwrap()
}

/// A sender's and a receiver's socket, connected to each other.
fn udp_pair() -> (TestSocket, TestSocket) {
    let (sending, receiving) = (udp_socket(), udp_socket());
    sending.connect(receiving.local_address().unwrap()).unwrap();
    receiving.connect(sending.local_address().unwrap()).unwrap();
    (sending, receiving)
}

fn tcp_pair() -> (TestSocket, TestSocket) {
    let listener = TestListener::bind(ANY_PORT.into()).unwrap();
    let wait = Duration::from_secs(10);
    let sending = TestSocket::tcp(listener.local_address().unwrap(), None, wait).unwrap();
    let from = sending.local_address().unwrap();
    let receiving = listener.accept(wait, &AtomicBool::new(false), |peer| peer == from).unwrap().unwrap();
    (sending, receiving)
}

/// A short flow of 80 bytes, with no more patience than tests need.
fn spec(packets: u64, period_ns: u64) -> FlowSpec {
    FlowSpec {
        end_timeout_ns: 5_000_000_000,
        receive_buffer_bytes: 4 << 20,
        ..FlowSpec::new(80, Some(packets), FlowSchedule::every(period_ns))
    }
}

/// Sends and receives at once, with the acknowledgement as the receiver ends.
fn run(
    (sending, receiving): &(TestSocket, TestSocket),
    spec: &FlowSpec,
) -> (SendReport, ReceiveReport, Vec<Received>) {
    run_with(sending, receiving, spec, spec, &AtomicBool::new(false), &mut |_| ())
}

fn run_with(
    sending: &TestSocket,
    receiving: &TestSocket,
    sent_spec: &FlowSpec,
    received_spec: &FlowSpec,
    stop_sending: &AtomicBool,
    watch: &mut (dyn FnMut(&[Received]) + Send),
) -> (SendReport, ReceiveReport, Vec<Received>) {
    let (acknowledged, stop, mut packets) = (AtomicBool::new(false), AtomicBool::new(false), Vec::new());
    prepare_receive(receiving, received_spec).unwrap();
    let (sent, received) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut keep = |batch: &[Received]| {
                packets.extend_from_slice(batch);
                watch(batch);
            };
            let report = receive_flow(receiving, received_spec, &mut keep, &stop);
            acknowledged.store(true, Ordering::Release);
            report
        });
        let sent = send_flow(sending, sent_spec, &acknowledged, stop_sending);
        (sent, receiver.join().unwrap())
    });
    (sent.unwrap(), received.unwrap(), packets)
}

fn numbers(packets: &[Received]) -> Vec<i32> {
    packets.iter().map(|packet| packet.singleton.tx_seq).collect()
}

/// Receives what has been sent to `socket` already, by a flow that no sentinel ends.
fn receive_sent(socket: &TestSocket, spec: &FlowSpec) -> (ReceiveReport, Vec<Received>) {
    let mut packets = Vec::new();
    let mut keep = |batch: &[Received]| packets.extend_from_slice(batch);
    let report = receive_flow(socket, spec, &mut keep, &AtomicBool::new(false)).unwrap();
    (report, packets)
}

/// The test packet of 80 bytes with a number.
fn octets(number: i32) -> [u8; 80] {
    let mut octets = [0x5a; 80];
    octets[..12].copy_from_slice(&TestPacket { tx_real_time_ns: 1_000, tx_seq: number }.to_octets());
    octets
}

/// A key that anybody could forge, but nobody by chance.
struct ToyKey(u8);

impl PacketAuthenticator for ToyKey {
    fn code(&self, parts: &[&[u8]]) -> [u8; 16] {
        let mut code = [self.0; 16];
        parts.concat().iter().enumerate().for_each(|(at, octet)| {
            code[at % 16] = code[at % 16].rotate_left(3) ^ octet.wrapping_mul(29).wrapping_add(self.0);
        });
        code
    }
}
