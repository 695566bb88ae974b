//! A source at another host, which `quaver serve` there starts for us and ends with us.

use super::traffic::Wanted;
use anyhow::Context;
use quaver_chase::args::FarHost;
use quaver_chase::far_source;
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_path_record::{PathError, RemoteSource, SourceClient, SourceRequest};
use std::collections::VecDeque;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Streams asked for in a minute, at most: a server turns away whoever connects more than 60 times.
const STREAMS: usize = 50;
const MINUTE: Duration = Duration::from_secs(61);

/// The server.
pub(super) struct Far {
    client: SourceClient,
    /// When the latest streams were asked for.
    asked: Mutex<VecDeque<Instant>>,
}

impl Far {
    /// Finds it; says nothing to it yet.
    pub(super) fn find(host: &FarHost, key_file: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self { client: far_source::find(host, key_file)?, asked: Mutex::default() })
    }

    /// Counts `streams` that were asked for in the time `since` towards the latest minute, as if evenly spread.
    pub(super) fn asked_before(&self, streams: usize, since: Duration) {
        let share = (MINUTE.as_secs_f64() / since.as_secs_f64()).min(1.0);
        let latest = (streams as f64 * share).ceil() as usize;
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.extend(vec![Instant::now(); latest.min(STREAMS)]);
    }

    /// Index of the interface that its packets most likely come in by.
    pub(super) fn interface(&self) -> Option<u32> {
        self.client.interface()
    }

    /// Waits until the server will not take us for a flood.
    fn wait_for_turn(&self, interrupt: &Interrupt, progress: &Progress) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        while asked.len() >= STREAMS && !interrupt.requested() {
            if asked[0].elapsed() >= MINUTE {
                asked.pop_front();
                continue;
            }
            progress.say("waiting: the other host accepts 60 connections per minute".to_owned());
            std::thread::sleep(Duration::from_millis(50));
        }
        asked.push_back(Instant::now());
    }

    /// Asks for a stream, and shows the server a socket here that it will go to. It sends nothing before it is started.
    pub(super) fn meet(
        &self,
        wanted: &Wanted,
        interrupt: &Interrupt,
        progress: &Progress,
    ) -> anyhow::Result<(UdpSocket, RemoteSource)> {
        let request = SourceRequest {
            shape: wanted.shape,
            packets: Some(wanted.packets),
            duration: wanted.most,
            pace: wanted.pace,
            catch_up: wanted.catch_up,
            dscp: 0,
            stream_id: wanted.stream_id,
        };
        self.wait_for_turn(interrupt, progress);
        let server = self.client.server;
        let mut remote = far_source::ask(&self.client, &request, interrupt, progress)
            .with_context(|| format!("asking {server} for a stream"))?;
        let here = remote.sink_address(0);
        let socket = UdpSocket::bind(here).with_context(|| format!("opening a socket at {here}"))?;
        // Packets of nobody else from here on.
        let sender = remote.sender()?;
        socket.connect(sender).with_context(|| format!("receiving from {sender} alone"))?;
        remote
            .meet(&socket, interrupt.flag())
            .with_context(|| format!("announcing the receiver at {here} to {server}"))?;
        Ok((socket, remote))
    }
}

/// Why the server will not send a stream, where it said so.
pub(super) fn refusal(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| match cause.downcast_ref::<PathError>() {
        Some(PathError::Refused { sentence, .. }) => Some(sentence.clone()),
        _ => None,
    })
}
