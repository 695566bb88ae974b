//! What every document of this instrument starts with.

use quaver_instrument::facts::RunFacts;
use quaver_view::{Document, Text};

/// A document of a run with its circumstances. `program` stands at the head of the terminal's page too.
pub(crate) fn document(verb: &str, run: &RunFacts, program: Text) -> Document {
    let mut document = Document::new(verb, &run.name);
    document.version.clone_from(&run.version);
    document.html_fact("Run", &run.directory).html_fact("Command", &run.command);
    document.html_fact("Started", &run.started);
    document.fact("Host", &run.host).fact("Program", program);
    for (name, value) in &run.facts {
        document.html_fact(name, value);
    }
    document
}
