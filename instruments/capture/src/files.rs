//! Captures, ours or anybody's, as `quaver analyze` takes them.

use crate::digest;
use crate::view::document;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::registry::FileKind;
use quaver_instrument::results::{self, Found};
use quaver_instrument::runs::AnalyzeArgs;
use std::path::Path;

/// Files in pcapng or pcap.
pub(crate) struct Captures;

impl FileKind for Captures {
    fn missing(&self) -> &'static str {
        "no capture (pcapng, pcap or snoop)"
    }

    fn recognizes(&self, path: &Path) -> anyhow::Result<bool> {
        digest::is_capture(path)
    }

    fn analyze(&self, asked: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
        if asked.late.is_some() {
            let message = "--late is for runs of chase and sink; a capture has no schedule";
            return Err(failure(ExitCode::Usage, message));
        }
        let summary = digest::analyze(&asked.run, asked.layer)?;
        let value = serde_json::to_value(&summary)?;
        results::print(&Found::new(&value), || document(&summary), asked.json, &asked.fail_if)
    }
}
