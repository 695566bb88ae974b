//! The source at another host, which `quaver serve` there starts for us and ends with us.

use super::waiting;
use crate::args::{ChaseArgs, FarHost};
use crate::far_source;
use crate::stream_plan::StreamPlan;
use anyhow::Context;
use quaver_abi::record::{PacketRecord, packet_flags};
use quaver_analysis::summary::{FarMove, FarSource};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_path_record::{PathError, RemoteSource, SourceRequest, SourceSummary};
use quaver_probe::sink::Sink;
use quaver_store::run::RunDir;
use quaver_store::segments::open_if_any;
use std::net::SocketAddr;
use std::time::Duration;

/// The stream may run so much longer than it is measured; it is ended when that is done.
const SLACK: Duration = Duration::from_secs(10);

/// A source that waits for its sink.
pub(super) struct Far {
    remote: RemoteSource,
    /// Asked of it.
    pub(super) request: SourceRequest,
}

/// Asks the server; it sends nothing yet.
pub(super) fn ask(
    args: &ChaseArgs,
    far: &FarHost,
    stream: &StreamPlan,
    length: Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<Far> {
    let client = far_source::find(far, args.key_file.as_deref())?;
    let server = client.server;
    let request = SourceRequest {
        shape: stream.shape,
        packets: None,
        duration: length + SLACK,
        pace: stream.pace,
        catch_up: args.stream.catch_up,
        dscp: args.stream.dscp,
        stream_id: (quaver_clock::realtime_ns() as u32) | 1,
    };
    let progress = Progress::timed(far_source::QUEUE, args.output.quiet);
    progress.say("asking the other host for the stream");
    match far_source::ask(&client, &request, interrupt, &progress) {
        Ok(remote) => Ok(Far { remote, request }),
        Err(error @ PathError::Connect { .. }) => Err(error).with_context(|| by_hand(args, server)),
        Err(error) => Err(error).with_context(|| format!("asking {server} for a stream")),
    }
}

/// What to do where no server runs.
fn by_hand(args: &ChaseArgs, server: SocketAddr) -> String {
    let asking = format!("asking {server} for a stream");
    match waiting::address_towards(server.ip(), args.port) {
        Ok(here) => format!(
            "{asking} (or start one there by hand: {}; and receive it here: quaver chase --listen {here})",
            waiting::command(&args.stream, args.duration, here)
        ),
        Err(_) => asking,
    }
}

impl Far {
    /// Where the sink has to be.
    pub(super) fn sink_address(&self, port: u16) -> SocketAddr {
        self.remote.sink_address(port)
    }

    /// Where the stream will come from.
    pub(super) fn sender(&self) -> anyhow::Result<SocketAddr> {
        Ok(self.remote.sender()?)
    }

    /// Interface that the stream comes in on, where the routes are the same both ways.
    pub(super) fn interface(&self) -> Option<u32> {
        self.remote.interface()
    }

    /// Shows the server the sink's own socket, which takes packets of nobody else from here on.
    pub(super) fn meet(&mut self, sink: &Sink, interrupt: &Interrupt) -> anyhow::Result<()> {
        sink.only_from(self.remote.sender()?)?;
        self.remote.meet(sink, interrupt.flag()).with_context(|| {
            format!("showing {} the sink at {}", self.remote.server(), sink.local_address())
        })?;
        Ok(())
    }

    /// Lets the stream begin.
    pub(super) fn start(&mut self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let server = self.remote.server();
        self.remote.start(interrupt.flag()).with_context(|| format!("starting the stream of {server}"))
    }

    /// Whether it ended by itself, or its host is gone.
    pub(super) fn has_ended(&mut self) -> bool {
        self.remote.has_ended()
    }

    /// Ends the stream.
    pub(super) fn end(self) -> SourceReport {
        let server = self.remote.server();
        SourceReport { server, said: self.remote.finish() }
    }
}

/// The last words of a source, or why there are none.
pub(super) struct SourceReport {
    server: SocketAddr,
    said: Result<SourceSummary, String>,
}

impl SourceReport {
    /// Why the source went without a word, if it did.
    pub(super) fn lost(&self) -> Option<String> {
        self.said.as_ref().err().cloned()
    }

    /// With what arrived of the stream, from the run's raw segment.
    pub(super) fn facts(&self, run: &RunDir) -> anyhow::Result<Option<FarSource>> {
        let Ok(said) = &self.said else { return Ok(None) };
        let arrived = arrived(run, said.sender.packets)?;
        let lateness = &said.sender.lateness;
        Ok(Some(FarSource {
            server: self.server.to_string(),
            sent: said.sender.sent,
            send_failed: said.failed,
            refused: said.refused,
            slots_missed: said.sender.misses,
            sent_late: said.late,
            lateness_p50_ns: lateness.quantiles_ns[0],
            lateness_p99_ns: lateness.quantiles_ns[2],
            lateness_max_ns: lateness.largest_ns,
            drift_ppm: said.drift_ppm,
            lasted_ns: said.lasted_ns,
            arrived,
            lost: said.sender.sent.saturating_sub(arrived),
            moved: said.moved.map(|moved| FarMove { times: moved.times, to: moved.to.to_string() }),
        }))
    }
}

/// Packets of our stream with numbers below `packets`, each counted once.
fn arrived(run: &RunDir, packets: u64) -> anyhow::Result<u64> {
    let Some(records) = open_if_any::<PacketRecord>(&run.packets_segment())? else { return Ok(0) };
    let mut seen: Vec<u64> = Vec::new();
    let mut count = 0;
    for record in records {
        let record = record?;
        if record.flags & packet_flags::OURS == 0 || record.key >= packets {
            continue;
        }
        // Numbers come nearly in order, so this grows with what has come and not with what was announced.
        let (word, bit) = ((record.key / 64) as usize, 1 << (record.key % 64));
        if seen.len() <= word {
            seen.resize(word + 1, 0);
        }
        count += u64::from(seen[word] & bit == 0);
        seen[word] |= bit;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_host::segment::SegmentAppender;

    #[test]
    fn each_number_that_was_sent_arrives_once() {
        let parent = tempfile::tempdir().unwrap();
        let run = RunDir::create(parent.path(), "chase").unwrap();
        assert_eq!(arrived(&run, 10).unwrap(), 0, "nothing was recorded");
        let mut segment = SegmentAppender::create(&run.packets_segment()).unwrap();
        let numbers = [0, 2, 1, 2, 70, 9, 64, 63, 100, 71];
        for (at, key) in numbers.into_iter().enumerate() {
            let flags = if key == 9 { packet_flags::RTP } else { packet_flags::OURS };
            let record = PacketRecord { key, app_cycles: at as u64 + 1, flags, ..PacketRecord::default() };
            segment.append(&record).unwrap();
        }
        segment.flush().unwrap();
        assert_eq!(
            arrived(&run, 71).unwrap(),
            6,
            "0, 1, 2, 63, 64 and 70: no copy, no stranger, none unsent"
        );
    }
}
