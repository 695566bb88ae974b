//! `quaver lab run`: commands of this program in a guest. Also how any verb has a guest do something and hears it.

use crate::args::LabRunArgs;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_lab_guests::GuestError;
use quaver_lab_guests::image::{Image, Supplies};
use quaver_lab_guests::process::{Answer, Guest, Machine};
use quaver_lab_guests::store::LabStore;
use quaver_lab_guests::{CLOCKED, INTERFACE, PARAMETERS};
use quaver_study::verb::lab::GUEST_CPUS;
use quaver_study::verb::request::{Fault, FaultKind, GuestMessage, Request, Task};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between looks at the user's wish to end.
const TICK: Duration = Duration::from_millis(100);
/// A guest that is silent for so long is stuck.
const MOST_SILENCE: Duration = Duration::from_secs(900);
/// What stands between two commands.
const NEXT: &str = "+";

/// The stock kernel.
pub(super) const STOCK: &str = "kernel";
/// The one with real-time preemption.
pub(super) const REAL_TIME: &str = "kernel-rt";

/// A guest's kernel, what is on its command line, and what else the guest has.
#[derive(Debug)]
pub(super) struct GuestKind {
    pub(super) kernel: &'static str,
    pub(super) words: Vec<String>,
    pub(super) interface: &'static str,
    pub(super) supplies: Supplies,
}

impl GuestKind {
    /// With interfaces as in a study, and nothing more.
    pub(super) fn plain(kernel: &'static str, words: &[String]) -> Self {
        Self { kernel, words: words.to_vec(), interface: INTERFACE, supplies: Supplies::default() }
    }
}

/// Has a guest do a task, and hands over each of so many answers. Whether the user let it come to its end.
pub(super) fn in_guest(
    kind: &GuestKind,
    task: Task,
    answers: usize,
    interrupt: &Interrupt,
    mut hear: impl FnMut(GuestMessage) -> anyhow::Result<Heard>,
) -> anyhow::Result<bool> {
    let store = LabStore::standard();
    let missing = |error: GuestError| failure(ExitCode::Unsupported, error.to_string());
    let (emulator, kernel) =
        (store.emulator().map_err(missing)?, store.kernel(kind.kernel).map_err(missing)?);
    let parameters = if kind.interface == INTERFACE { PARAMETERS } else { "" }.to_owned();
    let request = Request { parameters, words: kind.words.clone(), task };
    let image = Image::build(&kernel, kind.interface, &serde_json::to_vec(&request)?, &kind.supplies)?;
    let machine = Machine {
        cpus: GUEST_CPUS,
        interface: kind.interface,
        words: kind.words.clone(),
        seed: 1,
        plugin: None,
        parallel: false,
    };
    let mut guest = Guest::start(&emulator, &kernel, &image, &machine, &["lab", "guest"])?;
    let (mut left, mut heard) = (answers, Instant::now());
    while left > 0 && !interrupt.requested() {
        match guest.answer(TICK)? {
            Answer::Line(line) => {
                heard = Instant::now();
                left -= 1;
                let said: Result<GuestMessage, _> = serde_json::from_str(&line);
                match said.map_err(|_| GuestError::Ended { why: format!("it said {line:.200}") })? {
                    GuestMessage::Failed(why) => {
                        let message = format!("the guest could not do it: {why}");
                        return Err(failure(ExitCode::Unsupported, message));
                    }
                    said => {
                        if hear(said)? == Heard::Enough {
                            return Ok(true);
                        }
                    }
                }
            }
            Answer::End if interrupt.requested() => break,
            Answer::End => return Err(guest.ended_early().into()),
            Answer::Nothing if heard.elapsed() > MOST_SILENCE => {
                let why = format!("it was silent for {} minutes", MOST_SILENCE.as_secs() / 60);
                return Err(GuestError::Ended { why }.into());
            }
            Answer::Nothing => {}
        }
    }
    Ok(left == 0)
}

/// Whether more answers are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The guest may end.
    Enough,
    /// It is to go on.
    GoOn,
}

/// What is to happen to the guest.
fn fault(args: &LabRunArgs) -> Option<Fault> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let what =
        args.step_clock.map(|by| FaultKind::StepClock(ns(by))).or(args.offline.map(FaultKind::Offline))?;
    Some(Fault { after_ns: ns(args.after), what })
}

/// Runs the commands and prints what they print.
pub(super) fn run(args: &LabRunArgs) -> anyhow::Result<ExitCode> {
    let commands: Vec<Vec<String>> =
        args.commands.split(|word| word == NEXT).map(<[String]>::to_vec).collect();
    if commands.iter().any(Vec::is_empty) {
        return Err(failure(ExitCode::Usage, "there is a + without a command on one of its sides"));
    }
    let programs = commands.iter().filter(|command| command[0].starts_with('/'));
    let files = programs.map(|command| PathBuf::from(&command[0])).chain(args.files.iter().cloned());
    let files: Vec<PathBuf> = files.collect();
    if let Some(path) = files.iter().find(|path| !path.is_absolute()) {
        let message =
            format!("--file {}: give an absolute path, since the guest has it there too", path.display());
        return Err(failure(ExitCode::Usage, message));
    }
    let kind = GuestKind {
        kernel: if args.rt { REAL_TIME } else { STOCK },
        words: args.boot.clone(),
        interface: if args.clocked { CLOCKED } else { INTERFACE },
        supplies: Supplies { modules: args.modules.clone(), files },
    };
    let interrupt = Interrupt::catch()?;
    let (count, mut status) = (commands.len(), Some(0));
    let task = Task::Commands { commands, fault: fault(args) };
    let done = in_guest(&kind, task, count, &interrupt, |said| {
        let GuestMessage::Output(output) = said else { return Ok(Heard::GoOn) };
        std::io::stderr().write_all(output.error.as_bytes())?;
        quaver_instrument::results::to_stdout(output.output.as_bytes())?;
        status = output.status;
        Ok(if status == Some(0) { Heard::GoOn } else { Heard::Enough })
    })?;
    if !done {
        return Ok(ExitCode::Interrupted);
    }
    use ExitCode::{BadInput, Bug, Done, Output, Peer, Threshold, Unsupported, Usage};
    let known = [Done, Threshold, Usage, Unsupported, Peer, BadInput, Output];
    Ok(known.into_iter().find(|code| status == Some(*code as i32)).unwrap_or(Bug))
}
