//! `quaver probe --log` and `quaver export --jitlat-log`: the packets of a path as logs of Jitlat, one a direction.

use crate::facts::PathFacts;
use crate::jitlat::digest::run_log_header;
use crate::jitlat_log::write_log;
use quaver_abi::wire::jitlat::Singleton;
use quaver_instrument::deliver::deliver;
use quaver_instrument::exit_code::{ExitCode, failure};
use std::path::{Path, PathBuf};

/// Writes a log of each flow, and gives their paths: that of one flow has the name as it is, those of more end with
/// `.up` and `.down`.
pub(crate) fn write(
    path: &Path,
    facts: &PathFacts,
    packets: &[impl AsRef<[Singleton]>],
) -> anyhow::Result<Vec<PathBuf>> {
    if facts.flows.len() > 1 && path == Path::new("-") {
        let message = "two directions need two logs: name a file, or choose a --direction";
        return Err(failure(ExitCode::Usage, message));
    }
    let mut written = Vec::new();
    for (flow, packets) in facts.flows.iter().zip(packets) {
        let header = run_log_header(facts, flow, quaver_clock::realtime_ns())?;
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
