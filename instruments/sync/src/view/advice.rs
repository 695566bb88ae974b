//! What to change.

use crate::digest::SyncSummary;
use quaver_view::{Block, Cell, Finding, Section, Tone};

/// The section; none where this run bears nothing out.
pub(super) fn section(summary: &SyncSummary) -> Option<Section> {
    let findings: Vec<Finding> = summary
        .advice
        .iter()
        .map(|one| {
            let gain = one.gain.map_or_else(
                || "–".to_owned(),
                |gain| format!("{}{}", if one.at_most { "≤ " } else { "" }, Cell::Share(gain)),
            );
            let finding = Finding::new(Tone::Caution, gain, one.change.as_str());
            one.evidence.iter().fold(finding, |finding, words| finding.detail(words.as_str()))
        })
        .collect();
    let note =
        "what this run bears out, with the part of its length that the change gains where it was replayed";
    (!findings.is_empty())
        .then(|| Section::new("advice", "What to change").note(note).with(Block::Findings(findings)))
}
