//! `quaver analyze FILE`: a log of Jitlat with everything that the analysis of a path knows.

use crate::digest::digest;
use crate::jitlat::digest::{made, path_facts};
use crate::jitlat_log::{is_jitlat_log, read_log};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::results;
use quaver_instrument::runs::AnalyzeArgs;

/// Analyses and prints; a log is left as it is.
pub fn analyze(args: &AnalyzeArgs) -> anyhow::Result<ExitCode> {
    let path = &args.run;
    if args.late.is_some() {
        let message = "--late is for runs of chase and sink; a log of Jitlat has no schedule to be late for";
        return Err(failure(ExitCode::Usage, message));
    }
    if !is_jitlat_log(path)? {
        let message = format!(
            "read {}: not a run directory, no capture (pcapng or pcap), and no log of Jitlat either, which begins with `# ` and \
             the date",
            path.display()
        );
        return Err(failure(ExitCode::BadInput, message));
    }
    let (header, packets) = read_log(path)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let mut digest = digest(&path_facts(&header), &[packets], name);
    digest.started = made(&header);
    let summary = serde_json::to_value(&digest.summary)?;
    results::print(&summary, || digest.page(None), args.json, &args.fail_if)
}
