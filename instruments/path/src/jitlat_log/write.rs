//! Writing a log: after the test, in one go, to a name that nobody else has.

use super::LogHeader;
use super::facts::one_line;
use quaver_abi::wire::jitlat::Singleton;
use quaver_store::error::StoreError;
use std::borrow::Borrow;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What the names of log files begin with; six letters or digits follow, chosen as mkstemp(3) does.
pub const LOG_PREFIX: &str = "jitlat.";

/// Writes header and rows, in the order of receiving.
///
/// # Errors
/// Those of the writer.
pub fn write_log(
    out: &mut dyn Write,
    header: &LogHeader,
    packets: impl IntoIterator<Item = impl Borrow<Singleton>>,
) -> io::Result<()> {
    write_header(out, header)?;
    for (number, packet) in packets.into_iter().enumerate() {
        let Singleton { tx_real_time_ns, tx_seq, rx_real_time_ns, flags } = packet.borrow();
        writeln!(out, "{number} {tx_real_time_ns} {tx_seq} {rx_real_time_ns} {flags}")?;
    }
    Ok(())
}

fn write_header(out: &mut dyn Write, header: &LogHeader) -> io::Result<()> {
    writeln!(out, "# {}", one_line(&header.created))?;
    writeln!(out, "# command {}", header.command.name())?;
    writeln!(out, "# npkts {}", header.npkts)?;
    writeln!(out, "# pktlen {}", header.pktlen)?;
    writeln!(out, "# proto {}", header.proto)?;
    writeln!(out, "# period {}", header.period_ns)?;
    writeln!(out, "# src_ip {}", header.src_ip)?;
    writeln!(out, "# dst_ip {}", header.dst_ip)?;
    writeln!(out, "# src_port {}", header.src_port)?;
    writeln!(out, "# dst_port {}", header.dst_port)?;
    writeln!(out, "# dscp {}", header.dscp)?;
    if let Some(error_ns) = header.clock_error_ns {
        writeln!(out, "# clock_error_ns {error_ns}")?;
    }
    if let Some(rtt_ns) = header.min_rtt_ns {
        writeln!(out, "# min_rtt_ns {rtt_ns}")?;
    }
    out.write_all(header.facts.lines().as_bytes())
}

/// Makes a log file `jitlat.XXXXXX` in `directory`, readable by its owner only, and says its path. Where it cannot be
/// written to its end nothing is left.
///
/// # Errors
/// The file cannot be made or written.
pub fn create_log(
    directory: &Path,
    header: &LogHeader,
    packets: impl IntoIterator<Item = impl Borrow<Singleton>>,
) -> Result<PathBuf, StoreError> {
    let shape = directory.join(format!("{LOG_PREFIX}XXXXXX"));
    let file = tempfile::Builder::new()
        .prefix(LOG_PREFIX)
        .rand_bytes(6)
        .tempfile_in(directory)
        .map_err(|error| StoreError::io("create", &shape, error))?;
    let path = file.path().to_owned();
    let mut out = BufWriter::with_capacity(1 << 18, file);
    let write = write_log(&mut out, header, packets).and_then(|()| out.flush());
    write.map_err(|error| StoreError::io("write", &path, error))?;
    let file = out.into_inner().map_err(|error| StoreError::io("write", &path, error.into_error()))?;
    file.keep().map_err(|error| StoreError::io("write", &path, error.error))?;
    Ok(path)
}
