//! What `--json` of every verb has in common: the key `result` beside the numbers. It is made from the document that a person
//! sees, so that both say the same.

use crate::exit_code::ExitCode;
use quaver_view::{Block, Causes, Document, Finding, Section};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// Name and version. The number grows when a key changes its meaning or goes.
pub const SCHEMA: &str = "quaver.result/1";

/// Section of changes that a run bears out: the name of each finding there is what to do.
const ADVICE: &str = "advice";

/// What came of a verb, whichever it is. The other keys of the same object are the numbers behind it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Envelope {
    /// Name and version of this object.
    pub schema: &'static str,
    /// The command without its options: `quaver tune audit`.
    pub verb: String,
    /// Directory of the run that was stored or read; null where there is none.
    pub run: Option<String>,
    /// What came of it, in a sentence or two that are computed from the numbers; null where nothing was measured.
    pub verdict: Option<String>,
    /// What removes what was found, in the order of the page.
    pub remedies: Vec<Proposal>,
    /// What to know before trusting the numbers, a sentence each.
    pub warnings: Vec<String>,
    /// Whether the run was cut short.
    pub incomplete: bool,
    /// Exit status of the process, as its help lists them.
    pub status: u8,
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Proposal {
    /// The cause or the finding that it is against.
    pub against: String,
    /// Part of the whole that this costs, 0 to 1; null where it was not measured.
    pub share: Option<f64>,
    /// When it takes effect: `now` or `boot`; null where that is not known.
    pub when: Option<String>,
    /// What to do: a command, a setting or a sentence.
    pub what: String,
}

impl Envelope {
    /// That of a document.
    pub fn of(document: &Document, run: Option<&Path>, status: ExitCode) -> Self {
        let mut remedies = Vec::new();
        for section in &document.sections {
            section.blocks.iter().for_each(|block| propose(section, block, &mut remedies));
        }
        Self {
            schema: SCHEMA,
            verb: document.verb.clone(),
            run: run.map(|run| run.display().to_string()),
            verdict: document.verdict.as_ref().map(ToString::to_string),
            remedies,
            warnings: document.warnings.iter().map(ToString::to_string).collect(),
            incomplete: document.incomplete,
            status: status as u8,
        }
    }

    /// The numbers with this beside them, as text for standard output.
    ///
    /// # Errors
    /// A number has no form in JSON.
    pub fn beside(&self, numbers: &Value) -> anyhow::Result<String> {
        Ok(format!("{}\n", serde_json::to_string_pretty(&self.with(numbers)?)?))
    }

    /// The same in one line, the last of those that a log has.
    ///
    /// # Errors
    /// A number has no form in JSON.
    pub fn in_line(&self, numbers: &Value) -> anyhow::Result<String> {
        Ok(format!("{}\n", self.with(numbers)?))
    }

    fn with(&self, numbers: &Value) -> anyhow::Result<Value> {
        let mut all = numbers.as_object().cloned().unwrap_or_default();
        all.insert("result".to_owned(), serde_json::to_value(self)?);
        Ok(all.into())
    }
}

fn propose(section: &Section, block: &Block, remedies: &mut Vec<Proposal>) {
    match block {
        Block::Only(_, block) => propose(section, block, remedies),
        Block::Causes(causes) => remedies.extend(of_causes(causes)),
        Block::Findings(findings) => {
            remedies.extend(findings.iter().flat_map(|finding| of_finding(finding, section.id == ADVICE)));
        }
        _ => {}
    }
}

fn of_causes(causes: &Causes) -> impl Iterator<Item = Proposal> {
    causes.causes.iter().flat_map(|cause| {
        // What is known about a remedy is none.
        cause.remedies.iter().filter(|remedy| remedy.when != "known").map(|remedy| Proposal {
            against: cause.name.clone(),
            share: Some(cause.share),
            when: Some(remedy.when.clone()).filter(|when| !when.is_empty()),
            what: remedy.what.to_string(),
        })
    })
}

fn of_finding(finding: &Finding, is_advice: bool) -> Vec<Proposal> {
    let proposal = |against: String, what: String| Proposal { against, share: None, when: None, what };
    if is_advice {
        let evidence: Vec<String> = finding.details.iter().map(ToString::to_string).collect();
        return vec![proposal(evidence.join("; "), finding.name.to_string())];
    }
    finding.remedies.iter().map(|what| proposal(finding.name.to_string(), what.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_view::{Cause, Remedy, Tone};

    #[test]
    fn remedies_are_those_of_the_page_in_its_order() {
        let mut document = Document::new("quaver chase", "run");
        let remedies = [("now", "taskset"), ("known", "no nohz_full"), ("boot", "isolcpus=1")];
        let cause = Cause {
            name: "scheduler tick".into(),
            share: 0.25,
            remedies: remedies.map(|(when, what)| Remedy::new(when, what)).into(),
            ..Cause::default()
        };
        let causes = Block::from(Causes { causes: vec![cause], ..Causes::default() });
        let check = Finding::new(Tone::Caution, "missing", "BPF").remedy("sudo quaver");
        document.section(Section::new("causes", "").with(causes.only(quaver_view::Shown::HtmlOnly)));
        document.section(Section::new("checks", "").with(vec![check]));
        let change = Finding::new(Tone::Caution, "12 %", "hold the lock for less time").detail("12 waits");
        document.section(Section::new(ADVICE, "").with(vec![change]));
        let found = Envelope::of(&document, Some(Path::new("runs/a")), ExitCode::Threshold);
        let all: Vec<_> =
            found.remedies.iter().map(|one| [one.against.as_str(), one.what.as_str()]).collect();
        assert_eq!(
            all,
            [
                ["scheduler tick", "taskset"],
                ["scheduler tick", "isolcpus=1"],
                ["BPF", "sudo quaver"],
                ["12 waits", "hold the lock for less time"]
            ]
        );
        let first = &found.remedies[0];
        assert_eq!((first.share, first.when.as_deref()), (Some(0.25), Some("now")));
        assert_eq!((found.status, found.run.as_deref(), found.verdict), (1, Some("runs/a"), None));
    }

    #[test]
    fn numbers_stay_where_they_were() {
        let mut document = Document::new("quaver noise", "run");
        document.verdict = Some("No gap of 1.00 µs or more.".into());
        let found = Envelope::of(&document, None, ExitCode::Done);
        let numbers = serde_json::json!({ "schema": "quaver.noise/1", "noise_ns": 7 });
        let mut all: Value = serde_json::from_str(&found.beside(&numbers).unwrap()).unwrap();
        let result = all.as_object_mut().unwrap().remove("result").unwrap();
        assert_eq!(all, numbers);
        assert_eq!(result["schema"], SCHEMA);
        assert_eq!(
            (&result["verdict"], &result["run"]),
            (&"No gap of 1.00 µs or more.".into(), &Value::Null)
        );
    }
}
