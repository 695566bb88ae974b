//! `quaver probe`, `quaver serve` and `quaver jitlat`: the path between two hosts.

pub mod args;
pub mod digest;
mod dscp;
pub mod exports;
pub mod facts;
pub mod jitlat;
pub mod jitlat_log;
pub mod mesh;
mod metrics;
mod output;
pub mod plots;
pub mod probe;
mod runs;
pub mod samples;
pub mod serve;
mod test_facts;
mod thread;
pub mod tui;
pub mod view;

use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_path_record::PathError;

/// The exit status of a path that could not be measured; none where what the system said decides.
pub fn exit_status(error: &(dyn std::error::Error + 'static)) -> Option<ExitCode> {
    match error.downcast_ref()? {
        PathError::Os { .. } | PathError::Flow(_) => None,
        // This host forbids it, not the peer.
        PathError::Connect { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Some(ExitCode::Unsupported)
        }
        PathError::Interrupted => Some(ExitCode::Interrupted),
        PathError::Options(_) => Some(ExitCode::Usage),
        _ => Some(ExitCode::Peer),
    }
}

use args::ProbeArgs;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::registry::Instrument;
use quaver_instrument::verb;

/// `quaver probe`: one test, or many.
fn probe_one_or_many(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    if args.mesh.is_some() || args.dscp.len() > 1 {
        return mesh::run(args, &interrupt);
    }
    if args.metrics.metrics.is_some() {
        let message = "--metrics is for tests that go on, as those of --mesh: leave it out of a single test";
        return Err(failure(ExitCode::Usage, message.to_owned()));
    }
    probe::run(args, &interrupt)
}

/// The instrument, as the program takes it.
pub static INSTRUMENT: Instrument = Instrument {
    verbs: &[
        verb!(
            "probe",
            "Measure the path to a host that runs `quaver serve`: delay, its variation, loss, order",
            args::ProbeArgs,
            probe_one_or_many
        ),
        verb!("serve", "Serve `quaver probe`", args::ServeArgs, serve::run),
        verb!(
            "jitlat",
            "Be Jitlat: its options, its console page, its log file, its protocol",
            jitlat::args::JitlatArgs,
            jitlat::run
        ),
    ],
    kinds: &[&runs::PathRuns, &runs::MeshRuns],
    files: &[&jitlat::log::Logs],
    tables: &[&samples::TABLE],
    status: exit_status,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_an_error_is_named_once() {
        let refused = PathError::Connect {
            server: ([192, 0, 2, 1], 2_666).into(),
            source: std::io::Error::from_raw_os_error(111),
            remedy: "; start it",
        };
        let error = anyhow::Error::new(refused).context("measuring");
        let wanted = "measuring: connect to 192.0.2.1:2666: Connection refused (os error 111); start it";
        assert_eq!(quaver_instrument::exit_code::sentence(&error), wanted);
    }
}
