//! Network compatibility model (ST 2110-21, section 6.6.1): what a stream asks of the buffers of switches.
//!
//! Each packet enters a bucket of any size when it is sent; one leaves every T_DRAIN, if there is one. C_INST is how
//! full the bucket is. A packet counts as soon as it has entered, so C_INST is at least 1 when one does; a packet that
//! enters at a drain instant comes after the drain.

use super::format::VideoFormat;
use super::levels::binned;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// C_INST over a stream, taken whenever a packet enters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CInst {
    /// Packets, copies included.
    pub packets: u64,
    /// Largest.
    pub max: u64,
    /// Mean; none without packets.
    pub mean: Option<f64>,
    /// From C_INST to how often it was so, in bins: [`super::levels::binned`].
    pub histogram: BTreeMap<u64, u64>,
}

/// Runs the model. `arrived_ns` in any order. Drain instants are whole multiples of T_DRAIN after `origin_ns`: 0, the
/// SMPTE epoch, for times in TAI; where the capture's clock follows no such scale any will do, and C_INST is then known
/// to 1.
pub fn network_compatibility(arrived_ns: &[i64], format: &VideoFormat, origin_ns: i64) -> CInst {
    let mut times = arrived_ns.to_vec();
    times.sort_unstable();
    let mut result = CInst { packets: times.len() as u64, ..CInst::default() };
    let mut drained_before = None;
    let mut fullness = 0u64;
    let mut sum = 0u128;
    for &time_ns in &times {
        let drained = format.drains_in(i128::from(time_ns) - i128::from(origin_ns));
        let since = drained - drained_before.replace(drained).unwrap_or(drained);
        fullness = fullness.saturating_sub(u64::try_from(since).unwrap_or(u64::MAX)) + 1;
        result.max = result.max.max(fullness);
        sum += u128::from(fullness);
        *result.histogram.entry(fullness).or_default() += 1;
    }
    result.histogram = binned(result.histogram);
    result.mean = (!times.is_empty()).then(|| sum as f64 / times.len() as f64);
    result
}
