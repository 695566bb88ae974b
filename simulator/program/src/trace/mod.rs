//! `quaver sim trace`: a program's trace, a library of kernel activity, and what is in one.

pub(crate) mod args;

mod activity;
mod armour;
mod control;
pub(crate) mod guest;
mod info;
mod info_epochs;
mod record;
mod system;
mod thin;

use crate::trace::args::SimTraceArgs;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::rights;

/// Traces a program, or looks at a trace. Of a program that was traced, the process ends here with its status.
pub(super) fn run(args: &SimTraceArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = [&args.info, &args.armour, &args.thin].into_iter().flatten().next() {
        let place = args.output.as_deref().map(rights::place_of);
        rights::keep(&[path], place.as_slice());
    }
    if let Some(path) = &args.info {
        return info::run(path, args.json);
    }
    if let Some(path) = &args.armour {
        return armour::run(path, args.output.as_deref());
    }
    if let Some(path) = &args.thin {
        return thin::run(path, args);
    }
    if args.system {
        return system::run(args);
    }
    let status = record::run(args)?;
    // The program's own status is none of ours, so it does not pass through them.
    std::process::exit(i32::from(status))
}
