//! The command line of `quaver sim trace`: types only.

use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// `quaver sim trace`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quaver sim trace -o ocean.qtrace -- ./ocean -p16
  quaver sim trace --info ocean.qtrace        what is in a trace; --json for programs
  quaver sim trace --armour ocean.qtrace      the same trace as text, and the other way round

The program runs unmodified in QEMU's emulator of single programs (qemu-user 7.2), some hundred
times slower than on the machine: a plugin sees each block of instructions and each access to
memory, and the recorder of `quaver sync`, loaded before the program's C library, sees how its
threads wait for each other.

In the trace: everything that the program and its libraries ran from the end of loading on, but not
the recorder. A call of the thread library that may wait, or wakes others, is one instruction that
changes the first word of its object, with a step that says what it did. A turn of a repeated string
instruction is an instruction. What the kernel does is not seen.

Its input and output are the program's own, and so is the status (128 + signal). Ctrl-C ends the
trace and the program, and keeps what was traced (status 130).

Static programs, scripts, and programs for other machines are refused. Programs that wait in futex
calls of their own (Rust, Go) are told.")]
pub struct SimTraceArgs {
    /// The program to trace, and its arguments
    #[arg(last = true, value_name = "PROGRAM", required_unless_present_any = ["info", "armour"], conflicts_with_all = ["info", "armour"])]
    pub program: Vec<OsString>,
    /// File for the trace [default: PROGRAM.qtrace]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Trace no more than about so many instructions of all threads together (10M, 2G); the program goes on
    #[arg(long, value_parser = instructions, value_name = "NUMBER", conflicts_with_all = ["info", "armour"])]
    pub limit: Option<u64>,
    /// Tell what is in a trace
    #[arg(long, value_name = "TRACE", conflicts_with = "armour")]
    pub info: Option<PathBuf>,
    /// Turn a trace into text (base64), or such a text into a trace; to standard output without --output
    #[arg(long, value_name = "TRACE")]
    pub armour: Option<PathBuf>,
    /// Of --info: as JSON (quaver.sim.trace/1)
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
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("`{text}` is no number of instructions: write for example 20M"))
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
