//! `waits.parquet`: the late waits of a run, piece by piece.

use super::SyncDigest;
use quaver_abi::sync::CPU_UNKNOWN;
use quaver_host::names::system_call_name;
use quaver_store::error::StoreError;
use quaver_store::run::RunDir;
use quaver_store::waits::{WaitRow, write_waits};
use quaver_sync_analysis::replay::LatestWakeup;
use quaver_sync_analysis::sync::{
    AnyEvent, Cause, KernelEvent, KernelKind, Observer, SyncClass, ThreadId, Wait, Wakeup,
};
use quaver_view::Cell;

/// System calls in which a process waits for the end of a child, or for the signal of it as `timeout` does.
const FOR_CHILDREN: [&str; 5] = ["wait4", "waitid", "rt_sigsuspend", "rt_sigtimedwait", "pause"];

/// Pieces that are kept, 64 bytes each.
const MOST: usize = 4_000_000;

/// If such a call returns: whose, when, and how long it slept.
pub(super) fn for_child(event: &AnyEvent) -> Option<(ThreadId, u64, u64)> {
    let AnyEvent::Kernel(KernelEvent { at_ns, kind, .. }) = event else { return None };
    let KernelKind::SystemCall { thread, blocked_ns, number, only_waits: true, .. } = *kind else {
        return None;
    };
    let name = system_call_name(number.into())?;
    FOR_CHILDREN.contains(&name).then_some((thread, *at_ns, blocked_ns))
}

/// A piece of a late wait, to be named.
#[derive(Clone, Copy, Debug)]
struct Piece {
    class: SyncClass,
    cause: Cause,
    process: u16,
    cpu: u16,
    thread: ThreadId,
    waker: ThreadId,
    object: u64,
    call_site: u64,
    wait_ns: (u64, u64),
    start_ns: u64,
    end_ns: u64,
}

/// Late waits in the order in which they ended.
#[derive(Debug, Default)]
pub(super) struct LateWaits {
    pieces: Vec<Piece>,
    left_out: u64,
}

/// Takes late waits, and what ended the latest wait.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    pub(super) latest: LatestWakeup,
    pub(super) late: LateWaits,
}

impl Observer for Watcher {
    fn woken(&mut self, wakeup: &Wakeup) {
        self.latest.woken(wakeup);
    }

    fn late_wait(&mut self, wait: &Wait) {
        if self.late.left_out > 0 || self.late.pieces.len() + wait.pieces.len() > MOST {
            self.late.left_out += 1;
            return;
        }
        self.late.pieces.extend(wait.pieces.iter().map(|piece| Piece {
            class: wait.class,
            cause: piece.cause,
            process: wait.process,
            cpu: wait.ended_cpu,
            thread: wait.thread,
            waker: wait.waker,
            object: wait.object,
            call_site: wait.call_site,
            wait_ns: (wait.released_ns, wait.ended_ns),
            start_ns: piece.start_ns,
            end_ns: piece.end_ns,
        }));
    }
}

impl LateWaits {
    /// That some found no room.
    pub(super) fn warning(&self) -> Option<String> {
        (self.left_out > 0).then(|| {
            let (left_out, most) = (Cell::Count(self.left_out), Cell::Count(MOST as u64));
            format!(
                "waits.parquet lacks the last {left_out} late waits, for it holds {most} pieces; the figures have all"
            )
        })
    }
}

impl SyncDigest {
    /// Writes `waits.parquet`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn write_waits(&self, run: &RunDir) -> Result<(), StoreError> {
        let pieces = &self.late_waits.pieces;
        write_waits(&run.waits(), pieces.len(), |row| {
            let piece = &pieces[row];
            let image = self.summary.processes.get(usize::from(piece.process));
            let is_known = piece.cause != Cause::Unexplained;
            WaitRow {
                thread: piece.thread.0,
                process: image.map_or(self.summary.facts.pid, |image| image.pid),
                class: piece.class.name(),
                waker: Some(piece.waker.0),
                object: Some(self.names.object(piece.process, piece.object).into()),
                call_site: (piece.call_site != 0)
                    .then(|| self.names.caller(piece.process, piece.call_site).into()),
                wait_ns: (piece.wait_ns.0.cast_signed(), piece.wait_ns.1.cast_signed()),
                piece_ns: (piece.start_ns.cast_signed(), piece.end_ns.cast_signed()),
                cpu: (piece.cpu != CPU_UNKNOWN).then_some(piece.cpu),
                cause: is_known.then(|| (piece.cause.into(), piece.cause.name())),
                certainty: if is_known { "certain" } else { "unknown" },
            }
        })
    }
}
