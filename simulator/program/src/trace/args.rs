//! The command line of `quaver sim trace`: types only.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// `quaver sim trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sim trace -o ocean.qtrace -- ./ocean -p16
  quaver sim trace --info ocean.qtrace        what is in a trace; --json for programs
  quaver sim trace --armour ocean.qtrace      the same trace as text, and the other way round
  quaver sim trace --system --entries 50M -o kernel.qepochs
  quaver sim trace --thin kernel.qepochs --octets 300k -o small.qepochs

The program runs unmodified in QEMU's emulator of single programs (qemu-user 7.2), some hundred
times slower than on the machine: a plugin sees each block of instructions and each access to
memory, and the recorder of `quaver sync`, loaded before the program's C library, sees how its
threads wait for each other.

In the trace: everything that the program and its libraries ran from the end of loading on, but not
the recorder. A call of the thread library that may wait, or wakes others, is one instruction that
changes the first word of its object, with a step that says what it did. A turn of a repeated string
instruction is an instruction. What the kernel does is not seen.

Threads take turns of about a thousand instructions, so that work which they draw from a queue is
divided as if each had a processor, however few this machine has. Two traces of such a program
are not the same.

Its input and output are the program's own, and so is the status (128 + signal). Ctrl-C ends the
trace and the program, and keeps what was traced (status 130).

With --system, what a kernel does: a guest of the QEMU lab (`quaver lab fetch` once) boots Debian's
kernel, and a plugin in QEMU cuts all that the kernel runs at each entry, exit and change of tasks
into epochs, each with its blocks and accesses and what it was: a system call and its number, the
timer, a device, a page fault, a thread of the kernel's own and its name. The guest keeps its kernel
busy itself: futexes, timers, files, sockets, packets through two devices, page faults, memory that
runs out, processes. With --cpus 1 time goes by instructions; several processors run side by side in
the host's time. No two runs are the same, and a library is what was seen once. The library is what `quaver sim run --cure` runs for injected jitter (library = 'FILE' in cure.toml).

Static programs, scripts, and programs for other machines are refused. Programs that wait in futex
calls of their own (Rust, Go) are told.")]
pub struct SimTraceArgs {
    /// The program to trace, and its arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM", required_unless_present_any = ["info", "armour", "system", "thin"], conflicts_with_all = ["info", "armour", "system", "thin"])]
    pub program: Vec<OsString>,
    /// File for the trace [default: PROGRAM.qtrace; of --system kernel.qepochs]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Trace no more than about so many instructions of all threads together (10M, 2G); the program goes on
    #[arg(long, value_parser = instructions, value_name = "NUMBER", conflicts_with_all = ["info", "armour", "system", "thin"])]
    pub limit: Option<u64>,
    /// Trace what the kernel of a guest does, instead of a program
    #[arg(long, conflicts_with_all = ["info", "armour", "thin"])]
    pub system: bool,
    /// Of --system: end after about so many entries, one an instruction of the kernel (10M, 2G)
    #[arg(long, value_parser = instructions, value_name = "NUMBER", requires = "system")]
    pub entries: Option<u64>,
    /// Of --system: end after so long, boot not counted; what comes first counts [default, without --entries: 30s]
    #[arg(long = "for", value_parser = humantime::parse_duration, value_name = "TIME", requires = "system")]
    pub duration: Option<Duration>,
    /// Of --system: processors of the guest
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=16), default_value_t = 4, value_name = "NUMBER", requires = "system")]
    pub cpus: u16,
    /// Of --system: what the guest's randomness is drawn from
    #[arg(long, default_value_t = 1, value_name = "NUMBER", requires = "system")]
    pub seed: u64,
    /// Choose epochs of a library of kernel activity, of all kinds and durations, for a smaller one
    #[arg(long, value_name = "LIBRARY", requires = "output", conflicts_with_all = ["info", "armour"])]
    pub thin: Option<PathBuf>,
    /// Of --thin: bytes that it may have (300k, 5M)
    #[arg(long, value_parser = instructions, default_value = "300k", value_name = "NUMBER", requires = "thin")]
    pub octets: u64,
    /// Tell what is in a trace, or in a library of kernel activity
    #[arg(long, value_name = "TRACE", conflicts_with = "armour")]
    pub info: Option<PathBuf>,
    /// Turn a trace into text (base64), or such a text into a trace; to standard output without --output
    #[arg(long, value_name = "TRACE")]
    pub armour: Option<PathBuf>,
    /// Of --info: as JSON (quaver.sim.trace/1, quaver.sim.epochs/1)
    #[arg(long, requires = "info")]
    pub json: bool,
    /// No progress and no closing line
    #[arg(short, long)]
    pub quiet: bool,
}

/// Reads `10M`.
fn instructions(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.parse().ok().and_then(|number: u64| number.checked_mul(factor));
    number.filter(|number| *number > 0).ok_or_else(|| format!("`{text}` is no number: write for example 20M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_instructions_are_read() {
        assert_eq!(instructions("500"), Ok(500));
        assert_eq!(instructions("20M"), Ok(20_000_000));
        assert_eq!(instructions("1k"), Ok(1_000));
        for wrong in ["", "0", "M", "-1", "1.5M", "99999999999G"] {
            assert!(instructions(wrong).is_err(), "{wrong}");
        }
    }
}
