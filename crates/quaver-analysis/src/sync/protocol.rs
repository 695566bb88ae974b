//! The protocol itself.

use super::event::{AnyEvent, KernelEvent, SyncEvent};
use super::observer::Observer;
use super::results::{
    Cause, CauseFigures, ClassFigures, Counts, Coverage, CriticalPath, OtherClass, OtherFigures,
    Oversubscription, Sums, SyncClass, SyncResults, SyncShare, UnitFigures,
};
use super::settings::Settings;

/// The units of all cores and what they have found so far.
#[derive(Debug)]
pub struct Protocol<O: Observer = ()> {
    settings: Settings,
    observer: O,
    counts: Counts,
    from_ns: Option<u64>,
    now_ns: u64,
}

impl Protocol {
    /// Nothing has happened yet.
    pub fn new(settings: Settings) -> Self {
        Self::with_observer(settings, ())
    }
}

impl<O: Observer> Protocol<O> {
    /// Nothing has happened yet; `observer` sees what will.
    pub fn with_observer(settings: Settings, observer: O) -> Self {
        Self { settings, observer, counts: Counts::default(), from_ns: None, now_ns: 0 }
    }

    /// Takes the next event of either side.
    pub fn any(&mut self, event: &AnyEvent) {
        match event {
            AnyEvent::Sync(event) => self.event(event),
            AnyEvent::Kernel(event) => self.kernel(event),
        }
    }

    /// Takes the next event of the thread library. Events come in time order, both sides together.
    pub fn event(&mut self, event: &SyncEvent) {
        self.advance(event.at_ns);
        self.counts.events += 1;
    }

    /// Takes the next event of the kernel or the machine.
    pub fn kernel(&mut self, event: &KernelEvent) {
        self.advance(event.at_ns);
        self.counts.kernel_events += 1;
    }

    /// So many records were lost by the recorder.
    pub fn lost(&mut self, records: u64) {
        self.counts.lost_records += records;
    }

    /// Who watches.
    pub fn observer(&self) -> &O {
        &self.observer
    }

    /// What was found in all.
    pub fn finish(self) -> SyncResults {
        self.finish_with_observer().0
    }

    /// What was found in all, and who watched.
    pub fn finish_with_observer(self) -> (SyncResults, O) {
        let results = SyncResults {
            settings: self.settings,
            from_ns: self.from_ns.unwrap_or(0),
            to_ns: self.now_ns,
            classes: SyncClass::ALL
                .map(|class| ClassFigures {
                    class,
                    timed: Sums::default(),
                    late: Sums::default(),
                    late_per_ms: 0.0,
                    mean_ns: None,
                    p50_ns: None,
                    p90_ns: None,
                    p99_ns: None,
                    p99_9_ns: None,
                    share: None,
                    bins: Vec::new(),
                })
                .to_vec(),
            late: Sums::default(),
            others: OtherClass::ALL.map(|class| OtherFigures { class, lost: Sums::default() }).to_vec(),
            objects: Vec::new(),
            call_sites: Vec::new(),
            threads: Vec::new(),
            cores: Vec::new(),
            coverage: Coverage::default(),
            counts: self.counts,
            critical_path: CriticalPath::default(),
            sync_share: SyncShare::default(),
            causes: Cause::ALL
                .map(|cause| CauseFigures { cause, waits: Sums::default(), leads: 0, classes_ns: [0; 6] })
                .to_vec(),
            longest: Vec::new(),
            oversubscription: Oversubscription::default(),
            units: UnitFigures::default(),
        };
        (results, self.observer)
    }

    fn advance(&mut self, at_ns: u64) {
        self.from_ns.get_or_insert(at_ns);
        self.counts.out_of_order += u64::from(at_ns < self.now_ns);
        self.now_ns = self.now_ns.max(at_ns);
    }
}
