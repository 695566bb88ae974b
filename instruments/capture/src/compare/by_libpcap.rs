//! The libpcap program beside our own capture: this program once more, as a child of the comparison.

use crate::args::compare::LibpcapStream;
use crate::compare::record::{LibpcapPlan, count_by_libpcap};
use anyhow::Context;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::interrupt::Interrupt;
use std::ffi::OsString;

/// What it says on standard error when it captures.
pub(super) const READY: &str = "libpcap: capturing on";
/// Buffer, as large as the others'.
const BUFFER_BYTES: u32 = 64 << 20;

/// Its arguments.
pub(super) fn arguments(interface: &str, port: u16) -> Vec<OsString> {
    let words = ["capture", "--compare", "--count-by-libpcap"].map(OsString::from);
    words.into_iter().chain([format!("{port}@{interface}").into(), "-s".into(), "128".into()]).collect()
}

/// The stream to a port; not what showed another host our socket.
pub(super) fn filter(port: u16) -> String {
    format!("udp dst port {port}")
}

/// Counts packets until it is interrupted, and tells how many.
pub(super) fn run(stream: &LibpcapStream, snap_bytes: u32) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let plan = LibpcapPlan {
        interface: stream.interface.clone(),
        filter: filter(stream.port),
        snap_bytes,
        buffer_bytes: BUFFER_BYTES,
    };
    let ready = || quaver_instrument::tell!("{READY} {}", stream.interface);
    let found = count_by_libpcap(&plan, interrupt.flag(), ready)?;
    let told = serde_json::json!({
        "captured": found.captured,
        "dropped": found.dropped,
        "received": found.received,
        "octets": found.octets,
        "backwards": found.backwards,
    });
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &told).context("writing the counts")?;
    Ok(ExitCode::Done)
}
