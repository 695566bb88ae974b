//! Names of events that only the running system can give: functions, interrupts, threads that still live.

use quaver_abi::record::{EventKind, EventRecord};
use quaver_analysis::model::Names;
use quaver_host::names;
use quaver_host::root::HostRoot;
use quaver_store::events::read_events;
use quaver_store::run::RunDir;
use std::collections::BTreeSet;

/// Adds to the stored names of a run those that the running system can give.
///
/// # Errors
/// The run's events or names cannot be read, or the names not be written.
pub fn name_what_is_left(run: &RunDir) -> anyhow::Result<()> {
    let mut stored: Names = run.read_names()?;
    name_events(&read_events(&run.events())?, &mut stored);
    Ok(run.write_names(&stored)?)
}

/// Adds the names of these events that the running system can give. Addresses of functions and numbers of threads mean
/// nothing after the next boot.
pub fn name_events(events: &[EventRecord], stored: &mut Names) {
    let root = HostRoot::system();
    let addresses: BTreeSet<u64> = events.iter().filter_map(function_address).collect();
    let unknown = addresses.into_iter().filter(|address| !stored.symbol.contains_key(address)).collect();
    // Hidden addresses leave causes with coarser names; doctor says how to show them.
    stored.symbol.extend(names::function_names(&root, &unknown).unwrap_or_default());
    let calls =
        events.iter().filter(|event| event.kind == EventKind::SystemCall as u8).map(|event| event.aux);
    for number in calls.collect::<BTreeSet<u64>>() {
        if let Some(name) = names::system_call_name(number) {
            stored.call.entry(number).or_insert_with(|| name.to_owned());
        }
    }
    for (number, name) in names::irq_names(&root) {
        stored.irq.entry(number).or_insert(name);
    }
    for (number, name) in names::idle_state_names(&root) {
        stored.idle_state.entry(number).or_insert(name);
    }
    name_threads(events, stored);
}

/// Adds the names of these events' threads, as far as those still live.
pub fn name_threads(events: &[EventRecord], stored: &mut Names) {
    let threads: BTreeSet<u32> = events.iter().filter_map(thread_of).collect();
    let nameless = threads.into_iter().filter(|thread| !stored.task.contains_key(thread)).collect();
    stored.task.extend(names::task_names(&HostRoot::system(), &nameless));
}

/// The kernel function that an event tells of, if its kind tells of one.
fn function_address(event: &EventRecord) -> Option<u64> {
    let tells = matches!(
        EventKind::from_repr(event.kind)?,
        EventKind::Nmi
            | EventKind::Hrtimer
            | EventKind::Timer
            | EventKind::Work
            | EventKind::CrossCall
            | EventKind::IpiSend
            | EventKind::Frame
    );
    (tells && event.aux != 0).then_some(event.aux)
}

/// The thread that an event tells of, idle excepted.
fn thread_of(event: &EventRecord) -> Option<u32> {
    (EventKind::from_repr(event.kind)? == EventKind::Thread && event.id != 0).then_some(event.id)
}
