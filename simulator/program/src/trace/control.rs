//! The directory through which the tool and the plugin in QEMU talk; the plugin's side draws it.

use anyhow::Context;
use quaver_trace::epochs::EpochFacts;
use quaver_trace::file::Facts;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How far a trace is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Instructions of all threads.
    pub(super) instructions: u64,
    /// Threads so far, or epochs of a kernel.
    pub(super) threads: u64,
    /// Bytes of the file.
    pub(super) octets: u64,
    /// What became of it.
    pub(super) state: TraceState,
    /// For how long it has gone on; of systems only.
    pub(super) traced: Duration,
}

/// What became of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TraceState {
    /// It did not begin, or did not say so.
    #[default]
    Silent,
    /// It goes on.
    Runs,
    /// It is whole.
    Whole,
    /// It could not be written.
    Failed,
}

/// The directory; it is gone when this is dropped.
#[derive(Debug)]
pub(super) struct Control {
    place: tempfile::TempDir,
}

impl Control {
    /// Says what is to be traced, and where to.
    pub(super) fn begin(trace: &Path, facts: &Facts, limit: Option<u64>) -> anyhow::Result<Self> {
        Self::plan(&serde_json::json!({ "trace": trace, "facts": facts, "limit": limit }))
    }

    /// The same of a system.
    pub(super) fn begin_system(
        library: &Path,
        facts: &EpochFacts,
        limit: Option<u64>,
    ) -> anyhow::Result<Self> {
        Self::plan(&serde_json::json!({ "trace": library, "system-facts": facts, "limit": limit }))
    }

    fn plan(plan: &serde_json::Value) -> anyhow::Result<Self> {
        let place = tempfile::tempdir().context("making a directory to talk to QEMU through")?;
        std::fs::write(place.path().join("plan.json"), plan.to_string())
            .with_context(|| format!("writing to {}", place.path().display()))?;
        Ok(Self { place })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Asks for the end of the trace.
    pub(super) fn stop(&self) {
        // Where that fails, the program's end is the trace's.
        let _ = std::fs::write(self.place.path().join("stop"), "");
    }

    /// How far it is.
    pub(super) fn progress(&self) -> Progress {
        std::fs::read(self.place.path().join("progress"))
            .map_or_else(|_| Progress::default(), |octets| progress(&octets))
    }

    /// Why it is not whole, if the plugin says so.
    pub(super) fn failure(&self) -> Option<String> {
        std::fs::read_to_string(self.place.path().join("failure")).ok()
    }
}

fn progress(octets: &[u8]) -> Progress {
    let number = |place: usize| {
        let octets = octets.get(place * 8..place * 8 + 8).and_then(|octets| octets.try_into().ok());
        octets.map_or(0, u64::from_le_bytes)
    };
    let state = match number(3) {
        1 => TraceState::Runs,
        2 => TraceState::Whole,
        3 => TraceState::Failed,
        _ => TraceState::Silent,
    };
    let traced = Duration::from_nanos(number(4));
    Progress { instructions: number(0), threads: number(1), octets: number(2), state, traced }
}

/// The name of the file while it is not whole.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_far_as_it_was_written() {
        assert_eq!(progress(&[]), Progress::default());
        let octets: Vec<u8> = [7_u64, 16, 300, 2, 0].iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(
            progress(&octets),
            Progress {
                instructions: 7,
                threads: 16,
                octets: 300,
                state: TraceState::Whole,
                traced: Duration::ZERO
            }
        );
        assert_eq!(
            progress(&octets[..20]),
            Progress { octets: 0, state: TraceState::Silent, ..progress(&octets) }
        );
    }

    #[test]
    fn what_is_asked_is_written_and_the_directory_does_not_stay() {
        let control = Control::begin(Path::new("/x/y.part"), &Facts::default(), Some(5)).unwrap();
        let place = control.path().to_owned();
        let plan: serde_json::Value =
            serde_json::from_slice(&std::fs::read(place.join("plan.json")).unwrap()).unwrap();
        assert_eq!((plan["trace"].as_str(), plan["limit"].as_u64()), (Some("/x/y.part"), Some(5)));
        control.stop();
        assert!(place.join("stop").exists() && control.failure().is_none());
        drop(control);
        assert!(!place.exists());
    }
}
