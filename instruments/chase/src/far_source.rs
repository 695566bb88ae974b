//! A source at another host, which `quaver serve` there starts for us: found and asked.

use crate::args::FarHost;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_instrument::interrupt::Interrupt;
use quaver_instrument::progress::Progress;
use quaver_path::serve::{path_key, read_key};
use quaver_path_record::{
    PathError, Progress as PathProgress, RemoteSource, SourceClient, SourceRequest, request_source,
};
use std::net::ToSocketAddrs;
use std::path::Path;
use std::time::Duration;

/// How long the server is waited for, for each answer.
const ANSWER: Duration = Duration::from_secs(30);
/// How long other tests of the server are waited for.
pub(super) const QUEUE: Duration = Duration::from_secs(600);

/// The first address of the host, and the key that we share with it. Nothing is said to it yet.
pub fn find(host: &FarHost, key_file: Option<&Path>) -> anyhow::Result<SourceClient> {
    let name = host.host.as_str();
    let found = (name, host.port).to_socket_addrs().ok().and_then(|mut found| found.next());
    let server = found.ok_or_else(|| {
        let sentence = format!("--from {name}: no such host; give its address or a name that resolves");
        failure(ExitCode::Usage, sentence)
    })?;
    let key = key_file.map(read_key).transpose()?.as_deref().map(path_key).transpose()?;
    Ok(SourceClient { server, key, queue_patience: QUEUE, answer_timeout: ANSWER })
}

/// Asks for a stream; nothing of it is sent yet. `progress` shows the place in the server's queue.
pub fn ask(
    client: &SourceClient,
    request: &SourceRequest,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<RemoteSource, PathError> {
    let mut watch = |event: PathProgress<'_>| {
        if let PathProgress::Queued { place } = event {
            progress.say(format!("the other host measures for others; place {place} in its queue"));
        }
    };
    request_source(client, request, interrupt.flag(), &mut watch)
}
