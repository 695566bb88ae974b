//! Settings that stay for a time: the process that made them waits, and puts them back.

use anyhow::Context;
use quaver_host::settings::journal::{Fate, Others, Undone};
use quaver_host::settings::knob::Knob;
use quaver_host::settings::{Journal, JournalPlace, TuneError};
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::tell;
use quaver_view::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Longest time between two looks at what the user wants, and between two tries to get a turn at the journal.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until the time is over or the user ends it, puts back what of these settings is still changed, and says so. The status
/// where it is not that of success.
///
/// # Errors
/// The journal cannot be kept.
pub fn end(
    place: &JournalPlace,
    knobs: BTreeSet<Knob>,
    time: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<ExitCode>> {
    if knobs.is_empty() {
        return Ok(None);
    }
    let shown = Cell::Duration(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX));
    tell!("kept for {shown}; Ctrl-C puts it back at once, and so does quaver tune revert");
    let began = Instant::now();
    while began.elapsed() < time && !interrupt.requested() {
        std::thread::sleep(PAUSE.min(time.saturating_sub(began.elapsed())));
    }
    let ended = interrupt.requested().then_some(ExitCode::Interrupted);
    let undone = put_back(place, &knobs)?;
    for one in &undone {
        if let Fate::Forgotten { found } = &one.fate {
            tell!("somebody else changed {} to {found} meanwhile: it is left as it is", one.knob);
        }
    }
    let back = undone.iter().filter(|one| !matches!(one.fate, Fate::Forgotten { .. }));
    let left = undone.iter().filter(|one| !one.fate.is_final()).count();
    tell!("{} of {} settings were put back", back.count() - left, undone.len());
    if left > 0 {
        tell!("see quaver tune status for the rest");
    }
    Ok(if left > 0 { Some(ExitCode::Output) } else { ended })
}

/// Waits for its turn where another verb is changing settings.
fn put_back(place: &JournalPlace, knobs: &BTreeSet<Knob>) -> anyhow::Result<Vec<Undone>> {
    loop {
        match Journal::open(place).revert(Others::Forget, &|knob, _| knobs.contains(knob)) {
            Err(TuneError::Busy { .. }) => std::thread::sleep(PAUSE),
            other => return other.context("restoring settings"),
        }
    }
}
