//! Both directions at the same time: a session for each, since a server serves many.

use super::{measure, worst};
use crate::error::PathError;
use crate::event::Progress;
use crate::options::{ClientOptions, Directions};
use crate::outcome::TestOutcome;
use quaver_arrivals::path::clocks::RttProbe;
use quaver_arrivals::path::direction::Direction;
use quaver_path_flow::Received;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A session whose flow could begin waits so long for the other, which the server may have put into its queue; less than
/// the server waits for a START.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often the user's wish to stop is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// What a session's thread says; [`Progress`] with samples of its own.
enum Happened {
    Connected { server: SocketAddr, client: SocketAddr },
    Probe(RttProbe),
    Queued(u32),
    Started { direction: Direction, source: SocketAddr, destination: SocketAddr },
    Samples(Direction, Vec<Received>),
    Ended(Direction),
}

impl From<Progress<'_>> for Happened {
    fn from(progress: Progress<'_>) -> Self {
        match progress {
            Progress::Connected { server, client } => Self::Connected { server, client },
            Progress::Probe(probe) => Self::Probe(probe),
            Progress::Queued { place } => Self::Queued(place),
            Progress::Started { direction, source, destination } => {
                Self::Started { direction, source, destination }
            }
            Progress::Samples { direction, samples } => Self::Samples(direction, samples.to_vec()),
            Progress::Ended { direction } => Self::Ended(direction),
        }
    }
}

impl Happened {
    fn tell(&self, watch: &mut dyn FnMut(Progress<'_>)) {
        watch(match self {
            Self::Connected { server, client } => Progress::Connected { server: *server, client: *client },
            Self::Probe(probe) => Progress::Probe(*probe),
            Self::Queued(place) => Progress::Queued { place: *place },
            Self::Started { direction, source, destination } => {
                Progress::Started { direction: *direction, source: *source, destination: *destination }
            }
            Self::Samples(direction, samples) => Progress::Samples { direction: *direction, samples },
            Self::Ended(direction) => Progress::Ended { direction: *direction },
        });
    }
}

/// Where the two flows wait for each other.
#[derive(Default)]
struct Start {
    ready: Mutex<usize>,
    changed: Condvar,
}

impl Start {
    /// One more is ready, or will never be.
    fn arrive(&self) {
        *self.ready.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    fn wait(&self, stop: &AtomicBool) {
        self.arrive();
        let end = Instant::now() + PATIENCE;
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        while *ready < 2 && Instant::now() < end && !stop.load(Ordering::Relaxed) {
            ready = self.changed.wait_timeout(ready, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Measures up and down at the same time.
pub(super) fn run(
    options: &ClientOptions,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<TestOutcome, PathError> {
    let (start, both_stop) = (Start::default(), AtomicBool::new(false));
    let (to, happenings) = channel();
    let session = |directions, to: Sender<Happened>| {
        let options = ClientOptions { directions, ..options.clone() };
        let outcome = measure(&options, &both_stop, &mut |progress| {
            let starts = matches!(progress, Progress::Started { .. });
            // The calling thread hears until the last session has ended.
            let _ = to.send(progress.into());
            if starts {
                start.wait(&both_stop);
            }
        });
        start.arrive();
        if outcome.is_err() {
            both_stop.store(true, Ordering::Relaxed);
        }
        outcome
    };
    std::thread::scope(|scope| {
        let other = to.clone();
        let failed = |e| PathError::os("start a thread for each direction", e);
        let up =
            quaver_waiting::start_in(scope, "quaver-up", || session(Directions::Up, to)).map_err(failed)?;
        let down = quaver_waiting::start_in(scope, "quaver-down", || session(Directions::Down, other));
        // The other one waits for nobody then.
        let down = down.inspect_err(|_| both_stop.store(true, Ordering::Relaxed)).map_err(failed)?;
        loop {
            match happenings.recv_timeout(LOOK) {
                Ok(happened) => happened.tell(watch),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if stop.load(Ordering::Relaxed) {
                both_stop.store(true, Ordering::Relaxed);
            }
        }
        let joined = [up, down].map(|thread| thread.join().expect("a session does not panic"));
        match joined {
            [Ok(up), Ok(down)] => Ok(joined_outcome(up, down)),
            // The other was only stopped because of the one that failed.
            [Err(PathError::Interrupted), Err(why)] | [Err(why), _] | [_, Err(why)] => Err(why),
        }
    })
}

/// Two sessions as one test.
fn joined_outcome(mut up: TestOutcome, down: TestOutcome) -> TestOutcome {
    up.started_ns = up.started_ns.min(down.started_ns);
    up.rtt_probes.extend(down.rtt_probes);
    up.flows.extend(down.flows);
    // Both sessions read the same two clocks; the longer one saw every step.
    if down.clock_steps.len() > up.clock_steps.len() {
        up.clock_steps = down.clock_steps;
    }
    up.completion = worst(up.completion, down.completion);
    up
}
