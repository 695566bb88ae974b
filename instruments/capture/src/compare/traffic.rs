//! What a source is asked to send.

use quaver_path_record::StreamShape;
use quaver_probe::source::Pace;
use std::time::Duration;

/// What to send.
pub(super) struct Wanted {
    pub(super) shape: StreamShape,
    pub(super) pace: Pace,
    pub(super) packets: u64,
    pub(super) stream_id: u32,
    /// Send as fast as it goes where the schedule cannot be kept.
    pub(super) catch_up: bool,
    /// Longer than this it never takes; a source at another host ends then.
    pub(super) most: Duration,
}
