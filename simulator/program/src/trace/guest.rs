//! The first process of a guest whose kernel is traced. It mounts, loads the driver, keeps the kernel busy, and powers the
//! machine off where it cannot.

use super::activity;
use anyhow::Context;
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure, sentence};
use quaver_lab_guests::{PARAMETERS, guest};
use std::io::Write;
use std::path::Path;

/// Keeps the kernel busy. As the first process of a machine it does not come back.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    if !guest::is_first_process() || !Path::new(guest::REQUEST).exists() {
        let message = "sim guest is what a guest of quaver sim trace --system runs, and of no use elsewhere";
        return Err(failure(ExitCode::Usage, message));
    }
    // A panic must not leave the machine running: the kernel would wait for its first process.
    let done = std::panic::catch_unwind(serve);
    if let Ok(Err(error)) = done {
        quaver_instrument::tell!("quaver: {}", sentence(&error));
    }
    guest::power_off();
    Ok(ExitCode::Bug)
}

fn serve() -> anyhow::Result<()> {
    guest::mount_all()?;
    let outcome = act();
    if let Err(error) = &outcome {
        writeln!(guest::answers()?, "{}", sentence(error)).context("answering the host")?;
    }
    outcome
}

fn act() -> anyhow::Result<()> {
    let root = HostRoot::system();
    guest::use_all_cpus(&root)?;
    guest::load_modules(PARAMETERS)?;
    activity::run(&root)
}
