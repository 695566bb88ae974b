//! The recordings of a run, one a process image, and the kernel's side, as one stream in time order.

use super::callers::Callers;
use super::turns::Turns;
use anyhow::Context;
use quaver_abi::kernel_side::KernelSideRecord;
use quaver_abi::record::AnchorRecord;
use quaver_instrument::exit_code::{ExitCode, failure};
use quaver_store::segments::{SegmentReader as RawReader, read_if_any};
use quaver_sync_analysis::replay::Life;
use quaver_sync_analysis::sync::{AnyEvent, KernelEvent, SyncEvent, ThreadId};
use quaver_sync_store::{
    PackedReader, Segment, SegmentReader, SyncFacts as ImageFacts, SyncMoment, SyncSegmentError, SyncThread,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

/// Kernel records come a CPU after the other, each time that the kernel's memory is read: none is older by more.
const REORDERED_NS: u64 = 2_000_000_000;
/// Events that are handed over at once.
const BATCH: usize = 4096;

/// The recording of one process image.
pub(super) struct Image {
    /// Its files, without their extensions.
    pub(super) stem: PathBuf,
    kept: ImageSource,
}

enum ImageSource {
    /// As the recorder left it.
    Raw(Box<Segment>),
    /// Packed.
    Packed(Box<PackedReader>),
}

impl Image {
    /// What is known of the process image.
    pub(super) fn facts(&self) -> &ImageFacts {
        match &self.kept {
            ImageSource::Raw(segment) => segment.facts(),
            ImageSource::Packed(table) => table.facts(),
        }
    }

    /// Its threads.
    pub(super) fn threads(&self) -> &[SyncThread] {
        match &self.kept {
            ImageSource::Raw(segment) => segment.threads(),
            ImageSource::Packed(table) => table.threads(),
        }
    }
}

/// What each image was made from, and until when it lasted.
pub(super) fn lives(images: &[Image]) -> Vec<Life> {
    let all: Vec<&ImageFacts> = images.iter().map(Image::facts).collect();
    let of = |own: &&ImageFacts| {
        let makes = |one: &ImageFacts| match own.exec_number {
            0 => one.pid == own.parent,
            number => one.pid == own.pid && one.exec_number + 1 == number,
        };
        let earlier = all.iter().enumerate().filter(|(_, one)| one.first_ns < own.first_ns && makes(one));
        let parent = earlier.max_by_key(|(_, one)| one.first_ns).map(|(at, _)| at as u16);
        Life { parent, last_ns: own.last_ns }
    };
    all.iter().map(of).collect()
}

/// Recordings of a directory, in the order of their names, and sentences about those that cannot be read.
pub(super) fn open_all(directory: &Path) -> anyhow::Result<(Vec<Image>, Vec<String>)> {
    let mut images = Vec::new();
    let mut unreadable = Vec::new();
    for path in recordings(directory)? {
        let packed = path.extension().is_some_and(|extension| extension == "parquet");
        let kept = match packed {
            true => PackedReader::open(&path).map(|table| ImageSource::Packed(Box::new(table))),
            false => open_raw(&path).map(|segment| ImageSource::Raw(Box::new(segment))),
        };
        match kept {
            Ok(kept) => images.push(Image { stem: path.with_extension(""), kept }),
            Err(error) => unreadable.push(error.to_string()),
        }
    }
    // The place of an image is a number of 16 bits; nobody reads a page about more processes.
    if images.len() > usize::from(u16::MAX) {
        let message = format!("{} holds more than 65535 recordings", directory.display());
        return Err(failure(ExitCode::BadInput, message));
    }
    Ok((images, unreadable))
}

/// Opens what a recorder left, on the clock that was kept beside the program where there is one.
pub(super) fn open_raw(path: &Path) -> Result<Segment, SyncSegmentError> {
    let mut segment = SegmentReader::open(path)?;
    let anchors = super::anchors_segment(path.parent().unwrap_or(Path::new(".")));
    // Without them, or where they are cut off, the recorder's own have to do.
    segment.use_anchors(&read_if_any::<AnchorRecord>(&anchors).unwrap_or_default());
    Ok(segment)
}

/// The recordings in a directory; of one that was packed, the table only, also where it is missing beside its facts.
pub(super) fn recordings(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed = std::fs::read_dir(directory).with_context(|| format!("listing {}", directory.display()))?;
    let mut found = Vec::new();
    for entry in listed {
        let path = entry?.path();
        let raw = path.extension().is_some_and(|extension| extension == "seg");
        let packed = path.extension().is_some_and(|extension| extension == "parquet");
        let facts = path.extension().is_some_and(|extension| extension == "json");
        let ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("sync-"));
        if ours && (packed || raw && !path.with_extension("parquet").is_file()) {
            found.push(path);
        } else if ours && facts && !["parquet", "seg"].iter().any(|kept| path.with_extension(kept).is_file())
        {
            found.push(path.with_extension("parquet"));
        }
    }
    found.sort();
    Ok(found)
}

/// Where the kernel's records come from, and who else looks at them.
pub(super) struct KernelStream<'a> {
    /// The segment.
    pub(super) path: &'a Path,
    /// Sees each record, before its turn; of a call it makes an event.
    pub(super) each: &'a mut dyn FnMut(&KernelSideRecord) -> Option<MergedEvent>,
}

/// What is told in its turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum MergedEvent {
    /// By the recorder, or by the kernel.
    Event(AnyEvent),
    /// A futex call, as an event.
    Futex(SyncEvent),
    /// A thread was made.
    Made {
        /// Which.
        thread: ThreadId,
        /// Of which process, as the kernel numbers it.
        process: u32,
    },
}

/// What happened at one instant: of a futex call, that and the kernel's event.
type Instant = (u64, [Option<MergedEvent>; 2]);
type Source<'a> = Box<dyn Iterator<Item = anyhow::Result<Instant>> + 'a>;

/// Gives all events to `sink`, in time order. `callers`: of each image, puts chains of calls into them.
pub(super) fn feed(
    images: &[Image],
    callers: &mut [Callers],
    kernel: Option<KernelStream<'_>>,
    mut sink: impl FnMut(&MergedEvent),
) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let mut sources: Vec<Source<'_>> = Vec::new();
        for ((process, image), callers) in (0_u16..).zip(images).zip(callers) {
            let moments = moments(image, scope);
            sources.push(Box::new(moments.filter_map(move |moment| {
                let moment = match moment {
                    Ok(moment) => moment,
                    Err(error) => return Some(Err(error)),
                };
                let thread = ThreadId(moment.tid);
                let mut event = SyncEvent::from_record(&moment.record, moment.at_ns, thread, process)?;
                if !callers.complete(&mut event) {
                    return None;
                }
                Some(Ok((moment.at_ns, [Some(MergedEvent::Event(AnyEvent::Sync(event))), None])))
            })));
        }
        if let Some(kernel) = kernel {
            sources.push(Box::new(kernel_events(kernel)?));
        }
        merge(sources, &mut sink)
    })
}

fn merge(mut sources: Vec<Source<'_>>, sink: &mut dyn FnMut(&MergedEvent)) -> anyhow::Result<()> {
    let mut heads: Vec<[Option<MergedEvent>; 2]> = vec![[None; 2]; sources.len()];
    let mut queue = BinaryHeap::new();
    for (at, source) in sources.iter_mut().enumerate() {
        if let Some((at_ns, events)) = source.next().transpose()? {
            heads[at] = events;
            queue.push(Reverse((at_ns, at)));
        }
    }
    while let Some(Reverse((_, at))) = queue.pop() {
        heads[at].iter().flatten().for_each(&mut *sink);
        if let Some((at_ns, events)) = sources[at].next().transpose()? {
            heads[at] = events;
            queue.push(Reverse((at_ns, at)));
        }
    }
    Ok(())
}

/// The events of an image in time order. A table gives them away, so another thread takes them.
fn moments<'scope, 'env>(
    image: &'env Image,
    scope: &'scope Scope<'scope, 'env>,
) -> Box<dyn Iterator<Item = anyhow::Result<SyncMoment>> + 'env> {
    let table = match &image.kept {
        ImageSource::Raw(segment) => return Box::new(segment.merge().map(|moment| Ok(moment?))),
        ImageSource::Packed(table) => table,
    };
    let (sender, receiver) = sync_channel::<anyhow::Result<Vec<SyncMoment>>>(4);
    let started = quaver_waiting::start_in(scope, "quaver-images", move || {
        let mut batch = Vec::with_capacity(BATCH);
        let read = table.for_each(|moment| {
            batch.push(*moment);
            if batch.len() == BATCH {
                // A receiver that went away has its reason.
                let _ = sender.send(Ok(std::mem::replace(&mut batch, Vec::with_capacity(BATCH))));
            }
        });
        let _ = sender.send(read.map(|()| batch).map_err(Into::into));
    });
    if let Err(error) = started {
        return Box::new(std::iter::once(Err(anyhow::Error::new(error).context("reading a recording"))));
    }
    Box::new(Batches { receiver, batch: Vec::new().into_iter() })
}

struct Batches {
    receiver: Receiver<anyhow::Result<Vec<SyncMoment>>>,
    batch: std::vec::IntoIter<SyncMoment>,
}

impl Iterator for Batches {
    type Item = anyhow::Result<SyncMoment>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(moment) = self.batch.next() {
                return Some(Ok(moment));
            }
            match self.receiver.recv().ok()? {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The kernel's records, put in order as far as they are out of it.
fn kernel_events<'a>(
    kernel: KernelStream<'a>,
) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Instant>> + use<'a>> {
    let each = kernel.each;
    let ordered = Ordered {
        records: RawReader::<KernelSideRecord>::open(kernel.path)?,
        waiting: BinaryHeap::new(),
        number: 0,
        latest_ns: 0,
    };
    let mut turns = Turns::default();
    let told = ordered.flat_map(move |record| {
        let untold = record.as_ref().ok().and_then(|record| turns.before(record));
        untold.map(Ok).into_iter().chain([record])
    });
    Ok(told.map(move |record| {
        let record = record?;
        let call = each(&record);
        let event =
            KernelEvent::from_record(&record).map(|event| MergedEvent::Event(AnyEvent::Kernel(event)));
        Ok((record.at_ns, [call, event]))
    }))
}

/// A record that waits for its turn: when, which in the file, what.
#[derive(PartialEq, Eq)]
struct Waiting(u64, u64, KernelSideRecord);

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

struct Ordered {
    records: RawReader<KernelSideRecord>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    number: u64,
    latest_ns: u64,
}

impl Iterator for Ordered {
    type Item = anyhow::Result<KernelSideRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let ripe = self.waiting.peek().is_some_and(|first| first.0.0 + REORDERED_NS < self.latest_ns);
            if ripe {
                return self.waiting.pop().map(|first| Ok(first.0.2));
            }
            match self.records.next() {
                Some(Ok(record)) => {
                    self.latest_ns = self.latest_ns.max(record.at_ns);
                    self.number += 1;
                    self.waiting.push(Reverse(Waiting(record.at_ns, self.number, record)));
                }
                Some(Err(error)) => return Some(Err(error.into())),
                None => return self.waiting.pop().map(|first| Ok(first.0.2)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::kernel_side::KernelSideKind;
    use quaver_host::segment::SegmentAppender;

    #[test]
    fn the_kernels_records_come_in_the_order_of_time_whichever_cpu_was_read_first() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("kernel.seg");
        let mut segment = SegmentAppender::create(&path).unwrap();
        // Three CPUs read one after the other, four times, half a second apart.
        let mut instants = Vec::new();
        for turn in 0..4_u64 {
            for cpu in 0..3_u16 {
                for number in 0..50_u64 {
                    let at_ns =
                        1 + turn * 500_000_000 + number * 10_000_000 + (7 * u64::from(cpu) + number) % 11;
                    instants.push(at_ns);
                    let kind = KernelSideKind::Wakeup as u8;
                    let record = KernelSideRecord { at_ns, cpu, thread: 1, kind, ..Default::default() };
                    segment.append(&record).unwrap();
                }
            }
        }
        segment.finish().unwrap();
        instants.sort_unstable();
        let mut seen = 0;
        let mut each = |_: &KernelSideRecord| {
            seen += 1;
            None
        };
        let mut found = Vec::new();
        let stream = KernelStream { path: &path, each: &mut each };
        feed(&[], &mut [], Some(stream), |told| match told {
            MergedEvent::Event(AnyEvent::Kernel(event)) => found.push(event.at_ns),
            other => panic!("there is no recording: {other:?}"),
        })
        .unwrap();
        assert_eq!((found, seen), (instants, 600));
    }

    #[test]
    fn a_packed_recording_stands_for_the_one_that_it_was_made_from() {
        let place = tempfile::tempdir().unwrap();
        for name in [
            "sync-9-1-0.seg",
            "sync-7-1-0.seg",
            "sync-7-1-0.parquet",
            "sync-7-1-0.json",
            "kernel.seg",
            "sync-7-1-0.maps",
        ] {
            std::fs::write(place.path().join(name), "").unwrap();
        }
        let names: Vec<_> = recordings(place.path())
            .unwrap()
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["sync-7-1-0.parquet", "sync-9-1-0.seg"]);
    }

    #[test]
    fn a_recording_without_its_events_is_named() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("sync-7-1-0.json"), "{}").unwrap();
        let (images, unreadable) = open_all(place.path()).unwrap();
        assert!(images.is_empty() && unreadable.len() == 1);
        assert!(unreadable[0].contains("sync-7-1-0.parquet: No such file"), "{unreadable:?}");
    }
}
