//! What `quaver tune` found and did, as JSON.

use crate::audit::{Audited, Cost};
use crate::plan::{Plan, Step};
use crate::survey::{Item, Target};
use crate::view::Whom;
use quaver_host::settings::journal::{Status, Undone};
use serde_json::{Value, json};
use std::time::Duration;

/// Name and version. The number grows when a field changes its meaning or goes.
const SCHEMA: &str = "quaver-tune/1";

fn of_action(action: &str, mut document: Value) -> Value {
    let mut whole = json!({ "schema": SCHEMA, "version": env!("CARGO_PKG_VERSION"), "action": action });
    if let (Some(whole), Some(more)) = (whole.as_object_mut(), document.as_object_mut()) {
        whole.append(more);
    }
    whole
}

fn changes(items: &[Item]) -> Vec<Value> {
    let of = |item: &Item| item.changes.clone();
    let change =
        |change: quaver_host::settings::Change| json!({ "knob": change.knob, "value": change.value });
    items.iter().flat_map(of).map(change).collect()
}

pub(super) fn audit(target: &Target, audited: &[Audited], watch: Duration, rest: &[(&str, &Cost)]) -> Value {
    let row = |one: &Audited| {
        json!({
            "id": one.row.id,
            "mechanism": one.row.mechanism,
            "class": one.row.class,
            "scope": one.row.scope,
            "verdict": one.verdict,
            "evidence": one.evidence,
            "cost": one.cost,
            "detect": one.row.detect,
            "tracepoints": one.row.tracepoints,
            "risk": one.row.risk,
            "advice": one.row.advice,
            "only_when_named": one.row.ask,
            "changes": changes(&one.knobs),
            "boot": one.boot.iter().map(|(option, item)| json!({
                "option": option.option,
                "verdict": item.verdict,
                "evidence": item.evidence,
                "instead": option.instead,
            })).collect::<Vec<_>>(),
        })
    };
    let rows: Vec<Value> = audited.iter().map(row).collect();
    let rest: Vec<Value> = rest.iter().map(|(cause, cost)| json!({ "cause": cause, "cost": cost })).collect();
    let watch_ns = u64::try_from(watch.as_nanos()).unwrap_or(u64::MAX);
    of_action(
        "audit",
        json!({ "target": target, "watched_ns": watch_ns, "rows": rows, "costs_without_row": rest }),
    )
}

pub(super) fn plan(target: &Target, plan: &Plan) -> Value {
    let changes: Vec<Value> = plan
        .changes
        .iter()
        .map(|planned| {
            json!({
                "row": planned.row.id,
                "knob": planned.change.knob,
                "value": planned.change.value,
                "risk": planned.row.risk,
            })
        })
        .collect();
    let withheld: Vec<Value> = plan
        .withheld
        .iter()
        .map(|one| json!({ "row": one.row.id, "changes": one.changes, "risk": one.row.risk }))
        .collect();
    let advice: Vec<Value> =
        plan.advice.iter().map(|row| json!({ "row": row.id, "advice": row.advice })).collect();
    let command_line = plan.command_line();
    of_action(
        "plan",
        json!({
            "target": target, "changes": changes, "only_when_named": withheld,
            "boot": plan.boot, "command_line": command_line, "advice": advice,
        }),
    )
}

pub(super) fn applied(whom: Whom<'_>, recovered: &[Undone], steps: &[Step]) -> Value {
    let mut document = json!({ "recovered": recovered, "changes": steps });
    match whom {
        Whom::Receiver(target) => document["target"] = json!(target),
        Whom::Profile(path) => document["profile"] = json!(path.display().to_string()),
    }
    of_action("apply", document)
}

pub(super) fn reverted(undone: &[Undone]) -> Value {
    of_action("revert", json!({ "changes": undone }))
}

pub(super) fn status(status: &Status) -> Value {
    of_action(
        "status",
        json!({ "busy": status.busy, "changes": status.changes, "inherited": status.inherited }),
    )
}
