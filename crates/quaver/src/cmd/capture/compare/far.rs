//! A source at another host, which `quaver serve` there starts for us and ends with us.

use super::stream::Wanted;
use crate::cli::FarHost;
use crate::cmd::far_source;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use anyhow::Context;
use quaver_measure::path::{PathError, RemoteSource, SourceClient, SourceRequest};
use std::net::UdpSocket;
use std::path::Path;

/// The server.
pub(super) struct Far {
    client: SourceClient,
}

impl Far {
    /// Finds it; says nothing to it yet.
    pub(super) fn find(host: &FarHost, key_file: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self { client: far_source::find(host, key_file)? })
    }

    /// Index of the interface that its packets most likely come in by.
    pub(super) fn interface(&self) -> Option<u32> {
        self.client.interface()
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
            .with_context(|| format!("showing {server} the receiver at {here}"))?;
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
