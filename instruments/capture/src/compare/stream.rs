//! The stream that is stamped: from one namespace to the other, or from another host.

use super::Bench;
use super::place::ReceiverSite;
use super::traffic::Wanted;
use anyhow::Context;
use quaver_host::segment::SegmentWriter;
use quaver_path_record::RemoteSource;
use quaver_probe::source::{RunningSource, Source, SourceOptions, StreamLength};
use quaver_probe::thread::ThreadSettings;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

/// A source that waits for its receiver to be ready.
pub(super) enum Waiting {
    Here { to: SocketAddr, wanted: Wanted },
    Far(Box<RemoteSource>),
}

/// A running source; its records are not kept.
pub(super) enum Stream {
    Here { running: Box<RunningSource>, segment: PathBuf },
    Far(Box<RemoteSource>),
}

/// What a source did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// Packets that its kernel took.
    pub(super) sent: u64,
    /// Slots of the schedule that went by unused.
    pub(super) missed: u64,
    /// Mean time from one packet to the next.
    pub(super) spacing_ns: f64,
}

impl Bench<'_> {
    /// A socket that a stream will come to, and its source.
    pub(super) fn meet(&self, wanted: Wanted) -> anyhow::Result<(UdpSocket, Waiting)> {
        match &self.place {
            ReceiverSite::Lab(lab) => {
                let address = SocketAddr::new(lab.sink.ipv4.into(), 0);
                let socket = lab.sink.within(|| UdpSocket::bind(address))??;
                let to = socket.local_addr()?;
                Ok((socket, Waiting::Here { to, wanted }))
            }
            ReceiverSite::Far(place) => {
                let (socket, remote) = place.far.meet(&wanted, &self.interrupt, &self.progress)?;
                Ok((socket, Waiting::Far(Box::new(remote))))
            }
        }
    }

    /// Lets the stream begin.
    pub(super) fn start(&self, waiting: Waiting) -> anyhow::Result<Stream> {
        match waiting {
            Waiting::Here { to, wanted } => self.start_here(to, &wanted),
            Waiting::Far(mut remote) => {
                let server = remote.server();
                remote
                    .start(self.interrupt.flag())
                    .with_context(|| format!("starting the stream of {server}"))?;
                Ok(Stream::Far(remote))
            }
        }
    }

    fn start_here(&self, to: SocketAddr, wanted: &Wanted) -> anyhow::Result<Stream> {
        let ReceiverSite::Lab(lab) = &self.place else { unreachable!("only a lab's streams start here") };
        let length = StreamLength::Packets(wanted.packets);
        let mut options = SourceOptions::new(to, wanted.shape.profile()?, length, self.plan.counter);
        options.pace = wanted.pace;
        options.catch_up = wanted.catch_up;
        options.stream_id = wanted.stream_id;
        options.thread = ThreadSettings::measuring(self.plan.cpus.source, None);
        let source = lab.source.within(|| Source::open(options))??;
        let segment = self.run.sends_segment();
        let writer = SegmentWriter::create(&segment, wanted.packets + 1_024)?;
        Ok(Stream::Here { running: Box::new(source.prepare(writer)?.go()), segment })
    }

    /// Ends a stream. Where its source went without a word, the comparison ends too.
    pub(super) fn end(&self, stream: Stream) -> Sent {
        match stream {
            Stream::Here { running, segment } => {
                running.stop();
                let ended = running.join();
                // Its sends say nothing that the report does not.
                let _ = std::fs::remove_file(&segment);
                let report = match ended {
                    Ok(outcome) => outcome.report,
                    Err(error) => {
                        let _ = self.lost.set(error.to_string());
                        return Sent::default();
                    }
                };
                let span_ns = report.last_deadline_ns - report.start_ns + report.worst_lateness_ns.max(0);
                let spacing_ns = span_ns as f64 / report.packets.max(1) as f64;
                Sent { sent: report.sent, missed: report.misses, spacing_ns }
            }
            Stream::Far(remote) => match remote.finish() {
                Ok(said) => {
                    let span_ns = said.lasted_ns as f64 + said.sender.lateness.largest_ns as f64;
                    let spacing_ns = span_ns / said.sender.packets.max(1) as f64;
                    Sent { sent: said.sender.sent, missed: said.sender.misses, spacing_ns }
                }
                Err(lost) => {
                    let _ = self.lost.set(lost);
                    Sent::default()
                }
            },
        }
    }
}

impl Stream {
    /// Packets so far; none where that is told at the end only.
    pub(super) fn sent(&self) -> Option<u64> {
        match self {
            Self::Here { running, .. } => Some(running.live().sent()),
            Self::Far(_) => None,
        }
    }

    pub(super) fn is_finished(&mut self) -> bool {
        match self {
            Self::Here { running, .. } => running.is_finished(),
            Self::Far(remote) => remote.has_ended(),
        }
    }
}
