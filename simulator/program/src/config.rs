//! `quaver sim config`: the simulated machine, printed or checked.

use super::{cure_file, machine_file};
use crate::args::SimConfigArgs;
use crate::digest::{Difference, differences};
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::{results, rights};
use quaver_sim::config::{COMMENTED_DEFAULT, Config};
use quaver_sim::cure::{COMMENTED_CURE, Cure, Library};
use std::path::Path;

/// Prints the default, or checks a file.
pub(super) fn run(args: &SimConfigArgs) -> anyhow::Result<ExitCode> {
    let Some(path) = &args.check else {
        let text = if args.cure { COMMENTED_CURE } else { COMMENTED_DEFAULT };
        results::to_stdout(text.as_bytes())?;
        return Ok(ExitCode::Done);
    };
    rights::keep_files();
    if args.cure {
        return check_cure(path);
    }
    let config = machine_file::read(Some(path), &[])?;
    let differences = differences(&config);
    let mut page = format!("{}: this machine can be simulated.\n", path.display());
    if differences.is_empty() {
        page.push_str("It is the default.\n");
    } else {
        page.push_str("It differs from the default in\n");
        for Difference { key, value, default } in &differences {
            page.push_str(&format!("  {key} = {value}  (default: {default})\n"));
        }
    }
    results::to_stdout(page.as_bytes())?;
    Ok(ExitCode::Done)
}

/// Checks a file of a cure, and what it names.
fn check_cure(path: &Path) -> anyhow::Result<ExitCode> {
    let file = cure_file::read(path)?;
    let mut page = format!("{}: this can be run on the default machine.\n", path.display());
    if let Some(library) = &file.library {
        let kernel = cure_file::kernel_activity(library)?;
        page.push_str(&format!("{}: {} epochs of kernel activity\n", library.display(), kernel.epochs.len()));
    }
    let on_default = Cure::new(file.config, &Config::default(), Library::default());
    on_default.map_err(|(name, expected)| {
        failure(ExitCode::BadInput, format!("{}: {name}: {expected}", path.display()))
    })?;
    results::to_stdout(page.as_bytes())?;
    Ok(ExitCode::Done)
}
