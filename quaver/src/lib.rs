//! The `quaver` program: command line, verbs, reports. A library only so that tests and examples can reach it.

pub mod cli;
mod registry;
mod runs;

use quaver_instrument::exit_code::ExitCode;

/// What is said when it is our fault.
const BUG: &str = "This is a bug in Quaver. Please report it with the command line.";

/// Runs the program with the process's arguments and says how it ended.
pub fn main() -> ExitCode {
    let matches = match cli::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            let code = if error.use_stderr() { ExitCode::Usage } else { ExitCode::Done };
            // A reader that went away while help was printed is no failure.
            return match error.print() {
                Err(print) if print.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::Output,
                _ => code,
            };
        }
    };
    silence_contained_panics();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cli::run(&matches)));
    match outcome {
        Err(_) => {
            // The panic's own message was printed already.
            eprintln!("{BUG}");
            ExitCode::Bug
        }
        Ok(Ok(code)) => code,
        Ok(Err(error)) if quaver_instrument::exit_code::is_broken_pipe(&error) => ExitCode::Done,
        Ok(Err(error)) => {
            let code = quaver_instrument::exit_code::status_of(&error, &registry::status_judges());
            eprintln!("quaver: {}", quaver_instrument::exit_code::sentence(&error));
            if code == ExitCode::Bug {
                eprintln!("{BUG}");
            }
            code
        }
    }
}

/// Panics over a damaged file become an error that says so; their own message would look like a bug of ours.
fn silence_contained_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !quaver_store::containment::is_containing() {
            before(panic);
        }
    }));
}
