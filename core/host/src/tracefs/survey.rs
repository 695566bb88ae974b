//! What tracefs offers on this machine. Looks only; makes and writes nothing.

use super::events::{Reader, TRACEPOINTS, Tracepoint};
use super::format::{EventFormat, PageLayout};
use super::instance::stale_instances;
use super::root::{Dir, Reached, open_tracefs};
use super::timeline::TraceClock;
use crate::trace::TraceError;
use std::collections::BTreeMap;

/// What `doctor` wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// How tracefs was reached.
    pub reached: Reached,
    /// Clock that a trace would use; none if neither `x86-tsc` nor `mono` is offered, and tracing is not possible.
    pub clock: Option<TraceClock>,
    /// Whether the page layout could be read.
    pub pages: bool,
    /// Tracepoints that can be used, as `group:name`.
    pub present: Vec<String>,
    /// Those that cannot, as `group:name`, with the reason.
    pub missing: BTreeMap<String, String>,
    /// Classes of events that are blind for want of them.
    pub blind: Vec<String>,
    /// Instances that killed runs left behind; the next trace removes them.
    pub leftovers: Vec<String>,
}

/// Looks at tracefs; a refusal says what to do.
pub fn probe() -> Result<Survey, TraceError> {
    let (root, reached) = open_tracefs()?;
    Ok(probe_root(&root, reached))
}

/// Looks at the tracefs below `root`.
pub fn probe_root(root: &Dir, reached: Reached) -> Survey {
    let mut bound = Bound::default();
    for tracepoint in TRACEPOINTS {
        bound.bind(root, tracepoint);
    }
    Survey {
        reached,
        clock: root.read("trace_clock").ok().as_deref().and_then(TraceClock::best_of),
        pages: page_layout(root).is_some(),
        present: bound.present.iter().map(|t| full_name(t)).collect(),
        blind: bound.blind(),
        missing: bound.missing.into_iter().map(|(t, reason)| (full_name(t), reason)).collect(),
        leftovers: stale_instances(root).unwrap_or_default(),
    }
}

/// The layout of trace pages below `root`, if it says.
pub fn page_layout(root: &Dir) -> Option<PageLayout> {
    PageLayout::parse(&root.read("events/header_page").ok()?)
}

/// Tracepoints and their formats on this kernel.
#[derive(Debug, Default)]
pub struct Bound {
    /// Usable.
    pub present: Vec<&'static Tracepoint>,
    /// Not usable, with the reason.
    pub missing: Vec<(&'static Tracepoint, String)>,
    /// Readers by event number.
    pub readers: Vec<Option<Reader>>,
}

impl Bound {
    /// Reads the format of `tracepoint` below `root` and adds it to the usable or the missing ones.
    pub fn bind(&mut self, root: &Dir, tracepoint: &'static Tracepoint) {
        match read_format(root, tracepoint) {
            Ok((id, reader)) => {
                let index = usize::from(id);
                if self.readers.len() <= index {
                    self.readers.resize_with(index + 1, || None);
                }
                self.readers[index] = Some(reader);
                self.present.push(tracepoint);
            }
            Err(reason) => self.missing.push((tracepoint, reason)),
        }
    }

    /// A line for each class that lacks a tracepoint.
    pub fn blind(&self) -> Vec<String> {
        let mut classes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (tracepoint, reason) in self.missing.iter().filter(|(t, _)| !t.optional) {
            classes.entry(tracepoint.class).or_default().push(format!("{}: {reason}", full_name(tracepoint)));
        }
        classes.into_iter().map(|(class, reasons)| format!("{class} ({})", reasons.join(", "))).collect()
    }
}

/// `group:name`.
pub fn full_name(tracepoint: &Tracepoint) -> String {
    format!("{}:{}", tracepoint.group, tracepoint.name)
}

fn read_format(root: &Dir, tracepoint: &Tracepoint) -> Result<(u16, Reader), String> {
    let path = format!("events/{}/{}/format", tracepoint.group, tracepoint.name);
    let text = root.read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "this kernel has no such tracepoint".to_owned(),
        _ => format!("its format cannot be read: {error}"),
    })?;
    let format = EventFormat::parse(&text).ok_or("its format is not understood")?;
    let reader =
        Reader::bind(tracepoint, &format).map_err(|field| format!("its format lacks the field {field}"))?;
    Ok((format.id, reader))
}
