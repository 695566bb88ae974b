//! A process that sets and takes back as a trial does, on a machine of files, killed before a step that was drawn.

use super::*;
use quaver_analysis::order::below;
use quaver_host::settings::fake::{FakeKernel, FakeMachine};
use quaver_host::settings::journal::{Others, Step, Steps};
use quaver_host::settings::{Journal, JournalPlace};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use rustix::process::{Signal, getpid, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Directory of the machine and its journal, and the step before which the child dies.
const PLACE: &str = "QUAVER_TEST_CURE_PLACE";
const STEP: &str = "QUAVER_TEST_CURE_STEP";

const FILES: [(&str, &str); 4] = [
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("proc/sys/vm/compaction_proactiveness", "20\n"),
    ("proc/sys/vm/compact_unevictable_allowed", "1\n"),
    ("sys/kernel/rcu_normal", "0\n"),
];

/// Counts the steps, and ends the process by SIGKILL before one of them.
#[derive(Debug)]
struct Countdown {
    taken: AtomicUsize,
    last: usize,
}

impl Steps for Countdown {
    fn before(&self, _: Step) -> std::io::Result<()> {
        if self.taken.fetch_add(1, Ordering::Relaxed) == self.last {
            kill_process(getpid(), Signal::KILL)?;
        }
        Ok(())
    }
}

fn arms() -> [Vec<Change>; 3] {
    let file = |path: &str, value: &str| Change::new(Knob::file(format!("/{path}")), value).of_row("it");
    let compaction = vec![file(FILES[1].0, "0"), file(FILES[2].0, "0")];
    [Vec::new(), compaction, vec![file(FILES[3].0, "1")]]
}

/// Four rounds of two remedies, a proof of both together, and both kept: all that a cure writes.
fn cure(place: &JournalPlace) {
    let mut session = Journal::open(place).session("cure").unwrap();
    let arms = arms();
    let both = [&arms[1][..], &arms[2]].concat();
    let trial = (0..4).flat_map(|round| block_order(21, round, 3)).map(|arm| arms[arm].clone());
    let proof = (0..4).flat_map(|round| block_order(22, round, 2));
    for changes in trial.chain(proof.map(|arm| if arm == 1 { both.clone() } else { Vec::new() })) {
        let (in_force, refused) = set_all(&mut session, &changes).unwrap();
        assert_eq!((in_force.len(), refused), (changes.len(), None));
        assert_eq!(changed(&session, &in_force), None);
        session.put_back().unwrap();
    }
    set_all(&mut session, &both).unwrap();
    session.keep().unwrap();
}

/// What the child does; nothing in a run of the tests themselves.
#[test]
fn child() {
    let Some(directory) = std::env::var_os(PLACE) else { return };
    let root = HostRoot::at(Path::new(&directory).join("machine"));
    let last = std::env::var(STEP).unwrap().parse().unwrap();
    let place = JournalPlace::at(Path::new(&directory).join("journal"), root.clone())
        .with_contact(Arc::new(FakeKernel::new(root)))
        .with_steps(Arc::new(Countdown { taken: AtomicUsize::new(0), last }));
    cure(&place);
}

/// Whether a child was killed before its step, or came to its end.
fn was_killed(machine: &FakeMachine, step: usize) -> bool {
    let directory = machine.journal().parent().unwrap().to_owned();
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "verb::trial::killed::child"])
        .env(PLACE, directory)
        .env(STEP, step.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.signal() == Some(9) || said.contains("1 passed"), "{}: {said}", ended.status);
    ended.status.signal() == Some(9)
}

#[test]
fn after_a_kill_at_any_of_sixty_drawn_steps_the_next_turn_finds_all_as_before_or_all_kept() {
    let counted = FakeMachine::new(&FILES);
    let steps = Arc::new(Countdown { taken: AtomicUsize::new(0), last: usize::MAX });
    cure(&counted.place().with_steps(steps.clone()));
    let all = steps.taken.load(Ordering::Relaxed);
    let kept = counted.listing().into_iter().map(|(_, content)| content).collect::<Vec<_>>();
    let mut random = Pcg64Mcg::seed_from_u64(21);
    // The last steps decide whether settings are kept. They are always tried, and so is one step beyond the end.
    let drawn = (0..60).map(|_| below(&mut random, all)).chain([all - 2, all - 1, all]);
    let (mut in_force, mut stayed) = (0, 0);
    for step in drawn {
        let machine = FakeMachine::new(&FILES);
        let contents = || machine.listing().into_iter().map(|(_, content)| content).collect::<Vec<_>>();
        let before = contents();
        assert_eq!(was_killed(&machine, step), step < all, "step {step} of {all}");
        in_force += usize::from(contents() != before);
        drop(Journal::open(&machine.place()).session("cure").unwrap());
        let next = contents();
        assert!(next == before || next == kept, "step {step} of {all}");
        stayed += usize::from(next == kept);
        assert!(next == before || step >= all - 1, "kept before the end: step {step} of {all}");
        Journal::open(&machine.place()).revert(Others::Leave, &|_, _| true).unwrap();
        assert_eq!(contents(), before, "step {step} of {all}");
        assert!(Journal::open(&machine.place()).status().unwrap().changes.is_empty());
    }
    assert!(
        in_force > 20 && stayed > 0,
        "{in_force} kills met a setting in force, {stayed} left what was kept"
    );
}
