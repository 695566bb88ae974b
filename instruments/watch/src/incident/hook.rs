//! The user's hook: for each incident it starts a program and notifies a server, with the cause in one line.

use super::program;
use super::webhook::{Post, Webhook};
use crate::board::Incident;
use crate::config::HookSettings;
use anyhow::Context;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Tells of incidents.
pub(crate) struct Hook {
    settings: Option<HookSettings>,
    program: Option<Runner<Command>>,
    webhook: Option<Runner<Post>>,
}

/// A thread that tells of one incident at a time.
struct Runner<Job> {
    what: &'static str,
    jobs: Sender<(Job, Duration)>,
    busy: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Hook {
    /// Makes ready what tells of incidents, if something does. The thread that starts the program must run before the watch gives
    /// up the right to start programs, which that thread keeps.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(settings: Option<HookSettings>) -> anyhow::Result<Self> {
        let mut program = None;
        if settings.as_ref().is_some_and(|hook| !hook.command.is_empty()) {
            program = Some(Runner::start("hook", || |command, within| program::run(command, within)));
        }
        let program = program.transpose().context("start the hook's thread")?;
        let mut hook = Self { settings: None, program, webhook: None };
        hook.set(settings)?;
        Ok(hook)
    }

    /// Takes another program, where there is one, and another server, or the first.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn set(&mut self, settings: Option<HookSettings>) -> anyhow::Result<()> {
        self.settings = settings;
        if self.webhook.is_none() && self.settings.as_ref().is_some_and(|hook| hook.url.is_some()) {
            let webhook = Runner::start("webhook", || {
                let mut webhook = Webhook::confined();
                move |post, within| webhook.send(post, within)
            });
            self.webhook = Some(webhook.context("start the webhook's thread")?);
        }
        Ok(())
    }

    /// Tells of an incident of this leading cause. Watching does not wait for it. Who still has an earlier incident is not told, which
    /// is said.
    pub(super) fn tell(&mut self, incident: &Incident, cause: &str) {
        let Some(settings) = &self.settings else { return };
        if let Some((runner, command)) =
            self.program.as_ref().zip(program::command(settings, incident, cause))
        {
            runner.give(command, settings.within, &incident.run);
        }
        if let Some((runner, url)) = self.webhook.as_ref().zip(settings.url.as_ref()) {
            runner.give(Post::of(url, incident, cause), settings.within, &incident.run);
        }
    }

    /// Waits for a running program and a pending request, at most until their deadlines.
    pub(super) fn finish(&mut self) {
        self.program.take().into_iter().for_each(Runner::finish);
        self.webhook.take().into_iter().for_each(Runner::finish);
    }
}

impl<Job: Send + 'static> Runner<Job> {
    /// `ready` makes, in the thread, what does a job, and gives up the thread's rights: nothing begins before.
    fn start<Run: FnMut(Job, Duration)>(
        what: &'static str,
        ready: impl FnOnce() -> Run + Send + 'static,
    ) -> std::io::Result<Self> {
        let (jobs, asked) = channel::<(Job, Duration)>();
        let (unready, readied) = channel::<()>();
        let busy = Arc::new(AtomicBool::new(false));
        let working = Arc::clone(&busy);
        let thread = quaver_waiting::start(&format!("watch-{what}"), move || {
            let mut run = ready();
            drop(unready);
            for (job, within) in asked {
                run(job, within);
                working.store(false, Ordering::Relaxed);
            }
        })?;
        // It ends when the other end is dropped.
        let _ = readied.recv();
        Ok(Self { what, jobs, busy, thread })
    }

    fn give(&self, job: Job, within: Duration, run: &str) {
        let what = self.what;
        if self.busy.swap(true, Ordering::Relaxed) {
            return quaver_instrument::tell!(
                "quaver watch: the {what} still has an earlier incident, and was not told of {run}"
            );
        }
        // The thread ends when it is asked to, and not before.
        let _ = self.jobs.send((job, within));
    }

    fn finish(self) {
        drop(self.jobs);
        // A panic in it has been told by then.
        let _ = self.thread.join();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::time::Instant;

    fn hook(script: &str, within: Duration) -> Hook {
        let command = ["sh", "-c", script, "hook"].map(str::to_owned).to_vec();
        Hook::start(Some(HookSettings { command, url: None, within })).unwrap()
    }

    pub(in crate::incident) fn incident() -> Incident {
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
