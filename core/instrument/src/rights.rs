//! What a verb gives up before it reads what others wrote: programs, the network, other processes, and all capabilities but those to
//! read and write files of other users, whose runs root analyses too.

use quaver_host::confinement::{Confinement, Files, Network, confine};
use rustix::thread::CapabilitySet;
use std::path::Path;

fn capabilities() -> CapabilitySet {
    CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH
}

/// Gives up all else, and all files but these.
pub(crate) fn keep(read: &[&Path], write: &[&Path]) {
    let (files, capabilities) = (Some(Files { read, write }), capabilities());
    confine(&Confinement { files, network: Network::Nothing, capabilities });
}

/// Gives up all but files, of which the verb reads and writes those that it was given.
pub fn keep_files() {
    confine(&Confinement { files: None, network: Network::Nothing, capabilities: capabilities() });
}

/// Does something in a thread that keeps files alone: the analysis of what was recorded, while the process goes on to measure.
///
/// # Errors
/// There is no thread to be had.
pub fn with_files_alone<T: Send>(work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    with_files_and(CapabilitySet::empty(), work)
}

/// The same, with further capabilities.
///
/// # Errors
/// As of [`with_files_alone`].
pub fn with_files_and<T: Send>(
    kept: CapabilitySet,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let work = move || {
        let capabilities = capabilities() | kept;
        confine(&Confinement { files: None, network: Network::Nothing, capabilities });
        work()
    };
    std::thread::scope(|scope| {
        let thread = quaver_waiting::start_in(scope, "quaver-analysis", work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind::PermissionDenied;

    #[test]
    fn an_analysis_has_files_and_reaches_nothing_else_and_the_process_is_free_as_before() {
        let socket = || std::net::UdpSocket::bind("127.0.0.1:0").map(drop);
        let program = || std::process::Command::new("true").status().map(drop);
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a");
        let refused = with_files_alone(|| {
            std::fs::write(&file, "b")?;
            let sets = rustix::thread::capabilities(None)?;
            assert!(capabilities().contains(sets.permitted), "{sets:?}");
            Ok([socket(), program()].map(|outcome| outcome.map_err(|error| error.kind())))
        });
        assert_eq!(refused.unwrap(), [Err(PermissionDenied), Err(PermissionDenied)]);
        assert_eq!(std::fs::read(&file).unwrap(), b"b");
        socket().and_then(|()| program()).unwrap();
        let failed = with_files_alone(|| Err::<(), _>(anyhow::anyhow!("damaged")));
        assert_eq!(failed.unwrap_err().to_string(), "damaged");
    }
}
