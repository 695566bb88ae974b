//! What the process's exit status means. Part of the tool's interface: never renumber.

use std::fmt;

/// Exit status of `quaver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// All was done.
    Done = 0,
    /// A threshold asked for with `--fail-if` was not met.
    Threshold = 1,
    /// The command line made no sense.
    Usage = 2,
    /// Not permitted, or not supported on this machine; the message says what to do.
    Unsupported = 3,
    /// The peer refused or vanished.
    Peer = 4,
    /// An input file is bad.
    BadInput = 5,
    /// Output could not be written, or a resource ran out.
    Output = 6,
    /// A bug of ours.
    Bug = 70,
    /// Interrupted by the user; the run was kept.
    Interrupted = 130,
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// An expected failure: a sentence for the user and the status to end with.
///
/// Put at the bottom of an error chain (or wrapped around one), it decides the exit status; an error chain
/// without one is judged by [`status_of`] from the system errors in it.
#[derive(Debug)]
pub struct Failure {
    /// Status to end with.
    pub code: ExitCode,
    /// What happened and what to do.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// A failure of the given kind, as an error.
pub fn failure(code: ExitCode, message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Failure { code, message: message.into() })
}

/// An error with what it came from, each said once: many errors tell their source in their own sentence.
pub fn sentence(error: &anyhow::Error) -> String {
    let mut sentence = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !sentence.contains(&cause) {
            let separator = if sentence.is_empty() { "" } else { ": " };
            sentence.push_str(separator);
            sentence.push_str(&cause);
        }
    }
    let system = error.chain().filter_map(system_error).collect::<Vec<_>>();
    // The layers below tell it of their own files.
    if system.iter().any(quaver_store::error::is_full) {
        if !["free some", "free space"].iter().any(|remedy| sentence.contains(remedy)) {
            sentence.push_str("; free some space there, or put the run elsewhere");
        }
    } else if !sentence.contains(';') {
        sentence.push_str(system.iter().map(remedy).find(|remedy| !remedy.is_empty()).unwrap_or_default());
    }
    sentence
}

/// What the system said, by whichever of the two types that have it.
fn system_error(cause: &(dyn std::error::Error + 'static)) -> Option<std::io::Error> {
    if let Some(number) = cause.downcast_ref::<rustix::io::Errno>() {
        return Some((*number).into());
    }
    let error = cause.downcast_ref::<std::io::Error>()?;
    Some(error.raw_os_error().map_or_else(|| error.kind().into(), std::io::Error::from_raw_os_error))
}

/// What to do about a refusal of the system where no layer knew anything better.
fn remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    if quaver_store::error::lacks_descriptors(error) {
        return quaver_store::error::MORE_DESCRIPTORS;
    }
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "; see `quaver doctor`, and what the container, the firewall or a security module (SELinux, AppArmor) forbids"
        }
        _ if quaver_store::error::is_no_such_file(error) => "; check the path",
        ErrorKind::ReadOnlyFilesystem => "; choose another place",
        ErrorKind::OutOfMemory => "; raise the limit of memory, or ask for less",
        _ => "",
    }
}

/// The status that an instrument gives to an error of its own; none for errors that it does not know, and for those
/// whose causes decide.
pub type StatusJudge = fn(&(dyn std::error::Error + 'static)) -> Option<ExitCode>;

/// The status that an error ends the process with.
pub fn status_of(error: &anyhow::Error, judges: &[StatusJudge]) -> ExitCode {
    for cause in error.chain() {
        if let Some(code) = judges.iter().find_map(|judge| judge(cause)) {
            return code;
        }
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return failure.code;
        }
        if let Some(trace) = cause.downcast_ref::<quaver_host::trace::TraceError>() {
            use quaver_host::trace::TraceError;
            if !matches!(trace, TraceError::Os { .. }) {
                return ExitCode::Unsupported;
            }
        }
        if let Some(store) = cause.downcast_ref::<quaver_store::error::StoreError>() {
            return status_of_store(store);
        }
        if let Some(probe) = cause.downcast_ref::<quaver_probe::ProbeError>() {
            use quaver_probe::ProbeError;
            if !matches!(probe, ProbeError::Os { .. }) {
                return ExitCode::Unsupported;
            }
        }
        if let Some(tune) = cause.downcast_ref::<quaver_host::settings::TuneError>() {
            return status_of_tune(tune);
        }
        if let Some(io) = system_error(cause) {
            return match io.kind() {
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::Unsupported => {
                    ExitCode::Unsupported
                }
                std::io::ErrorKind::InvalidData => ExitCode::BadInput,
                _ if quaver_store::error::is_no_such_file(&io) => ExitCode::BadInput,
                std::io::ErrorKind::Interrupted => ExitCode::Interrupted,
                std::io::ErrorKind::ConnectionRefused | std::io::ErrorKind::ConnectionReset => ExitCode::Peer,
                _ => ExitCode::Output,
            };
        }
    }
    ExitCode::Bug
}

/// The status for a setting that could not be changed or put back.
fn status_of_tune(error: &quaver_host::settings::TuneError) -> ExitCode {
    use quaver_host::settings::TuneError;
    match error {
        TuneError::NotPermitted { .. }
        | TuneError::ReadOnly { .. }
        | TuneError::Refused { .. }
        | TuneError::Vanished { .. } => ExitCode::Unsupported,
        TuneError::BadJournal { .. } => ExitCode::BadInput,
        TuneError::Busy { .. } | TuneError::Foreign { .. } | TuneError::Os { .. } => ExitCode::Output,
    }
}

/// The status for an error of the run directory: bad input, not permitted to read it, or else the machine's limits.
fn status_of_store(error: &quaver_store::error::StoreError) -> ExitCode {
    use quaver_store::error::StoreError;
    match error {
        StoreError::Io { operation: "open" | "read" | "list", source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            ExitCode::Unsupported
        }
        // Making and writing a run: the place for output is at fault, also where it does not exist.
        StoreError::Io { operation, .. } if !matches!(*operation, "open" | "read" | "list") => {
            ExitCode::Output
        }
        StoreError::Verb { .. } => ExitCode::Bug,
        error if error.is_bad_input() => ExitCode::BadInput,
        _ => ExitCode::Output,
    }
}

/// Whether the error is only that the reader of our output went away, which is no failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn a_failure_keeps_its_status_under_context() {
        let error = Err::<(), _>(failure(ExitCode::Peer, "gone")).context("talking to h").unwrap_err();
        assert_eq!(status_of(&error, &[]), ExitCode::Peer);
    }

    #[test]
    fn a_full_disk_has_a_remedy_once() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        let plain = Err::<(), _>(full()).context("writing names.json").unwrap_err();
        let text = sentence(&plain);
        assert!(text.ends_with("; free some space there, or put the run elsewhere"), "{text}");
        let stored: anyhow::Error = quaver_store::error::StoreError::io("write", "/x", full()).into();
        assert_eq!(sentence(&stored).matches("free some").count(), 1, "{stored}");
        let other = anyhow::Error::new(std::io::Error::from(std::io::ErrorKind::NotFound));
        assert!(!sentence(&other).contains("put the run"), "{other}");
    }

    #[test]
    fn what_the_system_refuses_has_its_status_and_a_remedy_whatever_its_type() {
        let cases = [
            (rustix::io::Errno::PERM, ExitCode::Unsupported, "a security module (SELinux, AppArmor) forbids"),
            (rustix::io::Errno::MFILE, ExitCode::Output, "; raise the limit of open files (ulimit -n)"),
            (rustix::io::Errno::NOMEM, ExitCode::Output, "; raise the limit of memory, or ask for less"),
            (rustix::io::Errno::ROFS, ExitCode::Output, "; choose another place"),
            (rustix::io::Errno::ISDIR, ExitCode::BadInput, "; check the path"),
            (rustix::io::Errno::LOOP, ExitCode::BadInput, "; check the path"),
        ];
        for (number, code, words) in cases {
            for error in [anyhow::Error::new(number), anyhow::Error::new(std::io::Error::from(number))] {
                let error = error.context("binding a thread");
                assert_eq!(status_of(&error, &[]), code, "{error:#}");
                assert!(sentence(&error).ends_with(words), "{}", sentence(&error));
            }
            let known = anyhow::Error::new(number).context("binding a thread; do this");
            assert!(!sentence(&known).contains(words), "{}", sentence(&known));
        }
        // Said of threads, timers, locked memory and sockets: whoever asked knows what to do.
        let again = anyhow::Error::new(rustix::io::Errno::AGAIN).context("binding a thread");
        assert_eq!(status_of(&again, &[]), ExitCode::Output);
        assert!(sentence(&again).ends_with("(os error 11)"), "{}", sentence(&again));
    }

    #[test]
    fn errors_of_the_store_are_the_inputs_or_the_outputs() {
        use quaver_store::run::RunDir;
        use std::path::Path;
        let missing = RunDir::open(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(status_of(&missing.into(), &[]), ExitCode::BadInput);
        let unwritable = RunDir::create(Path::new("/proc/version/x"), "chase").unwrap_err();
        assert_eq!(status_of(&unwritable.into(), &[]), ExitCode::Output);
    }

    #[test]
    fn system_errors_are_judged_by_kind() {
        let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        assert_eq!(status_of(&anyhow::Error::new(denied), &[]), ExitCode::Unsupported);
        let interrupted = std::io::Error::from(std::io::ErrorKind::Interrupted);
        let waiting = quaver_probe::noise::NoiseError::NotLetRun(interrupted);
        assert_eq!(status_of(&anyhow::Error::new(waiting), &[]), ExitCode::Interrupted);
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(status_of(&anyhow::Error::new(full), &[]), ExitCode::Output);
        assert_eq!(status_of(&anyhow::anyhow!("impossible state"), &[]), ExitCode::Bug);
    }
}
