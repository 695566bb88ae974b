//! What the relay does in each case, and how its truth is held against what was measured.

use crate::bench::{Bench, PACKETS, PERIOD_NS, counted};
use quaver_arrivals::path::direction::Direction;
use quaver_path_record::FlowOutcome;
use quaver_path_record::auth::Key;
use quaver_testbed::relay::Report;
use quaver_testbed::relay::log::Class;
use quaver_testbed::relay::packet::Field;
use quaver_testbed::relay::script::{
    Corrupt, Delay, Duplicate, GilbertElliott, Queue, Rule, Script, Select, Sentinels, Span,
};
use quaver_testbed::relay::truth::{Reader, Truth};
use std::net::{IpAddr, Ipv4Addr};

pub(crate) struct Case {
    pub(crate) name: String,
    listen: IpAddr,
    script: Script,
    key: Option<Key>,
    /// What must have happened, so that no case is empty by accident.
    happened: fn(&Truth, &Truth) -> bool,
}

impl Case {
    /// Measures; what differs from the truth.
    pub(crate) fn measure(&self) -> Vec<String> {
        let bench = Bench::start(self.listen, self.script.clone(), self.key.clone());
        let (outcome, report) = bench.measure(&bench.options(), &mut |_, _| {});
        let mut wrong = Vec::new();
        if !outcome.is_complete() || outcome.flows.len() != 2 {
            wrong.push(format!("{:?} with {} flows", outcome.completion, outcome.flows.len()));
        }
        if report.unread + report.refused > 0 {
            wrong.push(format!("the relay lost {} and refused {}", report.unread, report.refused));
        }
        let truths = [Direction::Up, Direction::Down].map(|direction| {
            let truth = self.truth(&report, direction, &mut wrong);
            match outcome.flows.iter().find(|flow| flow.direction == direction) {
                Some(flow) => compare(flow, &truth, &mut wrong),
                None => wrong.push(format!("no flow {}", direction.name())),
            }
            truth
        });
        if !(self.happened)(&truths[0], &truths[1]) {
            wrong.push(format!("the relay did not do what the case is for: {truths:?}"));
        }
        wrong
    }

    /// The truth of one way, which one flow of the relay has all packets of.
    fn truth(&self, report: &Report, way: Direction, wrong: &mut Vec<String>) -> Truth {
        let mut flows: Vec<u32> = report
            .records
            .iter()
            .filter(|record| record.direction == way && record.class == Class::Test)
            .map(|record| record.flow)
            .collect();
        flows.dedup();
        if flows.len() != 1 {
            wrong.push(format!("{way:?}: packets in flows {flows:?} of the relay"));
        }
        let reader = Reader { keyed: self.key.is_some(), ..Reader::of(PACKETS) };
        Truth::of(&report.records, flows.first().copied().unwrap_or(0), way, &reader)
    }
}

fn compare(flow: &FlowOutcome, truth: &Truth, wrong: &mut Vec<String>) {
    let counts = counted(flow);
    let receiver = flow.receiver.unwrap_or_default();
    let rows: [(&str, u64, u64); 11] = [
        ("sent", counts.sent, truth.sent),
        ("sent by the sender's word", flow.sender.map_or(0, |sender| sender.sent), truth.sent),
        ("received", counts.received, truth.delivered - truth.foreign),
        ("unique", counts.unique, truth.sent - truth.lost),
        ("lost", counts.lost, truth.lost),
        ("duplicate", counts.duplicate, truth.duplicates),
        ("invalid", counts.invalid, truth.invalid),
        ("out of sequence", counts.out_of_sequence, truth.reordered),
        ("duplicates by the receiver's word", receiver.duplicates, truth.duplicates),
        ("foreign by the receiver's word", receiver.foreign, truth.foreign),
        ("drops by the receiver's kernel", receiver.own_drops.unwrap_or(0), 0),
    ];
    let differing = rows.iter().filter(|(_, measured, true_count)| measured != true_count);
    wrong.extend(differing.map(|(what, measured, true_count)| {
        format!("{} {what}: measured {measured}, in truth {true_count}", flow.direction.name())
    }));
}

struct Cases {
    listen: IpAddr,
    key: Option<Key>,
    cases: Vec<Case>,
}

impl Cases {
    fn add(&mut self, name: &str, up: Vec<Rule>, down: Vec<Rule>, happened: fn(&Truth, &Truth) -> bool) {
        // Each case has a seed of its own, the same in each run.
        let seed = self.cases.len() as u64 + 1;
        let script = Script { seed, up, down, ..Script::default() };
        let (listen, key) = (self.listen, self.key.clone());
        self.cases.push(Case { name: format!("{listen} {name}"), listen, script, key, happened });
    }

    fn losses(&mut self) {
        let loss = |chance| vec![Rule::chance(chance).dropped()];
        self.add("nothing", vec![], vec![], |up, down| up.lost + down.lost == 0);
        self.add("1 % lost", loss(0.01), loss(0.01), |up, down| up.lost + down.lost > 0);
        self.add("10 % lost", loss(0.1), loss(0.1), |up, down| up.lost > 5 && down.lost > 5);
        self.add("50 % lost", loss(0.5), loss(0.5), |up, down| up.lost > 70 && down.lost > 70);
        self.add("lost up only", loss(0.2), vec![], |up, down| up.lost > 20 && down.lost == 0);
        self.add("lost down only", vec![], loss(0.2), |up, down| up.lost == 0 && down.lost > 20);
        self.add("all lost", loss(1.0), loss(1.0), |up, down| up.lost == PACKETS && down.lost == PACKETS);
        let ends = || vec![Rule::packets([0, 1, 2, PACKETS - 2, PACKETS - 1]).dropped()];
        self.add("first and last lost", ends(), ends(), |up, down| up.lost == 5 && down.lost == 5);
        let burst = |p, r| {
            vec![Rule::on(Select::GilbertElliott(GilbertElliott { p, r, good: 0.0, bad: 1.0 })).dropped()]
        };
        self.add("short bursts", burst(0.1, 0.5), burst(0.05, 0.4), |up, down| up.lost > 5 && down.lost > 5);
        self.add("long bursts", burst(0.05, 0.1), burst(0.05, 0.08), |up, down| {
            up.lost > 10 && down.lost > 10
        });
        let leaky = GilbertElliott { p: 0.05, r: 0.2, good: 0.02, bad: 0.7 };
        let leaky = || vec![Rule::on(Select::GilbertElliott(leaky)).dropped()];
        self.add("leaky bursts", leaky(), leaky(), |up, down| up.lost > 5 && down.lost > 5);
    }

    fn duplicates(&mut self) {
        for copies in 1..=3 {
            let rules = move || vec![Rule::chance(0.2).copied(copies)];
            let name = format!("{copies} copies");
            self.add(&name, rules(), rules(), |up, down| up.duplicates > 20 && down.duplicates > 20);
        }
        let late = Duplicate { copies: 1, spacing: Span::default(), later: 6 };
        let late = || vec![Rule { duplicate: Some(late), ..Rule::chance(0.2) }];
        self.add("late copies", late(), late(), |up, down| up.duplicates > 20 && down.reordered == 0);
        // Loss hidden behind copies is loss all the same.
        let hidden = || vec![Rule::chance(0.2).dropped(), Rule::chance(0.3).copied(1)];
        self.add("loss behind copies", hidden(), hidden(), |up, _| up.lost > 20 && up.duplicates > 20);
        self.add(
            "copies up, loss down",
            vec![Rule::chance(0.3).copied(2)],
            vec![Rule::chance(0.3).dropped()],
            |up, down| up.duplicates > 50 && up.lost + down.duplicates == 0 && down.lost > 30,
        );
    }

    fn order(&mut self) {
        for later in [1, 2, 5, 40] {
            let rules = move || vec![Rule::chance(0.1).held(later)];
            self.add(&format!("behind {later}"), rules(), rules(), |up, down| {
                up.reordered > 5 && down.reordered > 5
            });
        }
        let up = Delay::Uniform(Span::default(), Span::from_ns(10 * PERIOD_NS));
        let rules = |delay| vec![Rule::on(Select::All).delayed(delay)];
        self.add("order lost by delay", rules(up), rules(up), |up, down| {
            up.reordered > 20 && down.reordered > 20
        });
        let queue =
            Queue { drain: Span::from_ns(PERIOD_NS), load: 0.9, shape: 1.5, most: Span::from_ns(30_000_000) };
        let queue = Delay::Queue(queue);
        self.add("a busy queue", rules(queue), rules(queue), |up, down| up.reordered + down.reordered == 0);
        self.add("reordered up, delayed down", vec![Rule::chance(0.2).held(3)], rules(queue), |up, down| {
            up.reordered > 20 && down.reordered == 0
        });
    }

    fn corruption(&mut self) {
        let flip = |field, bits: &[u32]| {
            let corrupt = Corrupt { field, bits: bits.to_vec(), random: 0 };
            vec![Rule { corrupt: Some(corrupt), ..Rule::chance(0.1) }]
        };
        let far = || flip(Field::Sequence, &[3]);
        self.add("impossible numbers", far(), far(), |up, down| up.invalid > 5 && down.invalid > 5);
        let near = || flip(Field::Sequence, &[31]);
        self.add("numbers of others", near(), near(), |up, down| up.lost > 3 && down.duplicates > 3);
        let tag = || flip(Field::Tag, &[0, 63]);
        self.add("wrong tags", tag(), tag(), |up, down| up.foreign > 5 && down.foreign > 5);
        let stamp = || flip(Field::Time, &[40]);
        self.add("wrong times", stamp(), stamp(), |up, down| up.lost + down.lost == 0);
        let padding = || flip(Field::Payload, &[70, 90]);
        self.add("wrong padding", padding(), padding(), |up, down| up.lost + down.lost + up.invalid == 0);
    }

    fn mixtures(&mut self) {
        for round in 0..8 {
            let mixture = move |part: f64| {
                vec![
                    Rule::chance(0.1 * part).dropped(),
                    Rule::on(Select::GilbertElliott(GilbertElliott { p: 0.02, r: 0.3, good: 0.0, bad: 1.0 }))
                        .dropped(),
                    Rule::chance(0.1).held(1 + round),
                    Rule::chance(0.1).copied(1 + round % 3),
                    Rule {
                        corrupt: Some(Corrupt { field: Field::Sequence, bits: vec![2], random: 0 }),
                        ..Rule::chance(0.03)
                    },
                    Rule::chance(0.05).delayed(Delay::Constant(Span::from_ns(4 * PERIOD_NS))),
                ]
            };
            self.add(&format!("mixture {round}"), mixture(1.0), mixture(2.0), |up, down| {
                [up, down].iter().all(|way| way.lost > 0 && way.duplicates > 0 && way.reordered > 0)
            });
        }
    }
}

/// All cases without a key.
pub(crate) fn all(listen: IpAddr) -> Vec<Case> {
    let mut cases = Cases { listen, key: None, cases: Vec::new() };
    cases.losses();
    cases.duplicates();
    cases.order();
    cases.corruption();
    cases.mixtures();
    // Sentinels may get lost as well: later ones end the flow.
    let up = vec![Rule::packets([PACKETS, PACKETS + 1]).dropped(), Rule::chance(0.1).dropped()];
    cases.add("lost sentinels", up.clone(), up, |up, down| up.lost > 5 && down.lost > 5);
    if let Some(case) = cases.cases.last_mut() {
        case.script.sentinels = Sentinels::Impaired;
    }
    cases.cases
}

/// Cases with a key, which tells every wrong bit.
pub(crate) fn keyed() -> Vec<Case> {
    let key = Key::new(b"sixteen bytes or more").expect("a key that is long enough");
    let mut cases = Cases { listen: Ipv4Addr::LOCALHOST.into(), key: Some(key), cases: Vec::new() };
    let any = || vec![Rule::chance(0.2).corrupted(Field::Any, 1)];
    cases.add("key, one bit wrong", any(), any(), |up, down| up.invalid > 10 && down.invalid > 10);
    let many = || vec![Rule::chance(0.2).corrupted(Field::Payload, 5), Rule::chance(0.1).held(2).copied(1)];
    cases.add("key, more bits wrong", many(), many(), |up, down| {
        up.invalid + up.foreign > 15 && down.duplicates > 5
    });
    cases.cases
}
