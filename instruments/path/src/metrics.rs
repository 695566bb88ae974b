//! `--metrics`: figures for Prometheus.

use clap::Args;
use quaver_exposition::{Access, Family, Kind, ProcessMeter, listen_at, only_metrics};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where figures are exported.
#[derive(Clone, Debug, Default, Args)]
pub struct MetricsArgs {
    /// Also serve figures for Prometheus at this address, under /metrics
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,
    /// TOML file with a table [metrics_access], as `quaver watch --example` shows it; needed where other hosts reach
    /// --metrics
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub metrics_access: Option<PathBuf>,
}

impl MetricsArgs {
    /// Serves `families`, and what this process costs under `prefix`, until the process ends; does nothing where no address is
    /// given. Call it before rights are given up. The result is where figures are, in words.
    ///
    /// # Errors
    /// The address cannot be had, or others would reach it without the files that this needs.
    pub(crate) fn serve(
        &self,
        prefix: &'static str,
        families: impl Fn() -> Vec<Family> + Send + Sync + 'static,
    ) -> anyhow::Result<Option<String>> {
        let Some(address) = self.metrics else { return Ok(None) };
        let access = Access::of_file(self.metrics_access.as_deref(), address)?;
        let meter = ProcessMeter::open();
        let all = move || {
            let mut all = families();
            all.extend(meter.read().families(prefix));
            all
        };
        let scheme = if access.has_tls() { "https" } else { "http" };
        let bound = listen_at(address, access, only_metrics(all))?;
        Ok(Some(format!("figures for Prometheus at {scheme}://{bound}/metrics")))
    }
}

/// A counter with a sample for each value of a label.
pub(crate) fn counts(
    name: &str,
    help: &'static str,
    label: &'static str,
    counts: impl IntoIterator<Item = (&'static str, u64)>,
) -> Family {
    let mut family = Family::new(name, Kind::Counter, "", help);
    for (value, count) in counts {
        family.number(vec![(label, value.to_owned())], count as f64);
    }
    family
}

#[cfg(test)]
mod tests {
    use crate::mesh::some_families;
    use std::collections::BTreeSet;

    #[test]
    fn the_shipped_rules_and_dashboard_name_exported_metrics_only() {
        let page = quaver_exposition::text_page(&[some_families(), crate::serve::some_families()].concat());
        let samples = page.lines().filter(|line| !line.starts_with('#'));
        let exported: BTreeSet<&str> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
        for (text, least) in [
            (include_str!("../../../packaging/watch/alerts.yaml"), 5),
            (include_str!("../../../packaging/watch/dashboard.json"), 7),
        ] {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let ours = |word: &&str| word.starts_with("quaver_mesh_") || word.starts_with("quaver_serve_");
            let names: BTreeSet<&str> = words.filter(ours).collect();
            assert!(names.len() >= least, "{names:?}");
            let unknown: Vec<_> = names.difference(&exported).collect();
            assert!(unknown.is_empty(), "{unknown:?} are not exported");
        }
    }
}
