//! From the tests of a mesh to its pairs.

use super::facts::{MeshFacts, MeshTest, Pair, ends};
use crate::digest::{PathDigest, analyze as analyze_test};
use crate::dscp;
use anyhow::Context;
use quaver_arrivals::distribution::distribution;
use quaver_arrivals::path::Arrival;
use quaver_arrivals::path::arrival::delays_ns;
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::summary::FlowSummary;
use quaver_arrivals::path::variation::pdv_ns;
use quaver_instrument::exit_code::sentence;
use quaver_instrument::facts::{RunFacts, notes, run_facts};
use quaver_store::run::RunDir;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Folder of the tests in the run's.
pub const TESTS: &str = "tests";

/// Version of [`MeshSummary`].
pub const MESH_VERSION: u32 = 1;

/// `summary.json` of a mesh.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeshSummary {
    /// [`MESH_VERSION`].
    pub version: u32,
    /// Name of the host that measured.
    pub here: String,
    /// Whether all rounds ran to their end, and each test that measured something its full length.
    pub complete: bool,
    /// Rounds that began.
    pub rounds: u64,
    /// Rounds that began late, since the one before had not ended.
    pub late_rounds: u64,
    /// Tests that measured nothing.
    pub failed: u64,
    /// Hosts to which no test measured anything.
    pub unreachable: Vec<String>,
    /// Worst figures of all pairs; none where no pair has the figure.
    pub worst: WorstFigures,
    /// Pairs, those measured here first.
    pub pairs: Vec<Pair>,
    /// Tests, in the order of their end.
    pub tests: Vec<MeshTest>,
    /// What the reader should know before believing the numbers.
    pub warnings: Vec<String>,
}

/// Worst figures of all pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WorstFigures {
    /// Largest part of a pair's packets that was lost.
    pub loss_share: Option<f64>,
    /// Largest 99th percentile of PDV, of pairs with 100 packets or more, nanoseconds.
    pub pdv_p99_ns: Option<i64>,
    /// Largest median of one-way delay, nanoseconds.
    pub delay_p50_ns: Option<i64>,
}

/// A mesh with its analysis.
pub struct MeshDigest {
    /// Results.
    pub summary: MeshSummary,
    /// Facts of the run.
    pub run: RunFacts,
}

/// Analyses a stored mesh, test by test.
///
/// # Errors
/// The manifest cannot be read. A test that cannot be read is a failed one.
pub fn analyze(run: &RunDir) -> anyhow::Result<MeshDigest> {
    let manifest = run.read_manifest()?;
    let mut facts: MeshFacts = run
        .read_facts(manifest.path.as_ref())?
        .with_context(|| format!("read {}: it has no facts of a mesh", run.manifest().display()))?;
    let mut pairs = Pairs::default();
    for test in &mut facts.tests {
        let digest = match analyze_of(run, test) {
            Some(Ok(digest)) => Some(digest),
            Some(Err(error)) => {
                test.reason = Some(format!("its record cannot be read: {}", sentence(&error)));
                test.run = None;
                None
            }
            None => None,
        };
        for way in &facts.ways {
            pairs.take(&facts.here, test, *way, digest.as_ref());
        }
    }
    let mut pairs = pairs.finish();
    pairs.extend(std::mem::take(&mut facts.joined));
    let mut warnings: Vec<String> = Vec::new();
    warnings.extend(manifest.incomplete_reason().map(|reason| format!("the run is incomplete: {reason}")));
    warnings.extend(notes(&manifest));
    let mut summary = summarize(facts, pairs, warnings);
    summary.complete &= manifest.complete;
    Ok(MeshDigest { summary, run: run_facts(run, &manifest) })
}

/// Analyses a test of a mesh; none where it has no run.
pub(super) fn analyze_of(mesh: &RunDir, test: &MeshTest) -> Option<anyhow::Result<PathDigest>> {
    let place = mesh.path().join(TESTS).join(test.run.as_ref()?);
    Some(RunDir::open(&place).map_err(Into::into).and_then(|run| analyze_test(&run)))
}

fn summarize(facts: MeshFacts, pairs: Vec<Pair>, mut warnings: Vec<String>) -> MeshSummary {
    let MeshFacts { here, rounds, late_rounds, tests, .. } = facts;
    let mut hosts: BTreeMap<&str, bool> = BTreeMap::new();
    for test in &tests {
        *hosts.entry(&test.host).or_default() |= test.run.is_some();
    }
    let unreachable: Vec<String> =
        hosts.iter().filter(|(_, measured)| !**measured).map(|(host, _)| (*host).to_owned()).collect();
    if late_rounds > 0 {
        warnings.push(format!(
            "{late_rounds} of {rounds} rounds began late, since the one before had not ended; use a longer --every or \
             shorter tests"
        ));
    }
    let all = |value: fn(&Pair) -> Option<i64>| pairs.iter().filter_map(value).max();
    let worst = WorstFigures {
        loss_share: pairs.iter().filter_map(|pair| pair.loss_share).max_by(f64::total_cmp),
        pdv_p99_ns: all(Pair::pdv_p99_ns),
        delay_p50_ns: all(|pair| pair.delay.as_ref().map(|delay| delay.p50_ns)),
    };
    MeshSummary {
        version: MESH_VERSION,
        here,
        complete: tests.iter().all(|test| test.run.is_none() || test.reason.is_none()),
        rounds,
        late_rounds,
        failed: tests.iter().filter(|test| test.run.is_none()).count() as u64,
        unreachable,
        worst,
        pairs,
        tests,
        warnings,
    }
}

/// Pairs that grow test by test, in the order of their first test.
#[derive(Default)]
struct Pairs {
    all: Vec<Growing>,
}

/// A pair with the samples of its tests so far.
struct Growing {
    pair: Pair,
    pdv_ns: Vec<i64>,
    delays_ns: Vec<i64>,
    /// The clocks of each test so far are known well enough for delays.
    known: bool,
}

impl Pairs {
    fn take(&mut self, here: &str, test: &MeshTest, way: Direction, digest: Option<&PathDigest>) {
        let (from, to) = ends(here, &test.host, way);
        let same = |growing: &Growing| {
            let pair = &growing.pair;
            pair.from == from && pair.to == to && pair.dscp == test.dscp
        };
        let at = self.all.iter().position(same).unwrap_or_else(|| {
            let pair = Pair {
                id: id(from, to, test.dscp),
                from: from.to_owned(),
                to: to.to_owned(),
                dscp: test.dscp,
                measured_by: here.to_owned(),
                ..Pair::default()
            };
            self.all.push(Growing { pair, pdv_ns: Vec::new(), delays_ns: Vec::new(), known: true });
            self.all.len() - 1
        });
        self.all[at].take(test, way, digest);
    }

    fn finish(self) -> Vec<Pair> {
        self.all.into_iter().map(Growing::finish).collect()
    }
}

/// Counts a test of a pair. The result is figures and arrivals of its flow; none of a test that broke off before it.
pub(super) fn count<'a>(
    pair: &mut Pair,
    way: Direction,
    digest: Option<&'a PathDigest>,
) -> Option<(&'a FlowSummary, &'a Vec<Arrival>)> {
    let flow = digest.and_then(|digest| {
        let at = digest.flows.iter().position(|(flow, _)| flow.direction == way)?;
        let results = digest.summary.flows().find(|results| results.flow.direction == way)?;
        Some((&results.figures, &digest.timed[at]))
    });
    let Some((figures, _)) = flow else {
        pair.failed += 1;
        return None;
    };
    pair.tests += 1;
    pair.sent += figures.packets.sent;
    pair.lost += figures.loss.packets;
    pair.duplicate += figures.packets.duplicate;
    pair.reordered += figures.packets.reordered;
    flow
}

impl Growing {
    fn take(&mut self, test: &MeshTest, way: Direction, digest: Option<&PathDigest>) {
        let pair = &mut self.pair;
        if test.reason.is_some() {
            pair.reason.clone_from(&test.reason);
        }
        let Some((figures, timed)) = count(pair, way, digest) else { return };
        let mut delays_ns = delays_ns(timed);
        self.pdv_ns.extend(pdv_ns(&delays_ns));
        if let Some(delay) = &figures.delay {
            self.known &= delay.is_known();
            pair.delay_bound_ns = pair.delay_bound_ns.max(delay.bound_ns);
        }
        if self.known {
            self.delays_ns.append(&mut delays_ns);
        }
    }

    fn finish(mut self) -> Pair {
        let some = |samples: &mut Vec<i64>| (!samples.is_empty()).then(|| distribution(samples));
        Pair {
            loss_share: (self.pair.sent > 0).then(|| self.pair.lost as f64 / self.pair.sent as f64),
            pdv: some(&mut self.pdv_ns),
            delay: some(&mut self.delays_ns).filter(|_| self.known),
            ..self.pair
        }
    }
}

/// Identifier of a pair; without dots, which part a path into the summary.
fn id(from: &str, to: &str, code: u8) -> String {
    let of = if code == 0 { format!("{from}-{to}") } else { format!("{from}-{to}-{}", dscp::name(code)) };
    of.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(host: &str, run: Option<&str>, reason: Option<&str>) -> MeshTest {
        let words = |text: Option<&str>| text.map(str::to_owned);
        MeshTest { host: host.into(), run: words(run), reason: words(reason), ..MeshTest::default() }
    }

    #[test]
    fn a_host_is_unreachable_where_no_test_measured_anything() {
        let tests = vec![
            test("bern", None, Some("refused")),
            test("bern", Some("probe-1"), None),
            test("roma", None, Some("refused")),
            test("roma", None, Some("no route")),
        ];
        let mut pairs = Pairs::default();
        for test in &tests {
            pairs.take("oslo", test, Direction::Up, None);
        }
        let facts = MeshFacts { here: "oslo".into(), tests, rounds: 2, ..MeshFacts::default() };
        let summary = summarize(facts, pairs.finish(), Vec::new());
        assert_eq!(
            (summary.failed, summary.unreachable, summary.complete),
            (3, vec!["roma".to_owned()], true)
        );
        let roma = &summary.pairs[1];
        assert_eq!((roma.failed, roma.reason.as_deref(), roma.loss_share), (2, Some("no route"), None));
        assert_eq!(summary.worst, WorstFigures::default());
    }

    #[test]
    fn identifiers_can_stand_in_a_path() {
        assert_eq!(id("oslo", "192.0.2.7", 0), "oslo-192-0-2-7");
        assert_eq!(id("a_b", "c d", 46), "a_b-c-d-ef");
    }
}
