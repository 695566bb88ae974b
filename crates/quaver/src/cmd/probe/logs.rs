//! `quaver probe --log` and `quaver export --jitlat-log`: the packets of a path as logs of Jitlat, one a direction.

use crate::cmd::deliver::deliver;
use crate::digest::jitlat::run_log_header;
use crate::exit_code::{ExitCode, failure};
use quaver_abi::wire::jitlat::Singleton;
use quaver_store::jitlat_log::write_log;
use quaver_store::path_facts::PathFacts;
use std::path::{Path, PathBuf};

/// Writes a log of each flow, and gives their paths: that of one flow has the name as it is, those of more end with
/// `.up` and `.down`.
pub(in crate::cmd) fn write(
    path: &Path,
    facts: &PathFacts,
    packets: &[impl AsRef<[Singleton]>],
) -> anyhow::Result<Vec<PathBuf>> {
    if facts.flows.len() > 1 && path == Path::new("-") {
        let message =
            "two directions are two logs, and standard output is one: name a file, or choose a --direction";
        return Err(failure(ExitCode::Usage, message));
    }
    let mut written = Vec::new();
    for (flow, packets) in facts.flows.iter().zip(packets) {
        let header = run_log_header(facts, flow, quaver_measure::clock::realtime_ns())?;
        let target = if facts.flows.len() == 1 {
            path.to_owned()
        } else {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}", flow.direction.name()));
            PathBuf::from(name)
        };
        deliver(&target, |out| Ok(write_log(out, &header, packets.as_ref())?))?;
        written.push(target);
    }
    Ok(written)
}
