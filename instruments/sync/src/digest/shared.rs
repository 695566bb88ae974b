//! Memory that several processes of a run share. A lock in it is one lock, wherever each of them has mapped it: its events carry the
//! file and the place in it instead of an address.

use crate::record::maps::{FileId, MemoryMap};
use quaver_abi::sync::SyncKind;
use quaver_sync_analysis::sync::{SHARED_ADDRESS, SyncEvent};
use std::collections::BTreeMap;

/// An odd number whose multiples differ in their low 32 bits, by which alone a wait on a condition names its mutex.
const SPREAD: u32 = 0x9e37_79b1;

/// A stretch of one image's memory.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: u64,
    end: u64,
    /// Number of the file among those shared.
    file: u16,
    /// Where in the file it begins.
    offset: u64,
}

impl Stretch {
    fn place(&self, address: u64) -> u64 {
        let offset = self.offset + (address - self.start);
        let low = (offset as u32).wrapping_add(u32::from(self.file).wrapping_mul(SPREAD));
        SHARED_ADDRESS | u64::from(self.file & 0x7fff) << 48 | (offset >> 32 & 0xffff) << 32 | u64::from(low)
    }
}

/// What is shared, by image.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    images: Vec<Vec<Stretch>>,
    names: Vec<String>,
}

impl SharedMemory {
    /// By the memory of each image, in their order.
    pub(super) fn of(images: impl Iterator<Item = MemoryMap>) -> Self {
        let mut memory = Self::default();
        let mut numbers: BTreeMap<FileId, u16> = BTreeMap::new();
        for map in images {
            let mut stretches = Vec::new();
            for mapped in map.iter() {
                let Some(id) = &mapped.shared else { continue };
                let Ok(next) = u16::try_from(memory.names.len()) else { continue };
                let file = *numbers.entry(id.clone()).or_insert_with(|| {
                    memory.names.push(mapped.name.clone().unwrap_or_default());
                    next
                });
                stretches.push(Stretch { start: mapped.start, end: mapped.end, file, offset: mapped.offset });
            }
            memory.images.push(stretches);
        }
        memory
    }

    /// Names the event's object by its place in shared memory, if it lies there.
    pub(super) fn translate(&self, event: &mut SyncEvent) {
        let Some(stretches) = self.images.get(usize::from(event.process)).filter(|all| !all.is_empty())
        else {
            return;
        };
        let holds = stretches.iter().find(|one| (one.start..one.end).contains(&event.object));
        let Some(one) = holds else { return };
        event.object = one.place(event.object);
        // The mutex of a shared condition is shared, too. Of a private one, the half of an address could lie anywhere.
        if matches!(event.kind, SyncKind::WaitEntry | SyncKind::WaitExit) {
            let mutex = |one: &Stretch| {
                let near = one.start & !0xffff_ffff | u64::from(event.detail);
                let address = if near < one.start { near + (1 << 32) } else { near };
                (address < one.end).then(|| one.place(address))
            };
            if let Some(place) = stretches.iter().find_map(mutex) {
                event.detail = place as u32;
            }
        }
    }

    /// What a place in shared memory is called: `shared memory /dev/shm/queue+0x40`.
    pub(super) fn name(&self, place: u64) -> Option<String> {
        let file = (place >> 48 & 0x7fff) as u16;
        let low = (place as u32).wrapping_sub(u32::from(file).wrapping_mul(SPREAD));
        let offset = (place >> 32 & 0xffff) << 32 | u64::from(low);
        let name = self.names.get(usize::from(file))?;
        Some(format!("shared memory {}+{offset:#x}", name.trim_end_matches(" (deleted)")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quaver_abi::sync::SyncOutcome;
    use quaver_sync_analysis::sync::ThreadId;

    #[test]
    fn one_place_in_a_file_is_one_object_wherever_it_is_mapped() {
        let first = "7f0000000000-7f0000002000 rw-s 00001000 00:01 77   /memfd:queue (deleted)\n\
                     7f0000010000-7f0000012000 rw-s 00000000 00:01 78   /dev/shm/other\n\
                     7f0000020000-7f0000022000 rw-p 00000000 00:01 77   /memfd:queue (deleted)\n";
        let second = "7faaffffe000-7fab00002000 rw-s 00000000 00:01 77  /memfd:queue (deleted)\n";
        let memory = SharedMemory::of([first, second].into_iter().map(MemoryMap::parse));
        let event = |process, object: u64, detail| {
            let mut event = SyncEvent {
                at_ns: 1,
                object,
                call_site: 0,
                thread: ThreadId(1),
                detail,
                cpu: 0,
                process,
                kind: SyncKind::WaitEntry,
                outcome: SyncOutcome::Ok,
                flags: 0,
            };
            memory.translate(&mut event);
            (event.object, event.detail)
        };
        // Offset 0x2f40 of file 77, and a mutex at 0x2f10; the second process has them across a bound of 4 GiB.
        let ours = event(0, 0x7f00_0000_1f40, 0x0000_1f10);
        assert_eq!(event(1, 0x7fab_0000_0f40, 0x0000_0f10), ours);
        assert_ne!(ours.0 & SHARED_ADDRESS, 0);
        assert_eq!(memory.name(ours.0).as_deref(), Some("shared memory /memfd:queue+0x2f40"));
        let mutex = event(1, 0x7fab_0000_0f10, 1).0;
        assert_eq!(ours.1, mutex as u32, "a wait and a lock name the mutex alike");
        // Half of an address says nothing where the condition is private.
        assert_eq!(event(0, 0x5600_0000_0040, 0x0000_1f10), (0x5600_0000_0040, 0x0000_1f10));
        let other = event(0, 0x7f00_0001_1f40, 1).0;
        assert_eq!(memory.name(other).as_deref(), Some("shared memory /dev/shm/other+0x1f40"));
        let private = (0x7f00_0002_0040, 0x0002_0080);
        assert_eq!(event(0, private.0, private.1), private, "a private copy is another");
        assert_eq!(event(7, 0x7f00_0000_1f40, 1), (0x7f00_0000_1f40, 1));
    }
}
