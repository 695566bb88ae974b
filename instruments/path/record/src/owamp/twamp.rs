//! A client of TWAMP-Control: its test packets are those of STAMP without TLVs.

use super::greeting::{Client, request};
use crate::error::PathError;
use crate::stamp::{SenderOptions, StampOutcome, StampProgress, send_agreed};
use quaver_abi::wire::owamp::{AcceptSession, LEAST_TEST_BYTES, StopSessions, accept, command};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use zerocopy::FromZeros;

/// Measures to a reflector that the TWAMP server at `options.target` (its control port) gives, within `patience` for
/// each of its answers; else as [`crate::stamp::send_session`]. Protection and TLVs of `options` are not used.
///
/// # Errors
/// When the server is not there or refuses, and those of [`crate::stamp::send_session`].
pub fn send_twamp(
    options: &SenderOptions,
    patience: Duration,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(StampProgress<'_>),
) -> Result<StampOutcome, PathError> {
    let mut client = Client::meet(options.target, patience, stop)?;
    let bind = options.bind.unwrap_or(SocketAddr::new(client.link.local.ip(), 0));
    let options = SenderOptions { bind: Some(bind), plain: true, ssid: 0, ..options.clone() };
    let outcome = send_agreed(
        &options,
        |here, packet_bytes| ask(&mut client, here, packet_bytes, &options),
        stop,
        watch,
    )?;
    let mut end = [0u8; 32];
    let mut stop_sessions = StopSessions::new_zeroed();
    stop_sessions.command = command::STOP_SESSIONS;
    stop_sessions.accept = accept::OK;
    stop_sessions.sessions = 1.into();
    end[..16].copy_from_slice(zerocopy::IntoBytes::as_bytes(&stop_sessions));
    // A server that has gone meanwhile needs no goodbye. One that was stopped for hears it all the same.
    let _ = client.link.write(&end, std::time::Instant::now() + patience, &AtomicBool::new(false));
    Ok(outcome)
}

/// Asks for a session and starts it. Gives the reflector.
fn ask(
    client: &mut Client<'_>,
    here: SocketAddr,
    packet_bytes: usize,
    options: &SenderOptions,
) -> Result<SocketAddr, PathError> {
    // The port that we have is the likeliest to be free there too.
    let there = SocketAddr::new(client.link.peer.ip(), here.port());
    let mut asked = request(command::REQUEST_TW_SESSION, here, there, options.dscp);
    asked.padding = ((packet_bytes - LEAST_TEST_BYTES) as u32).into();
    asked.timeout = super::link::interval(options.loss_timeout_ns).into();
    client.say(&asked)?;
    let answer: AcceptSession = client.hear("with Accept-Session")?;
    client.check(answer.accept, "the session")?;
    client.start()?;
    let mut reflector = client.link.peer;
    reflector.set_port(answer.port.get());
    Ok(reflector)
}
