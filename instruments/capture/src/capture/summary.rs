//! What a capture reports at its end: a document for people, or JSON.

use super::accounts::{Accounts, InterfaceCount};
use super::plan::{Plan, is_pipe};
use super::write::Written;
use super::{End, view};
use crate::args::CaptureArgs;
use crate::record::{LayerState, TapCounts};
use quaver_abi::stamp::Layer;
use quaver_instrument::envelope::Envelope;
use quaver_instrument::exit_code::ExitCode;
use quaver_instrument::results::to_stdout;
use quaver_instrument::terminal;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Version of the JSON; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

/// Prints the page or JSON: to standard output, or to standard error where the packets go there. `status` is that of the process.
pub(super) fn print(
    args: &CaptureArgs,
    plan: &Plan,
    accounts: &Accounts,
    written: &Written,
    end: End,
    status: ExitCode,
) -> anyhow::Result<()> {
    if args.json {
        let envelope = Envelope::of(&view::document(accounts, written), None, status);
        return to_stdout(envelope.beside(&summary(args, plan, accounts, written, end))?.as_bytes());
    }
    if is_pipe(args) {
        if !args.quiet {
            let page = terminal::page(&view::document(accounts, written), terminal::style_of_stderr());
            quaver_instrument::tell!("{}", page.trim_end());
        }
        return Ok(());
    }
    terminal::print(&view::document(accounts, written))
}

/// A layer as JSON has it.
pub(super) fn layer_json(of: &LayerState) -> Value {
    let (how, why_not) = match &of.state {
        Ok(how) => (Some(how), None),
        Err(why) => (None, Some(why)),
    };
    json!({ "layer": of.layer.name(), "interface": of.interface, "how": how, "why_not": why_not })
}

/// Time that all threads of this process used on CPUs, in user space and in the kernel.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

fn interface_json(interface: &InterfaceCount) -> Value {
    let dropped: serde_json::Map<String, Value> =
        interface.places().iter().map(|place| (place.name.to_owned(), json!(place.packets))).collect();
    let fates = &interface.fates;
    json!({
        "name": interface.name,
        "link_type": interface.link_type,
        "seen": interface.seen(),
        "captured": fates.captured,
        "octets": fates.octets,
        "dropped": dropped,
        "ring_freezes": interface.tap.ring.freezes,
        "rings": interface.rings.iter().map(ring_json).collect::<Vec<_>>(),
        "kept_out_by_filter": interface.kept_out(),
        "interface_counters": interface.counters,
        "stamped": stamped_json(interface),
        "shown_by_other_layer": fates.other_layer,
        "stamps_out_of_order": fates.disordered,
    })
}

/// What came by one ring: `seen = delivered + dropped + unaccounted`.
fn ring_json(ring: &TapCounts) -> Value {
    json!({
        "seen": ring.ring.seen,
        "delivered": ring.delivered,
        "dropped": ring.ring.dropped,
        "unaccounted": ring.unaccounted,
    })
}

fn stamped_json(interface: &InterfaceCount) -> Value {
    let stamped = &interface.fates.stamped;
    Layer::ALL
        .iter()
        .map(|layer| (layer.name().to_owned(), json!(stamped[*layer as usize - 1])))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn summary(args: &CaptureArgs, plan: &Plan, accounts: &Accounts, written: &Written, end: End) -> Value {
    let seconds = accounts.took.as_secs_f64();
    let sum = |of: fn(&InterfaceCount) -> u64| accounts.interfaces.iter().map(of).sum::<u64>();
    let ended = match end {
        End::Interrupted => "interrupted",
        End::Time => "time",
        End::Writer if written.limited => "limit",
        End::Writer => "output",
        End::InterfaceGone => "interface",
    };
    json!({
        "schema": SCHEMA,
        "verb": "capture",
        "ended_by": ended,
        "duration_ns": accounts.took.as_nanos() as u64,
        "began_ns": accounts.began_ns,
        "ended_ns": accounts.ended_ns,
        "seen": sum(InterfaceCount::seen),
        "captured": accounts.captured(),
        "dropped": sum(|interface| interface.places().iter().map(|place| place.packets).sum()),
        "packets_per_s": if seconds > 0.0 { Some(accounts.captured() as f64 / seconds) } else { None },
        "cpu_ns": cpu_ns(),
        "interfaces": accounts.interfaces.iter().map(interface_json).collect::<Vec<_>>(),
        "stamps_lost": written.stamps_lost,
        "stamps_unmatched": written.stamps_unmatched,
        "raw": written.raw.map(|raw| json!({
            "missing": raw.missing,
            "lost": raw.lost,
            "converted_by_threads": raw.converted.by_threads,
            "converted_by_writer": raw.converted.inline + raw.converted.here,
        })),
        "pipeline": args.pipeline.to_string(),
        "layer": args.layer.name(),
        "files": accounts.files,
        "notes": plan.core_notes.iter().chain(&accounts.notes).collect::<Vec<_>>(),
        "flows": written.figures,
    })
}
