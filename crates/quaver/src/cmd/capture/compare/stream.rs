//! The stream that is stamped: from one namespace to the other.

use super::Bench;
use quaver_measure::probe::profile::Profile;
use quaver_measure::probe::source::{Pace, RunningSource, Source, SourceOptions, SourceReport, StreamLength};
use quaver_measure::probe::thread::ThreadSettings;
use quaver_measure::segment::SegmentWriter;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

/// A running source; its records are not kept.
pub(super) struct Stream {
    running: RunningSource,
    segment: PathBuf,
}

/// What to send.
pub(super) struct Wanted<'a> {
    pub(super) profile: &'a Profile,
    pub(super) pace: Pace,
    pub(super) packets: u64,
    pub(super) stream_id: u32,
    /// Send as fast as it goes where the schedule cannot be kept.
    pub(super) catch_up: bool,
}

impl Bench<'_> {
    /// A socket at the receiver's end.
    pub(super) fn receiver(&self) -> anyhow::Result<UdpSocket> {
        let address = SocketAddr::new(self.lab.sink.ipv4.into(), 0);
        Ok(self.lab.sink.within(|| UdpSocket::bind(address))??)
    }

    /// Starts to send.
    pub(super) fn send(&self, to: SocketAddr, wanted: &Wanted<'_>) -> anyhow::Result<Stream> {
        let length = StreamLength::Packets(wanted.packets);
        let mut options = SourceOptions::new(to, wanted.profile.clone(), length, self.plan.counter);
        options.pace = wanted.pace;
        options.catch_up = wanted.catch_up;
        options.stream_id = wanted.stream_id;
        options.thread = ThreadSettings::measuring(Some(self.plan.cpus.source), None);
        let source = self.lab.source.within(|| Source::open(options))??;
        let segment = self.run.sends_segment();
        let writer = SegmentWriter::create(&segment, wanted.packets + 1_024)?;
        Ok(Stream { running: source.prepare(writer)?.go(), segment })
    }
}

impl Stream {
    pub(super) fn sent(&self) -> u64 {
        self.running.live().sent()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.running.is_finished()
    }

    /// Ends it.
    pub(super) fn end(self) -> SourceReport {
        self.running.stop();
        let outcome = self.running.join();
        drop(outcome.segment);
        // Its sends say nothing that the report does not.
        let _ = std::fs::remove_file(&self.segment);
        outcome.report
    }
}
