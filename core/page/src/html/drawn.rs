//! Pages whose drawings are made here, so that they need no scripts: what all of them say first and last.

use super::page::{Tile, micro};
use super::{ReportError, write_end, write_head};
use crate::RunFacts;
use serde::Serialize;
use std::io::Write;

/// What such a page says first and last; its own part stands beside it, flattened.
#[derive(Default, Serialize)]
pub struct Frame {
    pub name: String,
    pub verb: &'static str,
    pub version: String,
    pub verdict: String,
    pub complete: bool,
    pub tiles: Vec<Tile>,
    pub warnings: Vec<String>,
    pub facts: Vec<(String, String)>,
}

impl Frame {
    /// What is known of the run; `facts` stand between its command and when it started. Empty ones are left out.
    pub fn of<const N: usize>(verb: &'static str, run: &RunFacts, facts: [(&str, String); N]) -> Self {
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut all = vec![fact("Run", &run.directory), fact("Command", &run.command)];
        all.extend(facts.map(|(name, value)| (name.to_owned(), micro(value))));
        all.extend([fact("Started", &run.started), fact("Host", &run.host)]);
        all.extend(run.facts.iter().cloned());
        Self { name: run.name.clone(), verb, version: run.version.clone(), ..Self::default() }.with_facts(all)
    }

    /// Other facts. Empty ones are left out.
    pub fn with_facts(self, mut facts: Vec<(String, String)>) -> Self {
        facts.retain(|(_, value)| !value.is_empty());
        Self { facts, ..self }
    }

    /// What came of it, in a sentence and in figures.
    pub fn saying(self, verdict: String, complete: bool, mut tiles: Vec<Tile>, warnings: &[String]) -> Self {
        for tile in &mut tiles {
            tile.value = micro(std::mem::take(&mut tile.value));
            tile.note = micro(std::mem::take(&mut tile.note));
        }
        let warnings = warnings.iter().cloned().map(micro).collect();
        Self { verdict: micro(verdict), complete, tiles, warnings, ..self }
    }
}

/// Writes such a page.
pub fn write_drawn(out: &mut dyn Write, template: &str, page: &impl Serialize) -> Result<(), ReportError> {
    write_head(out, template, page, &[])?;
    write_end(out, &[])
}
