//! What `/metrics` of a mesh has: its pairs so far. Labels are names of the file of hosts.

use super::digest::count;
use super::facts::{MeshTest, Pair, ends};
use crate::digest::PathDigest;
use crate::dscp;
use quaver_arrivals::path::arrival::delays_ns;
use quaver_arrivals::path::direction::Direction;
use quaver_arrivals::path::variation::pdv_ns;
use quaver_exposition::histogram::Histogram;
use quaver_exposition::{Family, Kind, Labels};
use std::collections::BTreeMap;

/// Packets from one host to another, of all tests so far.
#[derive(Clone, Debug, Default)]
struct PairFigures {
    /// Its counts alone.
    pair: Pair,
    pdv: Histogram,
    /// Seconds of UTC at which the last test that measured something began.
    measured_s: f64,
}

/// A mesh so far.
#[derive(Clone, Debug, Default)]
pub(super) struct MeshFigures {
    /// By sender, receiver and DSCP.
    pairs: BTreeMap<(String, String, u8), PairFigures>,
    /// Rounds that began.
    pub(super) rounds: u64,
    /// Rounds that began late.
    pub(super) late_rounds: u64,
}

impl MeshFigures {
    /// Adds what a test measured one way; nothing where there is no digest.
    pub(super) fn add(&mut self, here: &str, test: &MeshTest, way: Direction, digest: Option<&PathDigest>) {
        let (from, to) = ends(here, &test.host, way);
        let shown = self.pairs.entry((from.to_owned(), to.to_owned(), test.dscp)).or_default();
        let Some((_, timed)) = count(&mut shown.pair, way, digest) else { return };
        for ns in pdv_ns(&delays_ns(timed)) {
            shown.pdv.add(ns.max(0).cast_unsigned());
        }
        shown.measured_s = test.started_ns as f64 / 1e9;
    }

    /// All families.
    pub(super) fn families(&self) -> Vec<Family> {
        type Count = fn(&Pair) -> u64;
        let counters: [(&str, &'static str, Count); 6] = [
            ("quaver_mesh_tests", "Tests that measured something.", |pair| pair.tests),
            ("quaver_mesh_failed_tests", "Tests that measured nothing.", |pair| pair.failed),
            ("quaver_mesh_packets", "Packets sent.", |pair| pair.sent),
            ("quaver_mesh_lost_packets", "Packets of which no copy arrived.", |pair| pair.lost),
            ("quaver_mesh_duplicates", "Extra copies that arrived.", |pair| pair.duplicate),
            ("quaver_mesh_reordered_packets", "First copies that came after one sent later.", |pair| {
                pair.reordered
            }),
        ];
        let mut all = Vec::new();
        for (name, help, count) in counters {
            let mut family = Family::new(name, Kind::Counter, "", help);
            self.each(|labels, shown| family.number(labels, count(&shown.pair) as f64));
            all.push(family);
        }
        let help = "PDV (RFC 5481) of packets above the least delay of their test.";
        let mut pdv = Family::new("quaver_mesh_pdv_seconds", Kind::Histogram, "seconds", help);
        self.each(|labels, shown| pdv.times(labels, &shown.pdv));
        let help = "When the last test that measured something began, as seconds of UTC; 0 where none did.";
        let mut measured =
            Family::new("quaver_mesh_measured_timestamp_seconds", Kind::Gauge, "seconds", help);
        self.each(|labels, shown| measured.number(labels, shown.measured_s));
        let rounds = [
            ("quaver_mesh_rounds", "Rounds that began.", self.rounds),
            ("quaver_mesh_late_rounds", "Rounds that began late.", self.late_rounds),
        ];
        all.extend([pdv, measured]);
        all.extend(
            rounds.map(|(name, help, count)| Family::one((name, ""), Kind::Counter, help, count as f64)),
        );
        all
    }

    fn each(&self, mut take: impl FnMut(Labels, &PairFigures)) {
        for ((from, to, code), shown) in &self.pairs {
            take(
                vec![("from", from.clone()), ("to", to.clone()), ("dscp", dscp::name(*code).to_string())],
                shown,
            );
        }
    }
}

/// The families of a mesh with one pair.
#[cfg(test)]
pub(crate) fn some_families() -> Vec<Family> {
    let mut figures = MeshFigures { rounds: 1, ..MeshFigures::default() };
    let test = MeshTest { host: "bern".into(), dscp: 46, ..MeshTest::default() };
    figures.add("oslo", &test, Direction::Down, None);
    figures.families()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_without_a_measurement_is_a_failed_one_of_its_pair() {
        let page = quaver_exposition::text_page(&some_families());
        for line in [
            "quaver_mesh_failed_tests_total{from=\"bern\",to=\"oslo\",dscp=\"ef\"} 1",
            "quaver_mesh_packets_total{from=\"bern\",to=\"oslo\",dscp=\"ef\"} 0",
            "quaver_mesh_measured_timestamp_seconds{from=\"bern\",to=\"oslo\",dscp=\"ef\"} 0",
            "quaver_mesh_rounds_total 1",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line}\n{page}");
        }
    }
}
