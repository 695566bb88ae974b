//! Named parts of some time.

use quaver_sync_analysis::sync::PlaceShare;
use schemars::JsonSchema;
use serde::Serialize;

/// A named part of some time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Share {
    /// What.
    pub name: String,
    /// How much, nanoseconds.
    pub total_ns: u64,
}

/// The places by name; those with one name are one.
pub(super) fn shares(places: &[PlaceShare], name: &dyn Fn(u16, u64) -> String) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    for place in places {
        let name = name(place.process, place.address);
        match shares.iter_mut().find(|share| share.name == name) {
            Some(share) => share.total_ns += place.total_ns,
            None => shares.push(Share { name, total_ns: place.total_ns }),
        }
    }
    shares.sort_by_key(|share| std::cmp::Reverse(share.total_ns));
    shares
}
