//! The instruments of this program. A new one is a line here.

use quaver_instrument::exit_code::{ExitCode, StatusJudge, failure};
use quaver_instrument::registry::{FileKind, Instrument, RunKind, Verb};
use quaver_store::run::RunDir;

/// All instruments, in the order of the help.
static INSTRUMENTS: &[&Instrument] = &[
    &quaver_doctor::INSTRUMENT,
    &quaver_chase::INSTRUMENT,
    &quaver_noise::INSTRUMENT,
    &quaver_capture::INSTRUMENT,
    &quaver_path::INSTRUMENT,
    &quaver_tune::INSTRUMENT,
    &quaver_study::INSTRUMENT,
    &quaver_lab::INSTRUMENT,
    &quaver_sync::INSTRUMENT,
    &quaver_sim_program::INSTRUMENT,
];

/// Their verbs.
pub(crate) fn verbs() -> impl Iterator<Item = &'static Verb> {
    INSTRUMENTS.iter().flat_map(|instrument| instrument.verbs)
}

/// The kinds of files that they read.
pub(crate) fn file_kinds() -> impl Iterator<Item = &'static dyn FileKind> {
    INSTRUMENTS.iter().flat_map(|instrument| instrument.files).copied()
}

/// How they judge errors of their own.
pub(crate) fn status_judges() -> Vec<StatusJudge> {
    INSTRUMENTS.iter().map(|instrument| instrument.status).collect()
}

/// The kind of a run, by the verb that made it.
///
/// # Errors
/// No instrument here makes such runs.
pub(crate) fn kind_of(run: &RunDir) -> anyhow::Result<&'static dyn RunKind> {
    let verb = run.read_manifest()?.verb;
    let mut kinds = INSTRUMENTS.iter().flat_map(|instrument| instrument.kinds).copied();
    kinds.find(|kind| kind.verbs().contains(&verb.as_str())).ok_or_else(|| {
        let message = format!("read {}: a run of verb {verb:?} is not known here", run.manifest().display());
        failure(ExitCode::BadInput, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_verb_and_each_kind_of_run_is_one_instruments() {
        let names: Vec<String> = verbs().map(|verb| (verb.command)().get_name().to_owned()).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let kinds = INSTRUMENTS.iter().flat_map(|instrument| instrument.kinds);
        let made: Vec<&str> = kinds.flat_map(|kind| kind.verbs()).copied().collect();
        assert_eq!(made.iter().collect::<BTreeSet<_>>().len(), made.len());
    }
}
