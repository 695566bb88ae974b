//! The rules. A new rule is a new function and a new entry in [`ALL`].

pub(crate) mod assets;
pub(crate) mod budgets;
pub(crate) mod circles;
mod imports;
pub(crate) mod prose;
mod quotes;
mod sizes;
mod words;

use crate::tree::Tree;
use std::fmt;

/// One rule.
pub(crate) struct Rule {
    /// Name, printed behind each problem.
    pub(crate) name: &'static str,
    /// What breaks it.
    pub(crate) check: fn(&Tree) -> Vec<Problem>,
}

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// File, or file and line.
    pub(crate) place: String,
    /// What is wrong and what to do.
    pub(crate) message: String,
}

impl Problem {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }

    fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// All rules that need nothing but the tracked files.
pub(crate) const ALL: &[Rule] = &[
    Rule { name: "imports", check: imports::between_crates },
    Rule { name: "circles", check: circles::circles },
    Rule { name: "budget", check: budgets::budgets },
    Rule { name: "unsafe", check: imports::safe_crates },
    Rule { name: "pure", check: imports::pure_crates },
    Rule { name: "file-size", check: sizes::files },
    Rule { name: "function-size", check: sizes::functions },
    Rule { name: "module-name", check: sizes::module_names },
    Rule { name: "unfinished", check: words::unfinished },
    Rule { name: "machine-path", check: words::machine_paths },
    Rule { name: "host", check: words::hosts },
    Rule { name: "glossary", check: words::plain_jitter },
    Rule { name: "quote", check: quotes::readme },
    Rule { name: "figure", check: quotes::figures },
    Rule { name: "width", check: prose::width },
    Rule { name: "octet", check: prose::octets },
    Rule { name: "sentence", check: prose::sentence_length },
];
