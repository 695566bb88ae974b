//! What a person sees of a wait: who waited, how long, and what had the CPU.

use super::digest::WaitDigest;
use quaver_instrument::causes::{certainty, ranked, said_of};
use quaver_instrument::head::{Tracing, head};
use quaver_view::{Cell, Document, Section, Text, text};

/// The document of a run.
pub(super) fn document(digest: &WaitDigest) -> Document {
    let (summary, wait) = (&digest.summary, &digest.summary.wait);
    let tracing = Tracing { tier: &summary.tier, reason: None, blind: &summary.blind };
    let policy = if wait.realtime { "real-time" } else { "normal priority" };
    let who = text!("{} (thread {}), {policy}, of `{}`", wait.comm, wait.thread, wait.threads);
    let mut document = head(&digest.facts, ("thread", who), Some(tracing));
    let waited = Cell::Duration(wait.wait_ns);
    let unexplained = summary.unexplained.share;
    let verdict = match summary.causes.first().filter(|cause| cause.share >= unexplained) {
        Some(cause) => text!(
            "{} waited {waited} for CPU {}. Largest cause: {}, {} of the wait.",
            wait.comm,
            wait.cpu,
            cause.name,
            Cell::Share(cause.share)
        ),
        None => text!(
            "{} waited {waited} for CPU {}. Most of the wait ({}) is unexplained.",
            wait.comm,
            wait.cpu,
            Cell::Share(unexplained)
        ),
    };
    document.verdict = Some(verdict);
    document.incomplete = !summary.complete;
    document.warnings = summary.warnings.iter().map(Text::from).collect();
    document.tile("Wait", waited, text!("limit {}", Cell::Duration(wait.limit_ns)));
    document.tile(
        "Waits above the limit",
        Cell::Count(wait.long_waits),
        "in this window; this is the longest",
    );
    let mut causes = ranked(&summary.causes, &summary.unexplained, "waits", |_, _| Cell::Empty);
    for detail in causes.causes.iter_mut().flat_map(|cause| &mut cause.html_details) {
        *detail = said_of("thread", &detail.to_string()).into();
    }
    let section = Section::new("causes", "Causes of the wait").link("Causes");
    let section =
        section.note("what had the CPU from the instant at which the thread could run, by share of the wait");
    let section = match certainty("wait", &summary.causes, &summary.unexplained) {
        Some(certainty) => section.with(certainty),
        None => section,
    };
    document.section(section.with(causes));
    document
}
