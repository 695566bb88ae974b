//! A lock with names.

use super::names::SyncNames;
use super::origins::Origin;
use super::shares::{Share, shares};
use quaver_host::names::system_call_name;
use quaver_sync_analysis::replay::LockGain;
use quaver_sync_analysis::sync::LockFigures;
use schemars::JsonSchema;
use serde::Serialize;

/// One lock.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LockSummary {
    /// What it is called.
    pub name: String,
    /// Where it comes from, where it has no symbol: also part of `name`.
    pub origin: Option<Origin>,
    /// What a change of it would gain by replay; none where none was asked or the replay is no base.
    pub gain: Option<LockGain>,
    /// Functions that gave it back while others waited, with the time that those had waited for that hold.
    pub owner_functions: Vec<Share>,
    /// Functions that waited for it.
    pub waiter_functions: Vec<Share>,
    /// `owner_functions`, each with who called it where that is known.
    #[serde(default)]
    pub owner_chains: Vec<Share>,
    /// `waiter_functions` likewise.
    #[serde(default)]
    pub waiter_chains: Vec<Share>,
    /// System calls that owners slept in.
    pub owner_calls: Vec<Share>,
    /// What owners waited for themselves.
    pub owner_waits: Vec<Share>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: LockFigures,
}

impl LockSummary {
    pub(super) fn of(figures: LockFigures, gain: Option<LockGain>, names: &SyncNames) -> Self {
        let function = |process, address| names.function(process, address);
        let chain = |process, address| names.calls(process, address);
        let object = |process, address| names.object(process, address);
        let calls = figures.slept_in.iter();
        Self {
            name: names.object(figures.process, figures.address),
            gain,
            origin: names.origin(figures.process, figures.address).cloned(),
            owner_functions: shares(&figures.owner_sites, &function),
            waiter_functions: shares(&figures.waiter_sites, &function),
            owner_chains: shares(&figures.owner_sites, &chain),
            waiter_chains: shares(&figures.waiter_sites, &chain),
            owner_calls: calls
                .map(|one| Share { name: call_name(one.call), total_ns: one.total_ns })
                .collect(),
            owner_waits: shares(&figures.waited_for, &object),
            figures,
        }
    }
}

/// The name of a sleep of which no call is known.
pub(super) const UNKNOWN_CALL: &str = "an unknown call, a page fault or a stop by a signal";

/// The name of what an owner slept in.
fn call_name(call: Option<u16>) -> String {
    let Some(number) = call else { return UNKNOWN_CALL.to_owned() };
    system_call_name(number.into()).map_or_else(|| format!("system call {number}"), str::to_owned)
}
