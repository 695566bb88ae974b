//! What every document of the simulator starts with.

use quaver_instrument::facts::RunFacts;
use quaver_view::Document;

/// A document of a run with its circumstances, which only the page has room for: results do not depend on the host.
pub(crate) fn document(verb: &str, run: &RunFacts) -> Document {
    let mut document = Document::new(verb, &run.name);
    document.version.clone_from(&run.version);
    document.html_fact("run", &run.directory).html_fact("command", &run.command);
    document.html_fact("started", &run.started).html_fact("host", &run.host);
    // What these are of, a simulation does not have.
    let foreign = ["receiver", "events lost", "clock source"];
    for (name, value) in run.facts.iter().filter(|(name, _)| !foreign.contains(&name.as_str())) {
        document.html_fact(name, value);
    }
    document
}
