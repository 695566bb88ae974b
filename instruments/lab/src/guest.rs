//! `quaver lab guest`: the first process of a guest. Mounts, loads the driver, does what it is asked (joins the two interfaces and
//! measures, say), says what it found, and powers the machine off.

use super::{faults, osnoise};
use anyhow::{Context, bail};
use quaver_clock::CounterSupport;
use quaver_host::netns::{Lab, bring_up_loopback};
use quaver_host::root::HostRoot;
use quaver_instrument::exit_code::{ExitCode, failure, sentence};
use quaver_instrument::host_state::{allowed_cpus, keep_off};
use quaver_instrument::interrupt::Interrupt;
use quaver_lab_guests::guest;
use quaver_lab_guests::guest::{SINK_ADDRESS, SOURCE_ADDRESS};
use quaver_study::verb::asked::StudyRequest;
use quaver_study::verb::cell::{self, Order};
use quaver_study::verb::request::{Fault, GuestMessage, Output, Request, Task};
use quaver_study_analysis::StampTable;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where working files lie; memory, as all in a guest.
const DIRECTORY: &str = "/tmp";

/// Does what the host asks. As the first process of a machine it does not come back.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    if !guest::is_first_process() || !Path::new(guest::REQUEST).exists() {
        let message = "lab guest is what a guest of the QEMU lab runs, and of no use elsewhere; see quaver study run --lab qemu";
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
    let request: Request = serde_json::from_slice(&guest::request()?).context("reading what is asked")?;
    let mut answers = guest::answers()?;
    let outcome = act(&request, &mut answers);
    if let Err(error) = &outcome {
        say(&mut answers, &GuestMessage::Failed(sentence(error)))?;
    }
    outcome
}

fn say(answers: &mut File, said: &GuestMessage) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(said)?;
    line.push(b'\n');
    answers.write_all(&line).context("answering the host")
}

fn act(request: &Request, answers: &mut File) -> anyhow::Result<()> {
    let root = HostRoot::system();
    guest::use_all_cpus(&root)?;
    let missing = guest::missing_words(&root, &request.words);
    if !missing.is_empty() {
        bail!("the kernel was not booted with {}", missing.join(" "));
    }
    guest::load_modules(&request.parameters)?;
    match &request.task {
        Task::Study { asked, cells } => study(&root, asked, cells, &request.words, answers),
        Task::Commands { commands, fault } => run_all(commands, *fault, answers),
        Task::Osnoise { duration_ns, tickers } => {
            let mut tell = |noise| say(answers, &GuestMessage::Noise(Box::new(noise)));
            osnoise::measure(*duration_ns, tickers, &mut tell)
        }
    }
}

/// Runs commands of this program, until one fails.
fn run_all(commands: &[Vec<String>], fault: Option<Fault>, answers: &mut File) -> anyhow::Result<()> {
    guest::mount_control_groups()?;
    bring_up_loopback().context("giving the guest a network")?;
    for words in commands {
        // A path is one of the host's programs, all else arguments of ours.
        let (program, arguments) = match words.split_first() {
            Some((first, rest)) if first.starts_with('/') => (first.into(), rest),
            _ => (std::env::current_exe().context("looking for this program")?, &words[..]),
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(DIRECTORY).stdin(Stdio::null());
        let ended = std::thread::scope(|scope| {
            let happens = fault.map(|fault| scope.spawn(move || faults::happen(fault)));
            let ended = command.output().with_context(|| format!("running {}", words.join(" ")));
            happens.map_or(Ok(()), |thread| thread.join().expect("a fault does not panic")).and(ended)
        })?;
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let output =
            Output { status: ended.status.code(), output: text(&ended.stdout), error: text(&ended.stderr) };
        say(answers, &GuestMessage::Output(output))?;
        if !ended.status.success() {
            break;
        }
    }
    Ok(())
}

fn study(
    root: &HostRoot,
    asked: &StudyRequest,
    cells: &[(u32, usize)],
    words: &[String],
    answers: &mut File,
) -> anyhow::Result<()> {
    let plan = asked.plan(&allowed_cpus()?)?;
    let source = guest::interface_with(root, SOURCE_ADDRESS)?;
    let sink = guest::interface_with(root, SINK_ADDRESS)?;
    // Its number is not to be seen any more once the interface is in a namespace of its own.
    let interrupt = guest::interrupt_of(root, &sink)?;
    let ends = Lab::between(&source, &sink)?;
    let at_boot = cell::AsFound::read(&ends)?;
    keep_off(&plan.settings.iter().flat_map(|one| [one.source_cpu, one.sink_cpu]).collect())?;
    let counter = CounterSupport::detect(Path::new("/")).counter;
    for &(block, arm) in cells {
        let directory = Path::new(DIRECTORY);
        let order = Order { plan: &plan, asked, block, position: 0, arm, directory };
        let settings = plan.settings.get(arm).context("the plan has no such arm")?;
        // What the cell before set goes; an arm says what it wants beyond.
        at_boot.put_back(&ends)?;
        guest::steer_interrupt(interrupt, settings.irq_cpu.unwrap_or(settings.sink_cpu))?;
        let measured = cell::measure(&order, Some(&ends), counter, &Interrupt::default())
            .with_context(|| format!("measuring {}", plan.facts.arms[arm].id))?;
        let mut measured = measured.context("nobody interrupts a guest")?;
        // They were looked for on the kernel's own command line.
        measured.cell.boot = words.to_vec();
        if !plan.keep_stamps {
            measured.stamps = StampTable::default();
        }
        say(answers, &GuestMessage::Cell(Box::new(measured)))?;
    }
    Ok(())
}
