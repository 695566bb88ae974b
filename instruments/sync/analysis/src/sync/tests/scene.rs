//! A history in short words, times in microseconds.

use crate::sync::{
    AnyEvent, KernelEvent, KernelKind, KernelReason, Protocol, Settings, SyncClass, SyncEvent, SyncResults,
    ThreadId, Wait,
};
use quaver_abi::record::OffCpu;
use quaver_abi::sync::{SyncKind, SyncOutcome};

/// Events in the order in which they are said.
#[derive(Clone, Default)]
pub(in crate::sync) struct Scene {
    pub(in crate::sync) events: Vec<AnyEvent>,
    pub(in crate::sync) settings: Settings,
}

impl Scene {
    pub(in crate::sync) fn new() -> Self {
        Self::default()
    }

    pub(in crate::sync) fn with(settings: Settings) -> Self {
        Self { events: Vec::new(), settings }
    }

    /// Thread on the CPU of its number.
    pub(in crate::sync) fn at(
        &mut self,
        us: u64,
        thread: u32,
        kind: SyncKind,
        object: u64,
    ) -> &mut SyncEvent {
        self.on(us, thread, thread as u16, kind, object)
    }

    pub(in crate::sync) fn on(
        &mut self,
        us: u64,
        thread: u32,
        cpu: u16,
        kind: SyncKind,
        object: u64,
    ) -> &mut SyncEvent {
        self.events.push(AnyEvent::Sync(SyncEvent {
            at_ns: us * 1_000,
            object,
            call_site: 0x4000 + u64::from(thread),
            thread: ThreadId(thread),
            detail: 0,
            cpu,
            process: 0,
            kind,
            outcome: SyncOutcome::Ok,
            flags: 0,
        }));
        match self.events.last_mut() {
            Some(AnyEvent::Sync(event)) => event,
            _ => unreachable!("it was pushed just now"),
        }
    }

    pub(in crate::sync) fn kernel(&mut self, us: u64, cpu: u16, kind: KernelKind) {
        self.events.push(AnyEvent::Kernel(KernelEvent { at_ns: us * 1_000, cpu, kind }));
    }

    pub(in crate::sync) fn switch(&mut self, us: u64, cpu: u16, prev: u32, next: u32, prev_state: OffCpu) {
        let (prev, next) = (ThreadId(prev), ThreadId(next));
        self.kernel(us, cpu, KernelKind::Switch { prev, next, prev_state, priorities: None });
    }

    pub(in crate::sync) fn wakeup(&mut self, us: u64, cpu: u16, thread: u32, target_cpu: u16) {
        self.kernel(us, cpu, KernelKind::Wakeup { thread: ThreadId(thread), target_cpu });
    }

    pub(in crate::sync) fn inside(&mut self, us: u64, cpu: u16, thread: u32, reason: KernelReason) {
        self.kernel(us, cpu, KernelKind::Enter { thread: ThreadId(thread), reason });
    }

    pub(in crate::sync) fn outside(&mut self, us: u64, cpu: u16, thread: u32) {
        self.kernel(us, cpu, KernelKind::Exit { thread: ThreadId(thread) });
    }

    /// Entry and return of a call.
    pub(in crate::sync) fn call(&mut self, us: u64, end_us: u64, thread: u32, entry: SyncKind, object: u64) {
        let exit = SyncKind::from_repr(entry as u8 + 1).expect("an exit follows each entry");
        self.at(us, thread, entry, object);
        self.at(end_us, thread, exit, object);
    }

    /// What the protocol says of the events in the order of their times.
    pub(in crate::sync) fn results(&self) -> SyncResults {
        let mut events = self.events.clone();
        events.sort_by_key(at_ns);
        let mut protocol = Protocol::new(self.settings);
        events.iter().for_each(|event| protocol.any(event));
        let results = protocol.finish();
        conserves(&results);
        results
    }
}

pub(in crate::sync) fn at_ns(event: &AnyEvent) -> u64 {
    match event {
        AnyEvent::Sync(event) => event.at_ns,
        AnyEvent::Kernel(event) => event.at_ns,
    }
}

/// What holds of all results.
pub(super) fn conserves(results: &SyncResults) {
    for wait in &results.longest {
        let mut at_ns = wait.released_ns;
        for piece in &wait.pieces {
            assert_eq!(piece.start_ns, at_ns, "{wait:?}");
            assert!(piece.end_ns > piece.start_ns, "{wait:?}");
            at_ns = piece.end_ns;
        }
        assert_eq!(at_ns, wait.ended_ns, "{wait:?}");
    }
    let path = &results.critical_path;
    assert_eq!(
        path.execution_ns
            + path.sync_jitter_ns
            + path.other_ns
            + path.blocked_ns
            + path.slept_ns
            + path.spun_ns,
        path.length_ns,
        "{path:?}"
    );
    let coverage = &results.coverage;
    assert_eq!(
        coverage.matched + coverage.without_waker + coverage.overflowed,
        coverage.wake_ups,
        "{coverage:?}"
    );
    let of_classes: u64 = results.classes.iter().map(|class| class.late.total_ns).sum();
    assert_eq!(of_classes, results.late.total_ns);
    let of_threads: u64 = results.threads.iter().map(|thread| thread.late.total_ns).sum();
    assert_eq!(of_threads, results.late.total_ns);
    let other: u64 = results.others.iter().map(|one| one.lost.total_ns).sum();
    let of_threads: u64 = results.threads.iter().map(|thread| thread.other.total_ns).sum();
    assert_eq!(of_threads, other);
    let of_objects: u64 = results.objects.iter().map(|object| object.late.total_ns).sum();
    assert_eq!(of_objects, results.late.total_ns);
    let of_sites: u64 = results.call_sites.iter().map(|site| site.late.total_ns).sum();
    assert_eq!(of_sites, results.late.total_ns);
    let binned: u64 = results.classes.iter().flat_map(|class| &class.bins).map(|bin| bin.count).sum();
    assert_eq!(binned, results.late.count);
}

/// Number and whole time in microseconds of a class, in time or late.
pub(super) fn timed(results: &SyncResults, class: SyncClass) -> (u64, u64) {
    let sums = &results.classes[class as usize].timed;
    (sums.count, sums.total_ns / 1_000)
}

/// Number and sum in microseconds of what was late.
pub(super) fn late(results: &SyncResults, class: SyncClass) -> (u64, u64) {
    let sums = &results.classes[class as usize].late;
    (sums.count, sums.total_ns / 1_000)
}

/// The pieces of a wait: causes with microseconds.
pub(super) fn pieces(wait: &Wait) -> Vec<(crate::sync::Cause, u64)> {
    wait.pieces.iter().map(|piece| (piece.cause, (piece.end_ns - piece.start_ns) / 1_000)).collect()
}
