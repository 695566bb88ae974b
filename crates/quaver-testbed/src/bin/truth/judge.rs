//! What the chase named, against what was injected.

use anyhow::Context;
use quaver_testbed::phase::{BLOCK_NS, Phase, phase_of};
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

/// How a case went.
#[derive(Serialize)]
pub(super) struct Verdict {
    /// Case.
    pub(super) case: &'static str,
    /// Names that are right for it.
    pub(super) right: Vec<&'static str>,
    /// Injected lateness: time beyond that of the blocks (or run) without injection, by source.
    pub(super) injected_ns: BTreeMap<String, i64>,
    /// Late time with the injection.
    pub(super) with_ns: BTreeMap<String, i64>,
    /// Late time without it.
    pub(super) without_ns: BTreeMap<String, i64>,
    /// Part of the injected lateness that went to a right name.
    pub(super) right_share: f64,
    /// Largest part that went to one wrong name.
    pub(super) wrong_share: f64,
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
                "{}: {verdict}; {:.2} ms injected, {:.1} % right, at most {:.1} % to one wrong name",
                self.case,
                self.injected_ns.values().sum::<i64>() as f64 / 1e6,
                self.right_share * 100.0,
                self.wrong_share * 100.0
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

type Sums = BTreeMap<String, i64>;

/// Time by source, with the pieces of a right name (where `right` names a thread and no source) apart.
fn sums<'a>(right: &[&str], pieces: impl Iterator<Item = &'a Piece>) -> Sums {
    let mut sums = Sums::new();
    for piece in pieces {
        let by_name = right.iter().find(|right| right.contains(' ') && piece.name.starts_with(**right));
        let key = by_name.map_or_else(|| piece.source.clone(), |name| (*name).to_owned());
        *sums.entry(key).or_default() += piece.duration_ns;
    }
    sums
}

/// Judges an injection in alternate blocks.
pub(super) fn blocks(case: &'static str, right: &[&'static str], pieces: &Pieces) -> Verdict {
    let in_phase =
        |phase: Phase| sums(right, pieces.iter().filter(move |piece| phase_of(piece.start_ns) == phase));
    compare(case, right, in_phase(Phase::On), in_phase(Phase::Off))
}

/// Judges a run with an injection against one without.
pub(super) fn runs(case: &'static str, right: &[&'static str], with: &Pieces, without: &Pieces) -> Verdict {
    compare(case, right, sums(right, with.iter()), sums(right, without.iter()))
}

fn compare(case: &'static str, right: &[&'static str], with: Sums, without: Sums) -> Verdict {
    let injected: Sums = with
        .iter()
        .map(|(source, time)| (source.clone(), (time - without.get(source).copied().unwrap_or(0)).max(0)))
        .collect();
    let total: i64 = injected.values().sum();
    let share = |time: i64| if total > 0 { time as f64 / total as f64 } else { 0.0 };
    let is_right = |source: &str| right.contains(&source);
    let right_ns = injected.iter().filter(|(source, _)| is_right(source)).map(|(_, time)| time).sum();
    let wrong = injected.iter().filter(|(source, _)| !is_right(source) && *source != UNEXPLAINED);
    let (right_share, wrong_share) =
        (share(right_ns), share(wrong.map(|(_, time)| *time).max().unwrap_or(0)));
    let holds = total >= LEAST_INJECTED_NS && right_share >= RIGHT_AT_LEAST && wrong_share <= WRONG_AT_MOST;
    Verdict {
        case,
        right: right.to_vec(),
        injected_ns: injected,
        with_ns: with,
        without_ns: without,
        right_share,
        wrong_share,
        p_value: None,
        holds,
    }
}

/// Judges a run with no injection: the blocks that would have been on must not differ from those off. For each
/// source, neighbouring blocks are paired and the signs of their differences flipped at random (a permutation
/// test with a fixed seed); p-values are corrected for the number of sources (Bonferroni).
pub(super) fn nothing(case: &'static str, pieces: &Pieces) -> Verdict {
    let mut by_source: BTreeMap<&str, BTreeMap<u64, i64>> = BTreeMap::new();
    for piece in pieces.iter().filter(|piece| phase_of(piece.start_ns) != Phase::Between) {
        let block = by_source.entry(&piece.source).or_default();
        *block.entry(piece.start_ns / BLOCK_NS).or_default() += piece.duration_ns;
    }
    let range = pieces.iter().map(|piece| piece.start_ns / BLOCK_NS);
    let (first, last) = (range.clone().min().unwrap_or(0), range.max().unwrap_or(0));
    let mut smallest: f64 = 1.0;
    for times in by_source.values() {
        let of = |block: u64| times.get(&block).copied().unwrap_or(0);
        // Pairs start with an off block; the blocks at the ends are cut by the run.
        let differences: Vec<i64> =
            (first / 2 + 1..last / 2).map(|pair| of(2 * pair + 1) - of(2 * pair)).collect();
        smallest = smallest.min(sign_flip_p_value(&differences));
    }
    let corrected = (smallest * by_source.len() as f64).min(1.0);
    let verdict = blocks(case, &[], pieces);
    Verdict { p_value: Some(corrected), holds: corrected >= LEVEL, ..verdict }
}

const FLIPS: u32 = 9_999;

/// Two-sided p-value of the sum of differences under random signs.
fn sign_flip_p_value(differences: &[i64]) -> f64 {
    let observed = differences.iter().sum::<i64>().abs();
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next_bit = || {
        // xorshift64 (Marsaglia 2003): plenty for coin flips.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random & 1 == 1
    };
    let mut as_extreme = 1;
    for _ in 0..FLIPS {
        let flipped: i64 = differences.iter().map(|d| if next_bit() { *d } else { -d }).sum();
        as_extreme += u32::from(flipped.abs() >= observed);
    }
    f64::from(as_extreme) / f64::from(FLIPS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start_ns: u64, duration_ns: i64, source: &str) -> Piece {
        Piece { start_ns, duration_ns, source: source.into(), name: String::new(), at_source: false }
    }

    #[test]
    fn background_is_taken_off() {
        let off = 50_000_000;
        let on = BLOCK_NS + 50_000_000;
        let pieces = vec![
            piece(off, 1_000_000, "tick"),
            piece(on, 1_000_000, "tick"),
            piece(on, 9_500_000, "quota"),
            piece(on, 500_000, UNEXPLAINED),
        ];
        let verdict = blocks("x", &["quota"], &pieces);
        assert!((verdict.right_share - 0.95).abs() < 1e-9);
        assert!(verdict.wrong_share.abs() < 1e-9 && verdict.holds);
        assert!(!blocks("x", &["tlb"], &pieces).holds);
    }

    #[test]
    fn nothing_injected_is_nothing_named() {
        assert!(!blocks("x", &["quota"], &Vec::new()).holds, "an injection that did nothing proves nothing");
        let pieces: Pieces = (0..40).map(|k| piece(k * BLOCK_NS + 50_000_000, 1_000, "tick")).collect();
        assert!(nothing("x", &pieces).holds);
        let biased: Pieces =
            (0..40).map(|k| piece(k * BLOCK_NS + 50_000_000, 1_000 * (k as i64 % 2 + 1), "tick")).collect();
        assert!(!nothing("x", &biased).holds);
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
