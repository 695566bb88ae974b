//! The head of a document: what was run, where, and what observed the causes.

use crate::facts::RunFacts;
use quaver_view::{Document, Text, text};

/// What observed the causes.
#[derive(Clone, Copy, Debug)]
pub struct Tracing<'a> {
    /// Name of the tier (`bpf`, `tracefs`, `user`).
    pub tier: &'a str,
    /// Why not a better one.
    pub reason: Option<&'a str>,
    /// Classes of causes that it could not observe.
    pub blind: &'a [String],
}

/// A document with the facts of its run and nothing else. `subject` is the name and the value of what was measured
/// (`stream`, `loop`); `tracing` is none for instruments that trace nothing.
pub fn head(run: &RunFacts, subject: (&str, Text), tracing: Option<Tracing<'_>>) -> Document {
    let mut document = Document::new(format!("quaver {}", run.verb), &run.name);
    document.version.clone_from(&run.version);
    document.fact("host", &run.host).fact(subject.0, subject.1).fact("trigger", &run.trigger);
    if let Some(tracing) = tracing {
        document.fact("tracing", if tracing.tier == "user" { "user space only" } else { tracing.tier });
        if let Some(reason) = tracing.reason {
            document.fact("", text!("no better tier: {reason}"));
        }
        document.fact("not observed", tracing.blind.join(", "));
    }
    document.html_fact("run", &run.directory);
    document.html_fact("command", &run.command);
    document.html_fact("started", &run.started);
    for (name, value) in &run.facts {
        document.html_fact(name, value);
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_view::plain;

    fn run() -> RunFacts {
        RunFacts {
            name: "noise-1".into(),
            verb: "noise".into(),
            directory: "runs/noise-1".into(),
            command: "quaver noise".into(),
            started: "2026-11-20T16:58:00Z".into(),
            version: "0.1.0".into(),
            host: "Linux 6.18.5, 2 CPUs".into(),
            facts: vec![("clock source".into(), "tsc".into())],
            ..RunFacts::default()
        }
    }

    #[test]
    fn terminal_names_host_subject_and_what_tracing_lacks() {
        let blind = ["NMI".to_owned(), "work".to_owned()];
        let tracing = Tracing { tier: "user", reason: Some("no BPF"), blind: &blind };
        let document = head(&run(), ("loop", "CPU 1".into()), Some(tracing));
        let expected = "\
quaver noise · noise-1
  host          Linux 6.18.5, 2 CPUs
  loop          CPU 1
  tracing       user space only
                no better tier: no BPF
  not observed  NMI, work
";
        assert_eq!(plain(&document), expected);
    }

    #[test]
    fn page_has_all_facts_and_those_without_a_value_vanish() {
        let tracing = Tracing { tier: "bpf", reason: None, blind: &[] };
        let document = head(&run(), ("loop", "CPU 1".into()), Some(tracing));
        assert_eq!(document.version, "0.1.0");
        let mut page = Vec::new();
        quaver_view::write_html(&mut page, &document).unwrap();
        let page = String::from_utf8(page).unwrap();
        for words in ["runs/noise-1", "2026-11-20T16:58:00Z", "Clock source", "tsc", "bpf"] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("not observed") && !page.contains("no better tier"), "{page}");
        assert!(!plain(&head(&run(), ("loop", "CPU 1".into()), None)).contains("tracing"));
    }
}
