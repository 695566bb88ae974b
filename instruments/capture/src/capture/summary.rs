//! What a capture tells at its end: a page for people, or JSON.

use super::accounts::{Accounts, InterfaceCount};
use super::plan::{Plan, is_pipe};
use super::write::Written;
use super::{End, qos};
use crate::args::CaptureArgs;
use crate::record::LayerState;
use quaver_abi::stamp::Layer;
use quaver_instrument::results::to_stdout;
use quaver_page::table::Style;
use quaver_page::units;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Version of the JSON; raised when a field changes its meaning or goes.
const SCHEMA: u32 = 1;

/// Prints the page or JSON: to standard output, or to standard error where the packets go there.
pub(super) fn print(
    args: &CaptureArgs,
    plan: &Plan,
    accounts: &Accounts,
    written: &Written,
    end: End,
) -> anyhow::Result<()> {
    if args.json {
        let summary = summary(args, plan, accounts, written, end);
        return to_stdout(format!("{}\n", serde_json::to_string_pretty(&summary)?).as_bytes());
    }
    if is_pipe(args) {
        if !args.quiet {
            eprint!("{}", page(accounts, written, Style::PLAIN));
        }
        return Ok(());
    }
    to_stdout(page(accounts, written, Style::of_stdout()).as_bytes())
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
        "kept_out_by_filter": interface.kept_out(),
        "interface_counters": interface.counters,
        "stamped": stamped_json(interface),
        "shown_by_other_layer": fates.other_layer,
        "stamps_out_of_order": fates.disordered,
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
        "pipeline": args.pipeline.to_string(),
        "layer": args.layer.name(),
        "files": accounts.files,
        "notes": plan.core_notes.iter().chain(&accounts.notes).collect::<Vec<_>>(),
        "flows": written.figures,
    })
}

fn page(accounts: &Accounts, written: &Written, style: Style) -> String {
    let mut text = String::new();
    let seconds = accounts.took.as_secs_f64();
    for interface in &accounts.interfaces {
        let fates = &interface.fates;
        let rate = if seconds > 0.0 { fates.captured as f64 / seconds } else { 0.0 };
        let head = format!(
            "{}: {} packets captured in {}, {} a second",
            interface.name,
            units::count(fates.captured),
            units::duration(i64::try_from(accounts.took.as_nanos()).unwrap_or(i64::MAX)),
            units::count(rate.round() as u64)
        );
        text += &format!("{}\n  {}\n", style.bold(&head), accounting(interface, style));
        text += &interface_words(interface);
        text += &format!("  stamped by {}\n", stamped(interface));
        if fates.other_layer > 0 {
            let words =
                format!("{} packets lack the stamp of the layer asked for", units::count(fates.other_layer));
            text += &format!("  {}\n", style.caution(&words));
        }
        if fates.disordered > 0 {
            let words =
                format!("{} packets have stamps out of the layers' order", units::count(fates.disordered));
            text += &format!("  {}\n", style.caution(&words));
        }
    }
    if written.stamps_lost + written.stamps_unmatched > 0 {
        let words = format!(
            "stamps of XDP and TC are missing of {} packets; {} found no room",
            units::count(written.stamps_unmatched),
            units::count(written.stamps_lost)
        );
        text += &format!("  {}\n", style.caution(&words));
    }
    for note in &accounts.notes {
        text += &format!("  note: {note}\n");
    }
    for file in &accounts.files {
        text += &format!("  {}\n", file.display());
    }
    if let Some(figures) = &written.figures {
        text += &format!("\n{}", qos::page(figures, style));
    }
    text
}

/// `seen 10 = captured 7 + no room in the ring 3`, and nothing dropped where nothing was.
fn accounting(interface: &InterfaceCount, style: Style) -> String {
    let mut text = format!(
        "seen {} = captured {}",
        units::count(interface.seen()),
        units::count(interface.fates.captured)
    );
    let mut dropped = false;
    for place in interface.places().iter().filter(|place| place.packets > 0) {
        dropped |= !matches!(place.name, "filter" | "direction" | "after_limit");
        text += &format!(" + {} {}", place.words, units::count(place.packets));
    }
    if dropped { style.alarm(&text) } else { text }
}

/// What the interface itself says.
fn interface_words(interface: &InterfaceCount) -> String {
    let mut text = String::new();
    if let Some(counters) = interface.counters.filter(|counters| counters.rx_dropped + counters.rx_errors > 0)
    {
        text += &format!(
            "  before the capture: {} dropped by the interface, {} with errors\n",
            units::count(counters.rx_dropped),
            units::count(counters.rx_errors)
        );
    }
    if let Some(kept_out) = interface.kept_out().filter(|kept_out| *kept_out > 0) {
        text += &format!(
            "  about {} more passed the interface and did not concern the capture\n",
            units::count(kept_out)
        );
    }
    text
}

fn stamped(interface: &InterfaceCount) -> String {
    let fates = &interface.fates;
    let of = |layer: &Layer| {
        let packets = fates.stamped[*layer as usize - 1];
        (packets > 0).then(|| match packets == fates.captured {
            true => format!("{} (all)", layer.name()),
            false => format!("{} ({})", layer.name(), units::count(packets)),
        })
    };
    let there: Vec<String> = Layer::ALL.iter().filter_map(of).collect();
    if there.is_empty() {
        return "nobody: there were no packets".to_owned();
    }
    let below = [Layer::Xdp, Layer::Tc].map(|layer| fates.stamped[layer as usize - 1]);
    // Those of others that lack these stamps are told as missing.
    let some = below.iter().any(|packets| (1..fates.captured).contains(packets));
    format!("{}{}", there.join(", "), if some { "; xdp and tc stamp packets that come" } else { "" })
}
