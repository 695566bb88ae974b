//! What the chase named, against what was injected.

use super::estimate::{Sample, Shares, Sums, shares_of, sign_flip_p_value};
use anyhow::Context;
use quaver_testbed::phase::{self, Phase};
use serde::Serialize;
use std::collections::BTreeMap;

/// Late time goes at least in this part to the right name …
const RIGHT_AT_LEAST: f64 = 0.90;
/// … and to no single wrong name in more than this part.
const WRONG_AT_MOST: f64 = 0.05;
/// Less injected lateness than this proves nothing.
const LEAST_INJECTED_NS: i64 = 1_000_000;
/// Level of the test that nothing is significant where nothing was injected, over all sources.
const LEVEL: f64 = 0.05;
/// Name of time without a cause.
const UNEXPLAINED: &str = "unexplained";

/// A piece of late time.
pub(super) struct Piece {
    start_ns: u64,
    duration_ns: i64,
    source: String,
    name: String,
    /// The packet had not been sent yet.
    at_source: bool,
}

/// All pieces of a run.
pub(super) type Pieces = Vec<Piece>;

/// Late time of one block by name.
pub(super) struct Stretch {
    /// Number of the pair.
    pub(super) number: u64,
    /// Whether injection was on.
    pub(super) on: bool,
    /// Time by name.
    pub(super) sums: Sums,
}

/// How a case went.
#[derive(Serialize)]
pub(super) struct Verdict {
    /// Case.
    pub(super) case: &'static str,
    /// Names that are right for it.
    pub(super) right: Vec<&'static str>,
    /// Injected lateness: time beyond that of the blocks without injection, by source.
    pub(super) injected_ns: Sums,
    /// Late time with the injection.
    pub(super) with_ns: Sums,
    /// Late time without it.
    pub(super) without_ns: Sums,
    /// Part of the injected lateness that went to a right name.
    pub(super) right_share: f64,
    /// Largest part that went to one wrong name.
    pub(super) wrong_share: f64,
    /// Both with every pair of blocks in, those in which the host stopped the machine too.
    pub(super) untrimmed: [f64; 2],
    /// Both without the wrong names whose difference is one that chance makes, or the injection of what others do: that is in both
    /// kinds of blocks, and never quite evenly.
    pub(super) beyond_chance: Shares,
    /// Lower end of the 95 % interval of `right_share`, by bootstrap over pairs of blocks.
    pub(super) right_at_least: Option<f64>,
    /// Upper end of that of `wrong_share`.
    pub(super) wrong_at_most: Option<f64>,
    /// Late time of each pair of blocks, by name: all that the shares are computed from.
    #[serde(skip)]
    pub(super) stretches: Vec<Stretch>,
    /// Smallest p-value of a difference, where nothing was injected, times the number of sources.
    pub(super) p_value: Option<f64>,
    /// Whether it is as it must be.
    pub(super) holds: bool,
}

impl Verdict {
    /// In one line.
    pub(super) fn line(&self) -> String {
        let verdict = if self.holds { "holds" } else { "FAILS" };
        match self.p_value {
            Some(p) => format!("{}: {verdict}; smallest corrected p-value of a source {p:.3}", self.case),
            None => format!(
                "{}: {verdict}; {:.2} ms injected, {:.1} % right{}, at most {:.1} % to one wrong name{} \
                 [untrimmed {:.1}, {:.1}]",
                self.case,
                self.injected_ns.values().sum::<i64>() as f64 / 1e6,
                self.right_share * 100.0,
                self.right_at_least.map_or(String::new(), |low| format!(" (at least {:.1})", low * 100.0)),
                self.wrong_share * 100.0,
                self.wrong_at_most.map_or(String::new(), |high| format!(" (at most {:.1})", high * 100.0)),
                self.untrimmed[0] * 100.0,
                self.untrimmed[1] * 100.0,
            ),
        }
    }
}

/// Reads the pieces as `quaver export --late-csv` writes them.
pub(super) fn read(csv: &str) -> anyhow::Result<Pieces> {
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().context("an empty export")?.split(',').collect();
    let column = |name: &str| {
        header
            .iter()
            .position(|found| *found == name)
            .with_context(|| format!("no column {name} in the export"))
    };
    let (start, end) = (column("start_ns")?, column("end_ns")?);
    let (source, name, place) = (column("source")?, column("name")?, column("place")?);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let cell = |at: usize| cells.get(at).copied().with_context(|| format!("short line {line}"));
            let (start_ns, end_ns): (i64, i64) = (cell(start)?.parse()?, cell(end)?.parse()?);
            let source = cell(source)?;
            let source = if source.is_empty() { UNEXPLAINED } else { source };
            let (source, name) = (source.to_owned(), cell(name)?.to_owned());
            let at_source = cell(place)? == "source";
            Ok(Piece {
                start_ns: start_ns.max(0) as u64,
                duration_ns: end_ns - start_ns,
                source,
                name,
                at_source,
            })
        })
        .collect()
}

/// Without the time in which the packet had not been sent yet.
pub(super) fn on_the_sinks_side(pieces: Pieces) -> Pieces {
    pieces.into_iter().filter(|piece| !piece.at_source).collect()
}

/// Time by source, with the pieces of a right name (where `right` names a thread and no source) apart.
fn book(sums: &mut Sums, right: &[&str], piece: &Piece) {
    let by_name = right.iter().find(|right| right.contains(' ') && piece.name.starts_with(**right));
    let key = by_name.map_or_else(|| piece.source.clone(), |name| (*name).to_owned());
    *sums.entry(key).or_default() += piece.duration_ns;
}

/// Pairs of blocks that lie wholly in the run (its first and last are cut by its ends), off and on.
fn pairs(right: &[&str], pieces: &Pieces) -> BTreeMap<u64, [Sums; 2]> {
    let numbers = pieces.iter().map(|piece| phase::pair_of(piece.start_ns));
    let (first, last) = (numbers.clone().min().unwrap_or(0), numbers.max().unwrap_or(0));
    let mut pairs: BTreeMap<u64, [Sums; 2]> =
        (first + 1..last).map(|pair| (pair, [Sums::new(), Sums::new()])).collect();
    for piece in pieces {
        let on = match phase::phase_of(piece.start_ns) {
            Phase::Between => continue,
            Phase::Off => 0,
            Phase::On => 1,
        };
        if let Some(pair) = pairs.get_mut(&phase::pair_of(piece.start_ns)) {
            book(&mut pair[on], right, piece);
        }
    }
    pairs
}

/// Judges an injection in pairs of blocks.
pub(super) fn blocks(case: &'static str, right: &[&'static str], pieces: &Pieces) -> Verdict {
    let mut stretches = Vec::new();
    for (number, [off, on]) in pairs(right, pieces) {
        stretches.push(Stretch { number, on: false, sums: off });
        stretches.push(Stretch { number, on: true, sums: on });
    }
    compare(case, right, stretches)
}

fn compare(case: &'static str, right: &[&'static str], stretches: Vec<Stretch>) -> Verdict {
    let of = |on: bool| -> Vec<Sums> {
        stretches.iter().filter(|stretch| stretch.on == on).map(|stretch| stretch.sums.clone()).collect()
    };
    let whole = Sample::new(&of(true), &of(false));
    let sample = whole.trimmed();
    let [with_ns, without_ns, injected_ns] = sample.totals();
    let is_right = |source: &str| right.contains(&source);
    let is_name = |source: &str| source != UNEXPLAINED;
    let Shares { right: right_share, wrong: wrong_share } = shares_of(&injected_ns, &is_right, &is_name);
    let [_, _, all_injected_ns] = whole.totals();
    let untrimmed = shares_of(&all_injected_ns, &is_right, &is_name);
    let beyond_chance = shares_of(&sample.beyond_chance(&is_right), &is_right, &is_name);
    let bounds = sample.bounds(&is_right, &is_name);
    let total: i64 = injected_ns.values().sum();
    let holds = total >= LEAST_INJECTED_NS && right_share >= RIGHT_AT_LEAST && wrong_share <= WRONG_AT_MOST;
    Verdict {
        case,
        right: right.to_vec(),
        injected_ns,
        with_ns,
        without_ns,
        right_share,
        wrong_share,
        untrimmed: [untrimmed.right, untrimmed.wrong],
        beyond_chance,
        right_at_least: bounds.map(|bounds| bounds.right),
        wrong_at_most: bounds.map(|bounds| bounds.wrong),
        stretches,
        p_value: None,
        holds,
    }
}

/// Judges a run with no injection: the blocks that would have been on must not differ from those off. For each source,
/// the signs of the differences of pairs are flipped at random (a permutation test with a fixed seed, exact since the
/// order within each pair is a coin's); p-values are corrected for the number of sources (Bonferroni).
pub(super) fn nothing(case: &'static str, pieces: &Pieces) -> Verdict {
    let verdict = blocks(case, &[], pieces);
    let sources: Vec<&String> = verdict.with_ns.keys().collect();
    let mut smallest: f64 = 1.0;
    for source in &sources {
        let of = |stretch: &Stretch| stretch.sums.get(*source).copied().unwrap_or(0);
        let differences: Vec<i64> =
            verdict.stretches.chunks_exact(2).map(|pair| of(&pair[1]) - of(&pair[0])).collect();
        smallest = smallest.min(sign_flip_p_value(&differences));
    }
    let corrected = (smallest * sources.len() as f64).min(1.0);
    Verdict { p_value: Some(corrected), holds: corrected >= LEVEL, ..verdict }
}

#[cfg(test)]
mod tests {
    use super::super::estimate::Random;
    use super::*;
    use quaver_testbed::phase::BLOCK_NS;

    fn piece(start_ns: u64, duration_ns: i64, source: &str) -> Piece {
        Piece { start_ns, duration_ns, source: source.into(), name: String::new(), at_source: false }
    }

    /// The same in the blocks of pairs 0 to `pairs` - 1, and something in the pairs that the run's ends cut.
    fn pieces_of(pairs: u64, off: &[(i64, &str)], on: &[(i64, &str)]) -> Pieces {
        let mut pieces = vec![piece(50_000_000, 1_000_000, "cut")];
        for block in 2..2 * pairs + 2 {
            let start_ns = block * BLOCK_NS + 50_000_000;
            let times = if phase::is_on(start_ns) { on } else { off };
            pieces.extend(times.iter().map(|(time, source)| piece(start_ns, *time, source)));
            pieces.push(piece(block * BLOCK_NS, 7, "margin"));
        }
        pieces.push(piece((2 * pairs + 2) * BLOCK_NS + 50_000_000, 1_000_000, "cut"));
        pieces
    }

    #[test]
    fn background_is_taken_off() {
        let on = [(100_000, "tick"), (950_000, "quota"), (50_000, UNEXPLAINED)];
        let pieces = pieces_of(10, &[(100_000, "tick")], &on);
        let verdict = blocks("x", &["quota"], &pieces);
        assert!((verdict.right_share - 0.95).abs() < 1e-9);
        assert_eq!(
            verdict.injected_ns.values().sum::<i64>(),
            10_000_000,
            "ten pairs, none that is cut or trimmed"
        );
        assert!(verdict.wrong_share.abs() < 1e-9 && verdict.holds);
        assert!((verdict.right_at_least.unwrap() - 0.95).abs() < 1e-9, "all pairs are alike");
        assert!(!blocks("x", &["tlb"], &pieces).holds);
    }

    /// Pieces of 24 pairs of blocks: other threads take 0 to `noise_ns` of each block, with and without injection; where it is
    /// on, packets are 9 ms late, of which `misnamed_ns` go to these threads as well.
    fn noisy(noise_ns: usize, misnamed_ns: i64) -> Pieces {
        let mut random = Random(7);
        let mut pieces =
            pieces_of(24, &[], &[(9_000_000 - misnamed_ns, "timers"), (misnamed_ns, "cfs-preempt")]);
        for block in 2..50 {
            let noise_ns = random.below(noise_ns) as i64;
            pieces.push(piece(block * BLOCK_NS + 50_000_000, noise_ns, "cfs-preempt"));
        }
        pieces
    }

    #[test]
    fn other_threads_in_both_kinds_of_blocks_decide_nothing_and_hide_no_wrong_name() {
        let timers = |pieces: &Pieces| blocks("x", &["timers"], pieces);
        // A machine was met on which other threads took 169 ms in blocks without injection and 215 ms in those with it.
        let verdict = timers(&noisy(16_000_000, 0));
        let (with_ns, without_ns) = (verdict.with_ns["cfs-preempt"], verdict.without_ns["cfs-preempt"]);
        assert!(without_ns > 150_000_000 && with_ns > without_ns + 30_000_000, "{with_ns} {without_ns}");
        assert!(verdict.wrong_share > 0.1, "{}", verdict.wrong_share);
        assert_eq!(verdict.beyond_chance, Shares { right: 1.0, wrong: 0.0 });
        // The more others compute, the more must be misnamed before it is certain.
        for (noise_ns, misnamed_ns) in [(16_000_000, 5_000_000), (4_000_000, 1_800_000), (1, 910_000)] {
            let Shares { right, wrong } = timers(&noisy(noise_ns, misnamed_ns)).beyond_chance;
            assert!(wrong > 0.1 && right < 0.9, "{noise_ns} {misnamed_ns}: {right} {wrong}");
        }
        // The injection takes a tenth of the time of others, too; a half is more than that.
        let stretched = |with_ns| {
            let on = [(9_000_000, "timers"), (with_ns, "cfs-preempt")];
            timers(&pieces_of(24, &[(40_000_000, "cfs-preempt")], &on)).beyond_chance
        };
        assert_eq!(stretched(44_000_000), Shares { right: 1.0, wrong: 0.0 });
        assert!(stretched(60_000_000).wrong > 0.5);
        // Nothing went to the right name.
        assert_eq!(timers(&noisy(4_000_000, 9_000_000)).beyond_chance.right, 0.0);
        assert_eq!(timers(&Vec::new()).beyond_chance, Shares { right: 0.0, wrong: 0.0 });
    }

    #[test]
    fn nothing_injected_is_nothing_named() {
        assert!(!blocks("x", &["quota"], &Vec::new()).holds, "an injection that did nothing proves nothing");
        assert!(nothing("x", &pieces_of(20, &[(1_000, "tick")], &[(1_000, "tick")])).holds);
        assert!(!nothing("x", &pieces_of(20, &[(1_000, "tick")], &[(2_000, "tick")])).holds);
    }

    #[test]
    fn export_is_read_by_its_header() {
        let pieces =
            read("seq,start_ns,end_ns,source,name,place\n1,10,30,quota,x,receiver\n1,30,35,,,source\n")
                .unwrap();
        assert_eq!((pieces[0].duration_ns, pieces[1].source.as_str()), (20, UNEXPLAINED));
        assert!(read("seq\n").is_err());
    }
}
