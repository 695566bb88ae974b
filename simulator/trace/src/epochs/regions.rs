//! Whose data kernel activity touches: a processor's own, a thread's stack, memory of the program, or what all have in common.
//!
//! All of it is derived from what a library has recorded anyway:
//! - An instruction that reads and writes the stack pointer and touches memory touches a stack; Linux gives each thread 16 KiB.
//! - One instruction finds data of its processor at a distance that is the same for all instructions, per processor.
//! - A line that several processors touched is common; of one that was seen on one processor nothing more is known.

use super::{About, EpochReader};
use crate::block::{Dictionary, Instruction, Registers};
use crate::container::{FileError, ReadAt};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Number of the stack pointer among the registers.
const STACK_POINTER: u8 = 4;
/// Bytes of a thread's stack, and its alignment (`THREAD_SIZE` of x86-64).
pub const STACK_OCTETS: u64 = 16 << 10;
/// Where each processor has a few pages to enter the kernel by, its own (`cpu_entry_area` of x86-64).
const ENTRY: std::ops::Range<u64> = 0xffff_fe00_0000_0000..0xffff_fe80_0000_0000;
/// From here on lie the kernel's code and variables, of which there is one each (x86-64).
const IMAGE: u64 = 0xffff_ffff_8000_0000;
/// Bytes of a line.
const LINE: u64 = 64;
/// The distance of processors is told where it is so many times as frequent as the next.
const CLEARLY: u64 = 4;
/// A window of data of processors holds at least one of so many instructions that agree on the distance.
const LEAST_SHARE: u64 = 50;

/// Whose data an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// Of a processor.
    PerCpu {
        /// How many processors beyond the one that touches it; 0 is its own.
        ahead: u32,
        /// Bytes from where the first processor's is.
        back: u64,
    },
    /// A stack in the kernel.
    Stack,
    /// Memory of the program.
    User,
    /// Elsewhere, and only one processor was seen to touch the line.
    Alone,
    /// Elsewhere, and several processors touched the line, or it is a variable of the kernel.
    Common,
}

impl Region {
    /// Names of the kinds, in the order of [`Region::kind`].
    pub const KINDS: [&'static str; 5] = ["per CPU", "stack", "program", "one CPU", "common"];

    /// Number of its kind.
    pub const fn kind(self) -> usize {
        match self {
            Self::PerCpu { .. } => 0,
            Self::Stack => 1,
            Self::User => 2,
            Self::Alone => 3,
            Self::Common => 4,
        }
    }
}

/// Where data of processors lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PerCpu {
    /// Bytes from one processor's to the next one's, a power of two.
    distance: u64,
    /// Windows of so many bytes that hold the first processor's, by number.
    windows: BTreeSet<u64>,
}

/// What a library tells of the kernel's data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionMap {
    processors: u32,
    /// None where the library has one processor, or none of the distances stands out.
    per_cpu: Option<PerCpu>,
    /// Numbers of stacks.
    stacks: BTreeSet<u64>,
    /// Lines that several processors touched.
    common: BTreeSet<u64>,
}

/// What was seen of something: one value, or several.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen<T> {
    One(T),
    Several,
}

impl<T: PartialEq> Seen<T> {
    fn add(&mut self, value: &T) {
        if !matches!(self, Self::One(own) if own == value) {
            *self = Self::Several;
        }
    }
}

/// Of an instruction of a block: which address it touches first, by processor.
type Sites = HashMap<(u32, u16), BTreeMap<u32, Seen<u64>>>;

fn is_on_stack(instruction: &Instruction) -> bool {
    let pointer = Registers::of(STACK_POINTER).0;
    instruction.reads.0 & instruction.writes.0 & pointer != 0
}

impl RegionMap {
    /// What a library knows of itself, or else what its epochs tell.
    ///
    /// # Errors
    /// When the library is damaged.
    pub fn of<R: ReadAt>(library: &EpochReader<R>) -> Result<Self, FileError> {
        if let Some(known) = &library.facts.regions {
            return Ok(known.clone());
        }
        let (mut stacks, mut sites) = (BTreeSet::new(), Sites::new());
        let mut lines: HashMap<u64, Seen<u32>> = HashMap::new();
        for epoch in library.epochs() {
            let epoch = epoch?;
            let processor = epoch.about.processor;
            for (block, accesses) in epoch.steps() {
                let mut before = None;
                for access in accesses.iter().filter(|access| is_of_kernel(access.address)) {
                    let line = access.address / LINE;
                    lines.entry(line).or_insert(Seen::One(processor)).add(&processor);
                    if instruction(&library.dictionary, block, access.instruction).is_some_and(is_on_stack) {
                        stacks.insert(access.address / STACK_OCTETS);
                    } else if before != Some(access.instruction) {
                        let site = sites.entry((block, access.instruction)).or_default();
                        site.entry(processor).or_insert(Seen::One(access.address)).add(&access.address);
                    }
                    before = Some(access.instruction);
                }
            }
        }
        let several = lines.into_iter().filter(|(_, seen)| *seen == Seen::Several);
        Ok(Self {
            processors: library.facts.processors,
            per_cpu: PerCpu::of(&sites, &stacks, library.facts.processors),
            stacks,
            common: several.map(|(line, _)| line).collect(),
        })
    }

    /// What it tells of some lines only.
    pub(super) fn of_lines(&self, lines: &BTreeSet<u64>) -> Self {
        Self { common: self.common.intersection(lines).copied().collect(), ..self.clone() }
    }

    /// Number of the line of an address.
    pub(super) const fn line(address: u64) -> u64 {
        address / LINE
    }

    /// Whether data of processors can be told from other data.
    pub const fn tells_processors(&self) -> bool {
        self.per_cpu.is_some()
    }

    /// Whose data an epoch touches at this address.
    pub fn region(&self, about: &About, address: u64) -> Region {
        if !is_of_kernel(address) {
            return Region::User;
        }
        if ENTRY.contains(&address) {
            return Region::PerCpu { ahead: 0, back: 0 };
        }
        if let Some((owner, back)) = self.per_cpu.as_ref().and_then(|own| own.owner(address, self.processors))
        {
            let own = about.processor % self.processors.max(1);
            return Region::PerCpu { ahead: (owner + self.processors - own) % self.processors, back };
        }
        match () {
            () if self.stacks.contains(&(address / STACK_OCTETS)) => Region::Stack,
            () if address >= IMAGE || self.common.contains(&(address / LINE)) => Region::Common,
            () => Region::Alone,
        }
    }
}

const fn is_of_kernel(address: u64) -> bool {
    address >> 63 == 1
}

fn instruction(dictionary: &Dictionary, block: u32, number: u16) -> Option<&Instruction> {
    dictionary.blocks.get(block as usize)?.instructions.get(usize::from(number))
}

impl PerCpu {
    /// The distance on which most instructions agree that touch one address on each of two processors.
    fn of(sites: &Sites, stacks: &BTreeSet<u64>, processors: u32) -> Option<Self> {
        // By distance of neighbours: where the first processor's would be.
        let mut agree: HashMap<u64, Vec<u64>> = HashMap::new();
        for by_processor in sites.values() {
            let single: Vec<(u64, u64)> = by_processor
                .iter()
                .filter_map(|(processor, seen)| match seen {
                    Seen::One(address) if !stacks.contains(&(address / STACK_OCTETS)) => {
                        Some((u64::from(*processor), *address))
                    }
                    _ => None,
                })
                .collect();
            for two in single.windows(2) {
                let [(one, at), (other, there)] = *two else { continue };
                let (apart, between) = (there.wrapping_sub(at), other - one);
                if there > at && apart % between == 0 && (apart / between).is_power_of_two() {
                    let distance = apart / between;
                    agree.entry(distance).or_default().push(at.wrapping_sub(one * distance));
                }
            }
        }
        // An object's fields and neighbours in a page are nearer.
        agree.retain(|distance, _| *distance >= STACK_OCTETS);
        let mut by_count: Vec<(u64, Vec<u64>)> = agree.into_iter().collect();
        by_count.sort_by_key(|(distance, sites)| (std::cmp::Reverse(sites.len()), *distance));
        let next = by_count.get(1).map_or(0, |(_, sites)| sites.len() as u64);
        let (distance, first) = by_count.into_iter().next()?;
        if (first.len() as u64) < CLEARLY * next.max(1) {
            return None;
        }
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        first.iter().for_each(|address| *counts.entry(address / distance).or_default() += 1);
        counts.retain(|_, count| *count * LEAST_SHARE >= first.len() as u64);
        // Who looks at the next processor's data agrees on a window beside that of the first.
        let mut counts: Vec<(u64, u64)> = counts.into_iter().collect();
        counts.sort_by_key(|(window, count)| (std::cmp::Reverse(*count), *window));
        let mut windows = BTreeSet::new();
        for (window, _) in counts {
            if windows.iter().all(|other: &u64| other.abs_diff(window) >= u64::from(processors)) {
                windows.insert(window);
            }
        }
        Some(Self { distance, windows })
    }

    /// Whose data is at this address, and how far it is from the first processor's; none where it is nobody's.
    fn owner(&self, address: u64, processors: u32) -> Option<(u32, u64)> {
        let window = address / self.distance;
        let at_or_before = self.windows.range(..=window).next_back()?;
        let owner = u32::try_from(window - at_or_before).ok().filter(|owner| *owner < processors)?;
        Some((owner, u64::from(owner) * self.distance))
    }
}

#[cfg(test)]
mod tests;
