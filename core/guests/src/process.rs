//! A guest at work: the emulator's process, what the guest answers, and its end.

use super::guest::{BOOTED, SINK_ADDRESS, SOURCE_ADDRESS};
use super::image::Image;
use super::store::{Emulator, Kernel};
use super::{CLOCKED, GuestError};
use crate::plugin::plugin_words;
use rustix::fs::MemfdFlags;
use rustix::process::Signal;
use rustix::thread::CpuSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Memory of a guest in MiB: a few times what a debug build of this program takes.
const MEMORY_MIB: u32 = 1024;
/// Microseconds of the guest after which the emulator turns to another of its processors. Without a timer that is so often due,
/// each would run for milliseconds while the others stand still.
const SLICE_US: u32 = 10;
/// Characters of the guest's console that are worth telling where it ended early.
const TAIL: usize = 1_000;
/// Has the kernel keep time by the processor's counter, which in virtual time is a clock; programs then need its instruction too.
const BY_COUNTER: &str = "clocksource=tsc";
/// Always on the kernel's command line: a console for what goes wrong, and an end instead of a halt. No word may stand here that
/// the kernel's main part does not know (`nokaslr` is one), since it hands those to the first process.
const WORDS: [&str; 4] = ["console=ttyS0", "quiet", "loglevel=4", "panic=-1"];

/// What kind of machine is emulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Processors.
    pub cpus: u16,
    /// Model of the two interfaces, which QEMU and the module of their driver have in common.
    pub interface: &'static str,
    /// Further words of the kernel's command line.
    pub words: Vec<String>,
    /// What the guest's randomness is drawn from.
    pub seed: u64,
    /// A plugin that the emulator loads, with the directory that its plan is in.
    pub plugin: Option<(PathBuf, PathBuf)>,
    /// The processors run side by side, each in a thread of the host, and time is the host's. Plugins need it where there are
    /// several: QEMU 10 tells them the processor that a block was translated for where processors take turns.
    pub parallel: bool,
}

/// A guest. It ends when this is dropped, and with this process, however that ends.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    console: File,
    /// What the emulator itself complains of.
    complaints: File,
    lines: Receiver<std::io::Result<String>>,
}

/// What there is from a guest.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// A line.
    Line(String),
    /// Nothing yet.
    Nothing,
    /// It has ended; no more will come.
    End,
}

impl Guest {
    /// Starts a guest whose first process is this program with `arguments`. The calling thread has to live as long as the
    /// guest is to.
    ///
    /// # Errors
    /// [`GuestError::Os`] where the emulator cannot be started.
    pub fn start(
        emulator: &Emulator,
        kernel: &Kernel,
        image: &Image,
        machine: &Machine,
        arguments: &[&str],
    ) -> Result<Self, GuestError> {
        let failed = |operation: &str, error: std::io::Error| GuestError::os(operation, error);
        let console = rustix::fs::memfd_create("quaver-console", MemfdFlags::CLOEXEC)
            .map_err(|error| failed("make room for the guest's console", error.into()))?;
        let console = File::from(console);
        let complaints = rustix::fs::memfd_create("quaver-complaints", MemfdFlags::CLOEXEC)
            .map_err(|error| failed("make room for what the emulator says", error.into()))?;
        let complaints = File::from(complaints);
        let mut command = emulator.command();
        command.args(fixed(machine));
        if let Some((plugin, control)) = &machine.plugin {
            command.arg("-plugin").arg(plugin_words(plugin, control));
        }
        command.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(inherited(image.archive.as_fd()));
        command.arg("-append").arg(command_line(&image.words, &machine.words, arguments));
        command.arg("-serial").arg(format!("file:{}", inherited(console.as_fd())));
        let (monitor, emulators_end) =
            UnixStream::pair().map_err(|error| failed("make a way to the emulator's monitor", error))?;
        command.arg("-chardev").arg(format!("socket,id=monitor,fd={}", emulators_end.as_raw_fd()));
        command.args(["-mon", "chardev=monitor,mode=control"]);
        // A Ctrl-C is for the study, which then ends its guest.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let told =
            complaints.try_clone().map_err(|error| failed("make room for what the emulator says", error))?;
        command.stderr(told);
        let kept = [image.archive.as_raw_fd(), console.as_raw_fd(), emulators_end.as_raw_fd()];
        let (parent, cpu) = (rustix::process::getpid(), (!machine.parallel).then(one_cpu));
        // SAFETY: between fork and exec only system calls are made, on descriptors that stay open until spawn returns;
        // nothing is allocated and no lock is taken.
        unsafe {
            command.pre_exec(move || {
                for fd in kept {
                    // SAFETY: the parent keeps all of them open until spawn has returned.
                    rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(fd), rustix::io::FdFlags::empty())?;
                }
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                // Where it is refused it is merely slower.
                if let Some(cpu) = &cpu {
                    let _ = rustix::thread::sched_setaffinity(None, cpu);
                }
                // The parent may have gone before the line above.
                if rustix::process::getppid() == Some(parent) {
                    Ok(())
                } else {
                    Err(std::io::ErrorKind::Other.into())
                }
            })
        };
        let operation = format!("start {}", emulator.program.display());
        let mut child =
            command.spawn().map_err(|error| failed(&operation, quaver_waiting::none_to_be_had(error)))?;
        let (tell, lines) = channel();
        let answers = BufReader::new(child.stdout.take().expect("it was piped"));
        let takes_turns = !machine.parallel;
        let started = quaver_waiting::start("quaver-guest", move || {
            for line in answers.lines() {
                let line = match line {
                    Ok(line) if line == BOOTED => {
                        let sliced = if takes_turns { slice(&monitor) } else { Ok(()) };
                        let Err(error) = sliced else { continue };
                        Err(error)
                    }
                    line => line,
                };
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let guest = Self { child, console, complaints, lines };
        started.map_err(|error| failed("start a thread that hears the guest", error))?;
        Ok(guest)
    }

    /// The next line that the guest says, waited for at most so long.
    ///
    /// # Errors
    /// [`GuestError::Os`] where the emulator cannot be heard.
    pub fn answer(&mut self, most_wait: Duration) -> Result<Answer, GuestError> {
        match self.lines.recv_timeout(most_wait) {
            Ok(Ok(line)) => Ok(Answer::Line(line)),
            Ok(Err(error)) => Err(GuestError::os("hear the guest", error)),
            Err(RecvTimeoutError::Timeout) => Ok(Answer::Nothing),
            Err(RecvTimeoutError::Disconnected) => Ok(Answer::End),
        }
    }

    /// The end of what the guest's console showed, where it showed anything.
    pub fn console_tail(&mut self) -> String {
        tail(&text_of(&mut self.console))
    }

    /// The error for a guest that ended although more was asked of it.
    pub fn ended_early(&mut self) -> GuestError {
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let console = self.console_tail();
        let console = if console.is_empty() { "its console is empty".to_owned() } else { console };
        // Warnings come of every guest: its interfaces have no host behind them.
        let complaints = text_of(&mut self.complaints);
        let complaints: String = complaints
            .lines()
            .filter(|line| !line.contains("warning: "))
            .flat_map(|line| [line, "; "])
            .collect();
        GuestError::Ended { why: format!("QEMU {status}; {complaints}{console}") }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // A guest that has powered itself off is no longer there to be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All of a file in memory; what cannot be read is left out.
fn text_of(file: &mut File) -> String {
    let mut octets = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut octets));
    if read.is_ok() { String::from_utf8_lossy(&octets).into_owned() } else { String::new() }
}

/// The last CPU that this process may use. The emulator's threads take turns, every few microseconds of the guest: on one CPU
/// that is a switch, on two an interrupt to the other.
fn one_cpu() -> CpuSet {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let mut one = CpuSet::new();
    (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)).into_iter().for_each(|cpu| one.set(cpu));
    one
}

/// The end of a console's text: what the first process said, else what the kernel did.
fn tail(text: &str) -> String {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let said: Vec<&str> = lines().filter(|line| !line.starts_with('[')).collect();
    let all = if said.is_empty() { lines().collect::<Vec<_>>().join(" | ") } else { said.join(" | ") };
    let from = all.char_indices().rev().nth(TAIL - 1).map_or(0, |(at, _)| at);
    all[from..].to_owned()
}

/// A descriptor that the emulator inherits, by name.
fn inherited(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// The machine: one thread, time by instructions (one a nanosecond) that does not wait for the host's while the guest idles;
/// or all processors side by side.
fn fixed(machine: &Machine) -> Vec<String> {
    let accelerator = if machine.parallel {
        "-accel tcg,thread=multi"
    } else {
        "-accel tcg,thread=single -icount shift=0,sleep=off"
    };
    // An igb leaves no room on its bus for another: its virtual functions take it.
    let (ports, source_bus, sink_bus) = if machine.interface == CLOCKED {
        (
            "-device pcie-root-port,id=port0,chassis=1 -device pcie-root-port,id=port1,chassis=2",
            ",bus=port0",
            ",bus=port1",
        )
    } else {
        ("", "", "")
    };
    let processor =
        if machine.words.iter().any(|word| word == BY_COUNTER) { "-cpu qemu64,+rdtscp" } else { "" };
    let text = format!(
        "-nodefaults -no-user-config -display none -no-reboot -M q35 {accelerator} {processor} \
         -smp {} -m {MEMORY_MIB} -rtc base=2026-01-01T00:00:00,clock=vm -seed {} {ports} \
         -netdev hubport,id=source,hubid=0 -device {model},netdev=source,romfile=,mac={SOURCE_ADDRESS}{source_bus} \
         -netdev hubport,id=sink,hubid=0 -device {model},netdev=sink,romfile=,mac={SINK_ADDRESS}{sink_bus} \
         -netdev hubport,id=slice,hubid=1 \
         -device virtio-serial-pci -chardev file,id=answers,path=/proc/self/fd/1 -device virtserialport,chardev=answers,nr=1",
        machine.cpus,
        machine.seed,
        model = machine.interface
    );
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Has the emulator make the timer of [`SLICE_US`], by QEMU's machine protocol. From the beginning it would double the time of
/// a boot.
fn slice(monitor: &UnixStream) -> std::io::Result<()> {
    let wanted = format!(
        r#"{{"execute":"qmp_capabilities"}}
{{"execute":"object-add","arguments":{{"qom-type":"filter-buffer","id":"slicer","netdev":"slice","interval":{SLICE_US}}}}}
"#
    );
    (&mut &*monitor).write_all(wanted.as_bytes())?;
    let mut done = 0;
    // A greeting and events stand between the two answers.
    for line in BufReader::new(monitor).lines() {
        let line = line?;
        if line.starts_with(r#"{"error""#) {
            return Err(std::io::Error::other(format!(
                "QEMU makes no timer for the turns of its processors: {line}"
            )));
        }
        done += u32::from(line.starts_with(r#"{"return""#));
        if done == 2 {
            return Ok(());
        }
    }
    Err(std::io::ErrorKind::UnexpectedEof.into())
}

/// The kernel's command line; what follows `--` is for the first process.
fn command_line(image: &[String], further: &[String], arguments: &[&str]) -> String {
    let words = WORDS.into_iter().chain(image.iter().chain(further).map(String::as_str));
    words.chain(["--"]).chain(arguments.iter().copied()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_ends_with_what_the_first_process_is_told() {
        let line = command_line(&["A=b".into()], &["nohz_full=1".into()], &["lab", "guest"]);
        assert_eq!(line, "console=ttyS0 quiet loglevel=4 panic=-1 A=b nohz_full=1 -- lab guest");
    }

    #[test]
    fn what_the_first_process_said_is_told_rather_than_the_kernels_last_words() {
        let text = "quaver: no such thing\r\n[    2.3] Kernel panic\r\n[    2.4] Call Trace:\r\n";
        assert_eq!(tail(text), "quaver: no such thing");
        assert_eq!(
            tail("[    2.3] Kernel panic\n\n[    2.4] end\n"),
            "[    2.3] Kernel panic | [    2.4] end"
        );
        assert_eq!(tail(&"é".repeat(TAIL * 2)).chars().count(), TAIL);
        assert_eq!(tail(""), "");
    }

    #[test]
    fn a_timer_that_the_emulator_does_not_make_is_an_error() {
        let answers = |said: &str| {
            let (ours, mut emulators) = UnixStream::pair().unwrap();
            emulators.write_all(said.as_bytes()).unwrap();
            let mut asked = BufReader::new(emulators);
            let thread = std::thread::spawn(move || {
                let lines = [(); 2].map(|()| {
                    let mut line = String::new();
                    asked.read_line(&mut line).unwrap();
                    line
                });
                assert!(
                    lines[0].contains("qmp_capabilities") && lines[1].contains("\"interval\":10"),
                    "{lines:?}"
                );
            });
            let sliced = slice(&ours).map_err(|error| error.to_string());
            thread.join().unwrap();
            sliced
        };
        let greeting = "{\"QMP\": {}}\r\n";
        assert_eq!(
            answers(&format!(
                "{greeting}{{\"return\": {{}}}}\r\n{{\"event\": 1}}\r\n{{\"return\": {{}}}}\r\n"
            )),
            Ok(())
        );
        let refused =
            format!("{greeting}{{\"return\": {{}}}}\r\n{{\"error\": {{\"desc\": \"no netdev\"}}}}\r\n");
        assert!(answers(&refused).unwrap_err().contains("no netdev"));
        assert!(answers(greeting).is_err());
    }

    #[test]
    fn time_is_virtual_and_the_interfaces_share_a_hub_that_the_slicer_does_not() {
        let machine = Machine {
            cpus: 3,
            interface: "e1000e",
            words: Vec::new(),
            seed: 7,
            plugin: None,
            parallel: false,
        };
        let arguments = fixed(&machine);
        let after = |option: &str| {
            let at = arguments.iter().enumerate().filter(|(_, one)| *one == option).map(|(at, _)| at + 1);
            at.map(|at| arguments[at].clone()).collect::<Vec<_>>()
        };
        assert_eq!(after("-accel"), ["tcg,thread=single"]);
        assert_eq!(after("-icount"), ["shift=0,sleep=off"]);
        assert_eq!((after("-smp"), after("-seed")), (vec!["3".into()], vec!["7".into()]));
        let hubs = after("-netdev");
        assert_eq!(hubs.iter().filter(|one| one.ends_with("hubid=0")).count(), 2, "{hubs:?}");
        assert_eq!(hubs.iter().filter(|one| one.ends_with("hubid=1")).count(), 1, "{hubs:?}");
        assert_eq!(after("-device").iter().filter(|one| one.starts_with("e1000e,")).count(), 2);
        let side_by_side = fixed(&Machine { parallel: true, ..machine });
        assert!(
            side_by_side.contains(&"tcg,thread=multi".into()) && !side_by_side.contains(&"-icount".into())
        );
    }
}
