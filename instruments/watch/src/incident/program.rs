//! The program that is started for an incident.

use crate::board::Incident;
use crate::config::HookSettings;
use quaver_store::utc::rfc3339_utc_ms;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time between two looks at the program.
const LOOK: Duration = Duration::from_millis(20);

/// The program with the incident as its last argument, and its parts as variables.
pub(super) fn command(settings: &HookSettings, incident: &Incident, cause: &str) -> Option<Command> {
    let (program, arguments) = settings.command.split_first()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(incident.line())
        .env("QUAVER_RECEIVER", &incident.subject)
        .env("QUAVER_TIME", rfc3339_utc_ms(incident.trigger_realtime_ns))
        .env("QUAVER_RUN", &incident.run)
        .env("QUAVER_COUNT", incident.count.to_string())
        .env("QUAVER_REASONS", &incident.reasons)
        .env("QUAVER_CAUSE", cause)
        .env("QUAVER_WORDS", &incident.words)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Some(command)
}

/// Starts it, and ends it after its time.
pub(super) fn run(mut command: Command, within: Duration) {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return quaver_instrument::tell!(
                "quaver watch: start the hook {program}: {error}; check hook.command"
            );
        }
    };
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(None) if start.elapsed() < within => std::thread::sleep(LOOK),
            Ok(None) => {
                quaver_instrument::tell!("quaver watch: the hook {program} was ended after {within:?}");
                break quaver_waiting::end_program(&mut child).map(|_| None);
            }
            Ok(status) => break Ok(status),
            Err(error) => break Err(error),
        }
    };
    match status {
        Ok(Some(status)) if !status.success() => {
            quaver_instrument::tell!("quaver watch: the hook {program} ended with {status}");
        }
        Err(error) => quaver_instrument::tell!("quaver watch: wait for the hook {program}: {error}"),
        Ok(_) => {}
    }
}
