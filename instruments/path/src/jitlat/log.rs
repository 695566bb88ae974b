//! Logs of Jitlat, as `quaver analyze` takes them: with everything that the analysis of a path knows.

use crate::digest::digest;
use crate::jitlat::digest::{made, path_facts};
use crate::jitlat_log::{is_jitlat_log, read_log};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::facts::RunFacts;
use quaver_instrument::registry::FileKind;
use quaver_instrument::results;
use quaver_instrument::runs::AnalyzeArgs;
use std::path::Path;

/// Logs of Jitlat.
pub(crate) struct Logs;

impl FileKind for Logs {
    fn missing(&self) -> &'static str {
        "no Jitlat log, which begins with `# ` and the date"
    }

    fn recognizes(&self, path: &Path) -> anyhow::Result<bool> {
        Ok(is_jitlat_log(path)?)
    }

    fn analyze(&self, asked: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
        let refuse = |message| Err(failure(ExitCode::Usage, message));
        if asked.late.is_some() {
            return refuse(
                "--late is for runs of chase and sink; a log of Jitlat has no schedule to be late for",
            );
        }
        if asked.layer.is_some() {
            return refuse("--layer is for captures, whose packets are stamped at several layers");
        }
        let path = &asked.run;
        let (header, packets) = read_log(path)?;
        let log = RunFacts {
            name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            verb: "analyze".to_owned(),
            started: made(&header),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..RunFacts::default()
        };
        let digest = digest(&path_facts(&header), &[packets], log);
        let summary = serde_json::to_value(&digest.summary)?;
        results::print(&results::Found::new(&summary), || digest.document(), asked.json, &asked.fail_if)
    }
}
