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
    // For what it waited.
    let object = match &wait.lock {
        Some(lock) => format!("for a lock that thread {} ({}) let go of", lock.holder_comm, lock.holder),
        None => format!("for CPU {}", wait.cpu),
    };
    let verdict = match summary.causes.first().filter(|cause| cause.share >= unexplained) {
        Some(cause) => text!(
            "{} waited {waited} {object}. Largest cause: {}, {} of the wait.",
            wait.comm,
            cause.name,
            Cell::Share(cause.share)
        ),
        None => text!(
            "{} waited {waited} {object}. Most of the wait ({}) is unexplained.",
            wait.comm,
            Cell::Share(unexplained)
        ),
    };
    document.verdict = Some(verdict);
    document.incomplete = !summary.complete;
    document.warnings = summary.warnings.iter().map(Text::from).collect();
    document.tile("Wait", waited, text!("limit {}", Cell::Duration(wait.limit_ns)));
    if let Some(lock) = &wait.lock {
        document.tile("Lock", lock.address.as_str(), "a futex that is a lock by its value or operation");
    }
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
    let section = section.note(if wait.lock.is_some() {
        "what the thread did that let go of the lock, by share of the wait; `the thread` is that one, and since when it had the lock is not recorded: all is inferred"
    } else {
        "what had the CPU from the instant at which the thread could run, by share of the wait"
    });
    let section = match certainty("wait", &summary.causes, &summary.unexplained) {
        Some(certainty) => section.with(certainty),
        None => section,
    };
    document.section(section.with(causes));
    document
}
