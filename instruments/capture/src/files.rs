//! Captures, ours or anybody's, as `quaver analyze` takes them.

use crate::digest;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::registry::FileKind;
use quaver_instrument::results;
use quaver_instrument::runs::AnalyzeArgs;
use std::path::Path;

/// Files in pcapng or pcap.
pub(crate) struct Captures;

impl FileKind for Captures {
    fn missing(&self) -> &'static str {
        "no capture (pcapng or pcap)"
    }

    fn recognizes(&self, path: &Path) -> anyhow::Result<bool> {
        digest::is_capture(path)
    }

    fn analyze(&self, asked: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
        if asked.late.is_some() {
            let message = "--late is for runs of chase and sink; a capture tells no schedule to be late for";
            return Err(failure(ExitCode::Usage, message));
        }
        let digest = digest::analyze(&asked.run, asked.layer)?;
        let summary = serde_json::to_value(&digest.summary)?;
        results::print(&summary, || digest.page(), asked.json, &asked.fail_if)
    }
}
