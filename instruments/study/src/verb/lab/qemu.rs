//! The QEMU lab: cells are measured by guests, each booted with the words that the arm wants.

use super::super::cell::{Measured, Order};
use super::super::plan::StudyPlan;
use super::super::request::{GuestMessage, Request, Task};
use super::super::settings::Settings;
use super::{Boots, Lab};
use quaver_chase::args::PaceMode;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_lab_guests::GuestError;
use quaver_lab_guests::image::{Image, Supplies};
use quaver_lab_guests::process::{Answer, Guest, Machine};
use quaver_lab_guests::store::{Emulator, Kernel, LabStore};
use quaver_lab_guests::{INTERFACE, PARAMETERS};
use quaver_study_analysis::block_order;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Processors of a guest: the source's, one that is free, the sink's.
pub const CPUS: u16 = 3;
/// Blocks that one boot measures.
const BLOCKS_PER_BOOT: u32 = 5;
/// Shorter periods come to nothing: between two packets both processors' code has to be emulated, and a throttled interface
/// interrupts at most every 128 us.
const LEAST_PERIOD_NS: f64 = 200_000.0;
/// Between looks at the user's wish to end.
const TICK: Duration = Duration::from_millis(100);
/// A guest that is silent for so long is stuck, unless its cells are longer.
const LEAST_SILENCE: Duration = Duration::from_secs(600);
/// The host takes less than so many seconds for one of the guest's.
const SLOWEST: u32 = 60;

/// The lab.
pub(super) struct QemuLab {
    emulator: Emulator,
    kernel: Kernel,
    /// Guests by their boot words.
    guests: BTreeMap<Vec<String>, Session>,
}

/// A guest at work on a list of cells.
struct Session {
    guest: Guest,
    /// What it was asked and has not said yet, by block and arm.
    awaited: Vec<(u32, usize)>,
    /// What it said before it was asked for.
    said: BTreeMap<(u32, usize), Measured>,
}

impl QemuLab {
    pub(super) fn open() -> anyhow::Result<Self> {
        let store = LabStore::standard();
        let missing = |error: GuestError| failure(ExitCode::Unsupported, error.to_string());
        Ok(Self {
            emulator: store.emulator().map_err(missing)?,
            kernel: store.kernel("kernel").map_err(missing)?,
            guests: BTreeMap::new(),
        })
    }

    fn boot(&self, order: &Order<'_>, words: &[String], cells: Vec<(u32, usize)>) -> anyhow::Result<Session> {
        let asked = order.asked.clone();
        let task = Task::Study { asked, cells: cells.clone() };
        let request = Request { parameters: PARAMETERS.to_owned(), words: words.to_vec(), task };
        let image =
            Image::build(&self.kernel, INTERFACE, &serde_json::to_vec(&request)?, &Supplies::default())?;
        // The same seed gives the same boot; blocks are to differ as those of a real machine do.
        let seed = order.plan.facts.seed.wrapping_mul(1_000).wrapping_add(u64::from(order.block));
        let machine = Machine {
            cpus: CPUS,
            interface: INTERFACE,
            words: words.to_vec(),
            seed,
            plugin: None,
            parallel: false,
        };
        let guest = Guest::start(&self.emulator, &self.kernel, &image, &machine, &["lab", "guest"])?;
        Ok(Session { guest, awaited: cells, said: BTreeMap::new() })
    }
}

/// Cells that a boot for this one measures as well: of this block and those that follow, arms with the same boot words. A cell
/// that stands after all arms of its block is a second try, and measured alone, as are those of further blocks, which do not
/// hold every arm.
fn batch(plan: &StudyPlan, block: u32, position: u32, arm: usize) -> Vec<(u32, usize)> {
    let arms = plan.facts.arms.len();
    if position as usize >= arms || block >= plan.facts.blocks {
        return vec![(block, arm)];
    }
    let words = &plan.settings[arm].boot;
    let last = plan.facts.blocks.min(block + BLOCKS_PER_BOOT);
    let cells = (block..last)
        .flat_map(|one| block_order(plan.facts.seed, one, arms).into_iter().map(move |arm| (one, arm)));
    let mut cells: Vec<_> = cells.filter(|(_, one)| plan.settings[*one].boot == *words).collect();
    // What stands before it in its block is there already.
    let at = cells.iter().position(|cell| *cell == (block, arm)).unwrap_or(0);
    cells.drain(..at);
    cells
}

impl Session {
    /// Waits for a cell, of a guest that may be silent for so long; none where the user ended it.
    fn wait(
        &mut self,
        cell: (u32, usize),
        most_silence: Duration,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Measured>> {
        let mut heard = Instant::now();
        loop {
            if let Some(measured) = self.said.remove(&cell) {
                return Ok(Some(measured));
            }
            if interrupt.requested() {
                return Ok(None);
            }
            match self.guest.answer(TICK)? {
                Answer::Line(line) => {
                    heard = Instant::now();
                    self.hear(&line)?;
                }
                // A Ctrl-C may reach the guest as well, and before us.
                Answer::End if interrupt.requested() => return Ok(None),
                Answer::End => return Err(self.guest.ended_early().into()),
                Answer::Nothing if heard.elapsed() > most_silence => {
                    let why = format!("it was silent for {} minutes", most_silence.as_secs() / 60);
                    return Err(GuestError::Ended { why }.into());
                }
                Answer::Nothing => {}
            }
        }
    }

    fn hear(&mut self, line: &str) -> anyhow::Result<()> {
        match serde_json::from_str(line) {
            Ok(GuestMessage::Cell(measured)) if !self.awaited.is_empty() => {
                // It says them in the order in which it was asked.
                let cell = self.awaited.remove(0);
                self.said.insert(cell, *measured);
                Ok(())
            }
            Ok(GuestMessage::Failed(why)) => {
                Err(failure(ExitCode::Unsupported, format!("the guest could not measure: {why}")))
            }
            _ => Err(GuestError::Ended { why: format!("it said something strange: {line:.200}") }.into()),
        }
    }
}

/// How long a guest may be silent: while it boots, and while it measures a cell.
fn most_silence(plan: &StudyPlan) -> Duration {
    LEAST_SILENCE.max((plan.warm_up + plan.measured) * SLOWEST)
}

impl Lab for QemuLab {
    fn words(&self) -> String {
        format!(
            "in a guest of QEMU {} (Linux {}, two {INTERFACE} interfaces, {CPUS} processors, virtual time)",
            self.emulator.version, self.kernel.release
        )
    }

    fn cpus(&self) -> anyhow::Result<Vec<u16>> {
        Ok((0..CPUS).collect())
    }

    fn boots(&self) -> Boots {
        Boots::Own
    }

    fn refuses(&self, settings: &Settings) -> Option<String> {
        if settings.pace != PaceMode::Sleep {
            return Some("in virtual time the source has to sleep: give pace = \"sleep\"".to_owned());
        }
        let polling =
            settings.boot.iter().find(|word| word.as_str() == "idle=poll" || word.contains("cstate"));
        polling.map(|word| format!("{word} means nothing in an emulated machine, which has no idle states"))
    }

    fn warnings(&self) -> Vec<String> {
        let words = "measured under full emulation in virtual time: contrasts between arms mean something, absolute figures do not";
        vec![words.to_owned()]
    }

    fn measure(&mut self, order: &Order<'_>, interrupt: &Interrupt) -> anyhow::Result<Option<Measured>> {
        if order.plan.facts.period_ns < LEAST_PERIOD_NS {
            let message = "the QEMU lab wants a period of 200us or more: give one in [stream]";
            return Err(failure(ExitCode::Usage, message));
        }
        let (cell, words) = ((order.block, order.arm), order.settings().boot.clone());
        let has = |session: &Session| session.said.contains_key(&cell) || session.awaited.contains(&cell);
        if !self.guests.get(&words).is_some_and(has) {
            self.guests.remove(&words);
            let cells = batch(order.plan, order.block, order.position, order.arm);
            let session = self.boot(order, &words, cells)?;
            self.guests.insert(words.clone(), session);
        }
        let Some(session) = self.guests.get_mut(&words) else { return Ok(None) };
        let measured = session.wait(cell, most_silence(order.plan), interrupt)?;
        Ok(measured.map(|mut measured| {
            measured.cell.position = order.position;
            measured
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb::asked::StudyRequest;

    const PLAN: &str = "
[study]
blocks = 7
[baseline]
pace = 'sleep'
[[factor]]
id = 'blocking'
receive = 'block'
[[factor]]
id = 'tickless'
class = 'network-independent'
boot = ['nohz_full=2']
";

    fn plan() -> StudyPlan {
        let asked = StudyRequest { plan: PLAN.to_owned(), lab: "qemu".to_owned(), ..StudyRequest::default() };
        asked.plan(&[0, 1, 2]).unwrap()
    }

    #[test]
    fn a_boot_measures_the_arms_with_its_words_for_five_blocks() {
        let plan = plan();
        let first = block_order(plan.facts.seed, 0, 4).into_iter().find(|arm| *arm != 3).unwrap();
        let cells = batch(&plan, 0, 0, first);
        assert_eq!(cells.len(), 3 * 5, "{cells:?}");
        assert_eq!(cells[0], (0, first));
        assert!(cells.iter().all(|(_, arm)| *arm != 3));
        let tickless = batch(&plan, 5, 2, 3);
        assert_eq!(tickless, [(5, 3), (6, 3)], "no more than there are blocks");
    }

    #[test]
    fn a_study_that_goes_on_measures_nothing_again() {
        let plan = plan();
        let last = block_order(plan.facts.seed, 1, 4).into_iter().rfind(|arm| *arm != 3).unwrap();
        let cells = batch(&plan, 1, 3, last);
        assert_eq!(cells[0], (1, last));
        assert_eq!(cells.iter().filter(|(block, _)| *block == 1).count(), 1, "{cells:?}");
    }

    #[test]
    fn a_guest_with_long_cells_may_be_silent_for_longer() {
        let plan = plan();
        assert_eq!(most_silence(&plan), LEAST_SILENCE);
        let long = StudyPlan { measured: Duration::from_secs(200), warm_up: Duration::ZERO, ..plan };
        assert_eq!(most_silence(&long), Duration::from_secs(12_000));
    }

    #[test]
    fn second_tries_and_further_blocks_are_measured_alone() {
        assert_eq!(batch(&plan(), 2, 4, 0), [(2, 0)]);
        assert_eq!(batch(&plan(), 7, 0, 1), [(7, 1)]);
    }
}
