//! The user's hook: a program that is started for each incident, with the cause in one line.

use crate::board::Incident;
use crate::config::HookSettings;
use anyhow::Context;
use quaver_store::utc::rfc3339_utc_ms;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks at the program.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the program, one at a time.
pub(crate) struct Hook {
    settings: Option<HookSettings>,
    runner: Option<Runner>,
}

/// The thread that starts the program.
struct Runner {
    jobs: Sender<(Command, Duration)>,
    busy: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Hook {
    /// Makes ready what starts the program, if there is one: a thread that must run before the watch gives up the right to start
    /// programs, for it keeps that right.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(settings: Option<HookSettings>) -> anyhow::Result<Self> {
        let runner =
            settings.as_ref().map(|_| Runner::start()).transpose().context("start the hook's thread")?;
        Ok(Self { settings, runner })
    }

    /// Takes another program, where there is one.
    pub(super) fn set(&mut self, settings: Option<HookSettings>) {
        self.settings = settings;
    }

    /// Starts the program for an incident of this leading cause. Watching does not wait for it. While it still runs for an
    /// earlier incident, that is said and it is not started again.
    pub(super) fn tell(&mut self, incident: &Incident, cause: &str) {
        let Some((settings, runner)) = self.settings.as_ref().zip(self.runner.as_ref()) else { return };
        let Some(command) = command(settings, incident, cause) else { return };
        if runner.busy.swap(true, Ordering::Relaxed) {
            quaver_instrument::tell!(
                "quaver watch: the hook still runs for an earlier incident, and was not started for {}",
                incident.run
            );
            return;
        }
        // The thread ends when it is asked to, and not before.
        let _ = runner.jobs.send((command, settings.within));
    }

    /// Waits for the program that runs, which is ended after its time.
    pub(super) fn finish(&mut self) {
        let Some(Runner { jobs, thread, .. }) = self.runner.take() else { return };
        drop(jobs);
        // A panic in it has been told by then.
        let _ = thread.join();
    }
}

impl Runner {
    fn start() -> std::io::Result<Self> {
        let (jobs, asked) = channel::<(Command, Duration)>();
        let busy = Arc::new(AtomicBool::new(false));
        let working = Arc::clone(&busy);
        let thread = quaver_waiting::start("watch-hook", move || {
            for (mut command, within) in asked {
                run(&mut command, within);
                working.store(false, Ordering::Relaxed);
            }
        })?;
        Ok(Self { jobs, busy, thread })
    }
}

/// The program with the incident as its last argument, and its parts as variables.
fn command(settings: &HookSettings, incident: &Incident, cause: &str) -> Option<Command> {
    let (program, arguments) = settings.command.split_first()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(format!("{}: {}: {}", incident.subject, incident.reasons, incident.words))
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

fn run(command: &mut Command, within: Duration) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(script: &str, within: Duration) -> Hook {
        let command = ["sh", "-c", script, "hook"].map(str::to_owned).to_vec();
        Hook::start(Some(HookSettings { command, within })).unwrap()
    }

    fn incident() -> Incident {
        Incident {
            trigger_realtime_ns: 1_795_193_880_012_345_678,
            subject: "decoder".to_owned(),
            run: "incidents/a".to_owned(),
            count: 2,
            reasons: "a packet waited 20.00 ms in this host".to_owned(),
            words: "97 % receiver stopped by a signal (stopped)".to_owned(),
            ..Incident::default()
        }
    }

    #[test]
    fn the_program_has_the_incident_as_one_line_and_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("told");
        let script =
            format!("echo \"$1|$QUAVER_RUN|$QUAVER_COUNT|$QUAVER_CAUSE|$QUAVER_TIME\" > {}", place.display());
        let mut hook = hook(&script, Duration::from_secs(60));
        hook.tell(&incident(), "stopped");
        hook.finish();
        let told = std::fs::read_to_string(place).unwrap();
        let line =
            "decoder: a packet waited 20.00 ms in this host: 97 % receiver stopped by a signal (stopped)";
        assert_eq!(told, format!("{line}|incidents/a|2|stopped|2026-11-20T16:58:00.012Z\n"));
    }

    #[test]
    fn one_that_does_not_end_is_ended_and_meanwhile_not_started_again() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("told");
        let script = format!("echo x >> {}; exec sleep 600", place.display());
        let mut hook = hook(&script, Duration::from_millis(1_500));
        let start = Instant::now();
        hook.tell(&incident(), "stopped");
        hook.tell(&incident(), "stopped");
        hook.finish();
        assert!(start.elapsed() < Duration::from_secs(300));
        assert_eq!(std::fs::read_to_string(place).unwrap(), "x\n");
    }
}
