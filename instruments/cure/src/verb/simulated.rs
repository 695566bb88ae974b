//! Whole cures of a world that is known: settings are files of a machine, and a block's figures follow from what they say.

use super::*;
use clap::Parser;
use quaver_analysis::order::below;
use quaver_cure_analysis::{Burden, Guard};
use quaver_host::settings::fake::FakeMachine;
use quaver_host::settings::journal::Others;
use quaver_host::settings::knob::Change;
use quaver_tune::profile::Profile;
use quaver_tune::survey::Target;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;
use std::cell::{Cell, RefCell};

const FILES: [(&str, &str); 3] = [
    ("proc/sys/kernel/quota", "16000\n"),
    ("proc/sys/kernel/competitor", "1\n"),
    ("proc/sys/kernel/idle", "5\n"),
];
const PLAN: TrialPlan = TrialPlan { remedies: 3, rounds: 16, proof_rounds: 8, block_ns: 250_000_000 };

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: CureArgs,
}

/// What is set: each of [`FILES`] as its remedy has it, or not.
type InForce = [bool; 3];

/// Objective and share of lost packets where this is in force, in the block of this number.
type Figures = fn(InForce, u32) -> (f64, f64);

/// The world: blocks take no time, and their noise is drawn.
struct World<'a> {
    machine: &'a FakeMachine,
    figures: Figures,
    /// What happens during the block of this number.
    meanwhile: &'a dyn Fn(u32, InForce),
    interrupt: &'a Interrupt,
    random: RefCell<Pcg64Mcg>,
    blocks: Cell<u32>,
}

fn in_force(machine: &FakeMachine) -> InForce {
    FILES.map(|(path, _)| machine.text(path) == "0\n")
}

impl Place for World<'_> {
    fn within<T: Send>(&self, body: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
        Ok(body())
    }

    fn block(&self, _: Duration) -> anyhow::Result<BlockEnd> {
        let number = self.blocks.replace(self.blocks.get() + 1);
        let set = in_force(self.machine);
        (self.meanwhile)(number, set);
        let noise = below(&mut self.random.borrow_mut(), 1 << 20) as f64 / f64::from(1 << 20) - 0.5;
        let (objective, lost_share) = (self.figures)(set, number);
        if objective.is_nan() {
            return Ok(BlockEnd::Void("it was held up".to_owned()));
        }
        let figures = BlockFigures {
            objective: objective + 10.0 * noise,
            lost_share,
            received_per_s: 1_000.0 * (1.0 - lost_share),
            burden: Burden { busy_cpus: 1.0, ..Burden::default() },
        };
        Ok(if self.interrupt.requested() { BlockEnd::Interrupted } else { BlockEnd::Measured(figures) })
    }

    fn interface_of_ours(&self) -> bool {
        false
    }
}

fn candidate((path, _): &(&str, &str)) -> Candidate {
    let id = path.rsplit('/').next().unwrap();
    let remedy = Remedy {
        id: id.to_owned(),
        mechanism: String::new(),
        risk: String::new(),
        changes: Vec::new(),
        cause_share: None,
        effect: None,
        verdict: None,
        settled: None,
        withdrawn: None,
        harm: None,
    };
    Candidate { remedy, changes: vec![Change::new(Knob::file(format!("/{path}")), "0").of_row(id)] }
}

/// A cure of that world, and the profile of what it kept.
fn cure(
    machine: &FakeMachine,
    seed: u64,
    figures: Figures,
    meanwhile: &dyn Fn(u32, InForce, &Interrupt),
) -> (CureSummary, Option<Profile>) {
    cure_with(machine, seed, figures, meanwhile, &[])
}

fn cure_with(
    machine: &FakeMachine,
    seed: u64,
    figures: Figures,
    meanwhile: &dyn Fn(u32, InForce, &Interrupt),
    more: &[&str],
) -> (CureSummary, Option<Profile>) {
    let directory = tempfile::tempdir().unwrap();
    let seed_words = seed.to_string();
    let given = if more.contains(&"--for") { &[][..] } else { &["--for", "1h"] };
    let words = [&["cure", "--yes", "--seed", &seed_words][..], given].concat();
    let args = Line::parse_from([&words[..], more].concat()).args;
    let (interrupt, progress) = (Interrupt::default(), Progress::timed(Duration::ZERO, true));
    let run = RunDir::create(directory.path(), "cure").unwrap();
    let site = World {
        machine,
        figures,
        meanwhile: &|number, set| meanwhile(number, set, &interrupt),
        interrupt: &interrupt,
        random: RefCell::new(Pcg64Mcg::seed_from_u64(seed)),
        blocks: Cell::new(0),
    };
    let cure = Cure {
        args: &args,
        site,
        interrupt: &interrupt,
        progress: &progress,
        began: Instant::now(),
        run: &run,
    };
    let target = Target { cpus: vec![1], interface: None, process: None };
    let mut summary = cure.summary(&Found::at(String::new(), target));
    let candidates: Vec<Candidate> = FILES.iter().map(candidate).collect();
    summary.remedies = candidates.iter().map(|one| one.remedy.clone()).collect();
    let session = Journal::open(&machine.place()).session("cure").unwrap();
    let bare = [98.0, 99.0, 100.0, 101.0, 102.0].map(|objective| BlockFigures {
        objective,
        lost_share: 0.0,
        received_per_s: 1_000.0,
        burden: Burden { busy_cpus: 1.0, ..Burden::default() },
    });
    let planned = (PLAN, bare.to_vec(), Duration::ZERO);
    let (summary, _) = cure.try_and_prove(session, planned, &candidates, summary).unwrap();
    let profile = run.path().join("profile.toml");
    (summary, profile.exists().then(|| Profile::read(&profile).unwrap()))
}

fn texts(machine: &FakeMachine) -> [String; 3] {
    FILES.map(|(path, _)| machine.text(path))
}

fn before() -> [String; 3] {
    FILES.map(|(_, text)| text.to_owned())
}

fn revert(machine: &FakeMachine) {
    Journal::open(&machine.place()).revert(Others::Leave, &|_, _| true).unwrap();
}

fn nothing(_: u32, _: InForce, _: &Interrupt) {}

#[test]
fn a_remedy_that_another_cause_hides_is_found_in_a_second_pass_and_nothing_else_is_kept() {
    for seed in 1..=20 {
        let machine = FakeMachine::new(&FILES);
        let (summary, profile) = cure(&machine, seed, one_hides_the_other, &nothing);
        assert_eq!(summary.kept, ["competitor", "quota"], "seed {seed}: {}", summary.outcome);
        assert_eq!(texts(&machine), ["0\n", "0\n", "5\n"], "seed {seed}");
        let passes = |arm: usize| {
            let of_arm = summary.trial_blocks.iter().filter(|block| block.arm == arm);
            of_arm.map(|block| block.round / PLAN.rounds).collect::<BTreeSet<u32>>()
        };
        assert!(passes(1).len() > 1 && passes(2).len() == 1, "seed {seed}: {:?}", passes(1));
        // The effect that is shown is the one beside the competitor's remedy.
        let quota = summary.remedies[0].effect.unwrap();
        assert!((quota.without - 60.0).abs() < 5.0 && (quota.with - 20.0).abs() < 5.0, "{quota:?}");
        let proof = summary.proof.unwrap().effect.unwrap();
        assert!((proof.without - 100.0).abs() < 5.0 && (proof.with - 20.0).abs() < 5.0, "{proof:?}");
        let rows: Vec<String> = profile.unwrap().settings.into_iter().map(|setting| setting.row).collect();
        assert_eq!(rows, ["competitor", "quota"]);
        revert(&machine);
        assert_eq!(texts(&machine), before(), "seed {seed}");
    }
}

const fn competitor_alone([_, competitor, _]: InForce, _: u32) -> (f64, f64) {
    (if competitor { 20.0 } else { 100.0 }, 0.0)
}

#[test]
fn a_write_by_somebody_else_voids_its_block_and_that_setting_is_left_alone_from_then_on() {
    for seed in 1..=10 {
        let machine = FakeMachine::new(&FILES);
        let written = Cell::new(None);
        let write = |number: u32, set: InForce, _: &Interrupt| {
            assert!(written.get().is_none() || !set[0], "seed {seed}: set again in block {number}");
            if set[0] && written.get().is_none() && number > 8 {
                machine.file(FILES[0].0, "77\n");
                written.set(Some(number));
            }
        };
        let (summary, profile) = cure(&machine, seed, competitor_alone, &write);
        assert!(written.get().is_some(), "seed {seed}");
        let void: Vec<_> = summary.trial_blocks.iter().filter_map(|block| block.void.as_ref()).collect();
        let [reason] = void[..] else { panic!("seed {seed}: {void:?}") };
        assert_eq!(summary.remedies[0].withdrawn.as_ref(), Some(reason));
        assert!(reason.contains("changed kernel.quota meanwhile"), "{reason}");
        assert!(reason.ends_with("so it is left alone from then on"), "{reason}");
        assert_eq!(summary.kept, ["competitor"], "seed {seed}: {}", summary.outcome);
        assert_eq!(profile.unwrap().settings.len(), 1);
        assert_eq!(texts(&machine), ["77\n", "0\n", "5\n"]);
        let open = Journal::open(&machine.place()).status().unwrap().changes;
        let open: Vec<String> = open.iter().map(|change| change.knob.to_string()).collect();
        assert_eq!(open, ["kernel.competitor"], "the journal has let go of it");
        revert(&machine);
        assert_eq!(texts(&machine), ["77\n", "1\n", "5\n"], "what somebody else set stays");
    }
}

/// What the competitor takes, the quota need not withhold.
const fn one_hides_the_other([quota, competitor, _]: InForce, _: u32) -> (f64, f64) {
    let objective = match (competitor, quota) {
        (false, _) => 100.0,
        (true, false) => 60.0,
        (true, true) => 20.0,
    };
    (objective, 0.0)
}

#[test]
fn a_write_to_what_was_found_before_takes_it_out_and_blames_no_other_remedy() {
    for seed in 1..=10 {
        let machine = FakeMachine::new(&FILES);
        // The second pass is the first in which both are in force.
        let written = Cell::new(None);
        let write = |number: u32, [quota, competitor, _]: InForce, _: &Interrupt| {
            assert!(written.get().is_none() || !competitor, "seed {seed}: set again in block {number}");
            if quota && competitor && written.get().is_none() {
                machine.file(FILES[1].0, "77\n");
                written.set(Some(number));
            }
        };
        let (summary, _) = cure(&machine, seed, one_hides_the_other, &write);
        assert!(written.get().is_some(), "seed {seed}");
        let reason = summary.remedies[1].withdrawn.as_deref().unwrap_or_default();
        assert!(reason.contains("changed kernel.competitor meanwhile"), "seed {seed}: {reason}");
        assert_eq!((&summary.remedies[0].withdrawn, &summary.remedies[2].withdrawn), (&None, &None));
        assert!(summary.kept.is_empty(), "seed {seed}: {:?}", summary.kept);
        let of_round = |round| summary.trial_blocks.iter().filter(move |block| block.round == round);
        let void = summary.trial_blocks.iter().find(|block| block.void.is_some()).unwrap().round;
        assert!(of_round(void).all(|block| block.figures.is_none()), "its round has two kinds of blocks");
        assert_eq!(texts(&machine), ["16000\n", "77\n", "5\n"], "seed {seed}");
        assert!(Journal::open(&machine.place()).status().unwrap().changes.is_empty());
    }
}

#[test]
fn a_block_without_figures_is_void_and_its_remedy_goes_on() {
    for seed in 1..=10 {
        let machine = FakeMachine::new(&FILES);
        let held = |[_, competitor, _]: InForce, number: u32| {
            // The host keeps each ninth block from beginning.
            (
                if number % 9 == 4 {
                    f64::NAN
                } else if competitor {
                    20.0
                } else {
                    100.0
                },
                0.0,
            )
        };
        let (summary, _) = cure(&machine, seed, held, &nothing);
        assert!(summary.kept.contains(&"competitor".to_owned()), "seed {seed}: {}", summary.outcome);
        let void: Vec<_> = summary.trial_blocks.iter().filter_map(|block| block.void.as_deref()).collect();
        assert!(!void.is_empty() && void.iter().all(|reason| *reason == "it was held up"), "{void:?}");
        assert!(summary.remedies.iter().all(|remedy| remedy.withdrawn.is_none()));
    }
}

#[test]
fn a_remedy_that_helps_and_loses_packets_is_taken_back_after_two_blocks() {
    let lossy = |[quota, competitor, _]: InForce, _| {
        let objective = 100.0 - if quota { 50.0 } else { 0.0 } - if competitor { 30.0 } else { 0.0 };
        (objective, if quota { 0.1 } else { 0.0 })
    };
    let machine = FakeMachine::new(&FILES);
    let (summary, _) = cure(&machine, 3, lossy, &nothing);
    assert_eq!(summary.kept, ["competitor"], "{}", summary.outcome);
    let blocks = summary.trial_blocks.iter().filter(|block| block.arm == 1).count();
    assert_eq!(blocks, 2);
    assert_eq!(summary.remedies[0].verdict, Some(TrialVerdict::Harms { guard: Guard::Losses }));
    assert_eq!(texts(&machine), ["16000\n", "0\n", "5\n"]);
}

#[test]
fn a_trial_leaves_the_proof_its_time() {
    let second = Duration::from_secs(1);
    // Ten blocks took 20 s, so sixteen of a proof take 32 s.
    let limit = Limit { given: second * 60, proof_blocks: 16 };
    assert!(!limit.is_reached(second * 28, second * 20, 10));
    assert!(limit.is_reached(second * 29, second * 20, 10));
    assert!(!limit.is_reached(second * 60, Duration::ZERO, 0), "nothing is known yet");

    let machine = FakeMachine::new(&FILES);
    let (summary, _) = cure_with(&machine, 3, |_, _| (100.0, 0.0), &nothing, &["--for", "1ns"]);
    let over = "the trial ended after 0 of 16 rounds, since its blocks took longer than planned and the rest of the time is \
                the proof's";
    assert_eq!(summary.warnings, [over]);
    assert_eq!(summary.outcome, "no remedy was found to help, so none is set");
    assert!(summary.complete && summary.trial_blocks.is_empty() && summary.proof.is_none());
    assert_eq!(texts(&machine), before());
}

#[test]
fn what_helped_in_the_trial_and_not_in_the_proof_is_not_kept() {
    // So many blocks a trial of three remedies has at most.
    let passing = |[quota, _, _]: InForce, number| (if quota && number < 24 { 20.0 } else { 100.0 }, 0.0);
    let machine = FakeMachine::new(&FILES);
    let (summary, profile) = cure(&machine, 5, passing, &nothing);
    assert_eq!(summary.remedies[0].verdict, Some(TrialVerdict::Helps));
    assert_eq!(summary.outcome, "what helped in the trial was not proven afterwards, so none is set");
    assert!(summary.kept.is_empty() && profile.is_none());
    assert_eq!(texts(&machine), before());
}

#[test]
fn interrupted_in_any_of_its_blocks_it_puts_everything_back() {
    for at in 0..70 {
        let machine = FakeMachine::new(&FILES);
        let stop = |number: u32, _: InForce, interrupt: &Interrupt| {
            if number == at {
                interrupt.request();
            }
        };
        let (summary, profile) = cure(&machine, 1, competitor_alone, &stop);
        if summary.kept.is_empty() {
            assert_eq!(summary.outcome, "it was interrupted, and every setting was put back", "block {at}");
            assert!(!summary.complete && profile.is_none());
            assert_eq!(texts(&machine), before(), "block {at}");
        } else {
            assert!(at > 40, "it ended before block {at}");
        }
    }
}

#[test]
fn what_persists_is_the_profile_of_what_was_kept_and_a_host_that_takes_none_keeps_it_all_the_same() {
    for takes in [true, false] {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(host.path().join("etc/systemd/system")).unwrap();
        if !takes {
            std::fs::write(host.path().join("etc/quaver"), "no directory").unwrap();
        }
        let machine = FakeMachine::new(&FILES);
        let more = ["--persist", "--persist-below", host.path().to_str().unwrap()];
        let (summary, profile) = cure_with(&machine, 2, competitor_alone, &nothing, &more);
        assert_eq!((summary.outcome.as_str(), &summary.kept[..]), ("proven", &["competitor".to_owned()][..]));
        assert_eq!(texts(&machine), ["16000\n", "0\n", "5\n"]);
        match summary.persisted {
            Some(persisted) if takes => {
                let installed = Profile::read(Path::new(&persisted.profile)).unwrap();
                assert_eq!(Some(installed), profile);
                assert!(summary.warnings.is_empty() && persisted.tuned.is_none());
            }
            None if !takes => {
                let [warning] = &summary.warnings[..] else { panic!("{:?}", summary.warnings) };
                assert!(
                    warning.starts_with("no profile of the kept settings was written: writing "),
                    "{warning}"
                );
            }
            other => panic!("{takes}: {other:?}"),
        }
        revert(&machine);
        assert_eq!(texts(&machine), before());
    }
}
