//! What Valgrind's lackey prints with `--trace-mem=yes`: a line an instruction and a line an access of it.
//!
//! ```text
//! I  04001234,3      an instruction, its address (hexadecimal) and length
//!  L 1ffeffe7e0,8    it reads          S … it writes          M … it reads and writes the same place
//! ==12345== …        what Valgrind says besides
//! ```
//! Which instructions jump is told by where the next one is. Threads are not told apart, so that only a program of one thread
//! gives a true trace.

use super::stitch::{Execution, Refused, Stitch};
use super::text::{Lines, hexadecimal};
use super::{ImportError, Imported, Source, facts};
use crate::block::{Class, Registers};
use std::io::Write;

const LACKS: [&str; 4] = [
    "threads: what several did is in one",
    "how threads wait for each other",
    "registers of instructions: none waits for another",
    "what instructions compute: all are integer ones, and jumps where what follows is elsewhere",
];

pub(super) fn import<W: Write>(sources: Vec<Source<'_>>, out: W) -> Result<(W, Imported), ImportError> {
    let [source] = <[Source<'_>; 1]>::try_from(sources).map_err(|sources| {
        ImportError::Inputs(format!("a trace of lackey is one file, and these are {}", sources.len()))
    })?;
    let lacks: Vec<String> = LACKS.iter().map(ToString::to_string).collect();
    let facts = facts(&source.name, "valgrind --tool=lackey", "unknown", &lacks);
    let mut stitch = Stitch::new(out, &facts)?.telling_jumps_by_place();
    let mut lines = Lines::new(source);
    let started = stitch.start_thread();
    let thread = started.or_else(|refused| told(&lines, refused).map(|()| 0))?;
    while let Some(line) = lines.next()? {
        let taken = take_in(line, thread, &mut stitch);
        match taken {
            Ok(()) => {}
            Err(refused) => told(&lines, refused)?,
        }
    }
    if stitch.imported.instructions == 0 {
        return Err(lines.damaged("there is no instruction in it; was it printed with --trace-mem=yes?"));
    }
    Ok(stitch.finish()?)
}

fn told(lines: &Lines<'_>, refused: Refused) -> Result<(), ImportError> {
    match refused {
        Refused::Untrue(reason) => Err(lines.damaged(reason)),
        Refused::Write(error) => Err(error.into()),
    }
}

fn take_in<W: Write>(line: &str, thread: u32, stitch: &mut Stitch<W>) -> Result<(), Refused> {
    if line.is_empty() || line.starts_with("==") || line.starts_with("--") {
        return Ok(());
    }
    let (kind, rest) = line.split_at_checked(3).ok_or(Refused::Untrue(NO_LINE))?;
    let (address, octets) = rest.split_once(',').ok_or(Refused::Untrue(NO_LINE))?;
    let address = hexadecimal(address).ok_or(Refused::Untrue(NO_LINE))?;
    let octets: u16 = octets.parse().map_err(|_| Refused::Untrue(NO_LINE))?;
    match kind {
        "I  " => {
            let octets = u8::try_from(octets).unwrap_or(u8::MAX);
            let (reads, writes) = (Registers::default(), Registers::default());
            stitch.ran(thread, Execution { pc: address, octets, class: Class::Integer, reads, writes })
        }
        " L " => stitch.accessed(thread, address, u64::from(octets), false),
        " S " => stitch.accessed(thread, address, u64::from(octets), true),
        " M " => {
            stitch.accessed(thread, address, u64::from(octets), false)?;
            stitch.accessed(thread, address, u64::from(octets), true)
        }
        _ => Err(Refused::Untrue(NO_LINE)),
    }
}

const NO_LINE: &str = "it is no line of lackey's, such as \"I  04001234,3\" or \" L 1ffeffe7e0,8\"";
