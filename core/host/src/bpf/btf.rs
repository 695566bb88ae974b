//! The few facts that we read from the kernel's own type description (BTF): which tracepoints and functions it
//! has, and the names of an enumeration.
//!
//! ```text
//!  0       2        3       4         8          12         16         20         24
//!  +-------+--------+-------+---------+----------+----------+----------+----------+----------
//!  | magic | version| flags | header  | types at | types    | strings  | strings  | types, strings
//!  | eb9f  |        |       | length  |          | length   | at       | length   |
//!  +-------+--------+-------+---------+----------+----------+----------+----------+----------
//! ```
//! Layout: Linux `Documentation/bpf/btf.rst`.

use std::collections::{BTreeMap, BTreeSet};

/// Where the kernel offers it.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

const MAGIC: u16 = 0xeb9f;
const KIND_STRUCT: u32 = 4;
const KIND_ENUM: u32 = 6;
const KIND_TYPEDEF: u32 = 8;
const KIND_FUNC: u32 = 12;
const KIND_VAR: u32 = 14;
const KIND_DATASEC: u32 = 15;

/// Where the kernel keeps what each CPU has for itself.
const PER_CPU: &str = ".data..percpu";
/// Per-CPU variables: what the scheduler knows of the CPU, and what a KVM host writes about stolen time.
const RUN_QUEUES: &str = "runqueues";
const STEAL_TIME: &str = "steal_time";
/// The way from a thread to the run queue of its CPU, and what is read there: structure and member.
const STEAL_WAY: [(&str, &str); 5] = [
    ("sched_entity", "cfs_rq"),
    ("cfs_rq", "rq"),
    ("rq", "cpu"),
    ("kvm_steal_time", "steal"),
    ("kvm_steal_time", "version"),
];

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelTypes {
    /// Tracepoints that a `tp_btf` program can take.
    pub tracepoints: BTreeSet<String>,
    /// Functions described, of those asked for.
    pub functions: BTreeSet<String>,
    /// `enum skb_drop_reason`: name of each number, without the common prefix.
    pub drop_reasons: BTreeMap<u32, String>,
    /// Distance in bytes from a CPU's run queue to the record in which a KVM host counts the time that it took from that
    /// CPU; none where the kernel lacks one of the two, or a member on the way there.
    pub steal_offset: Option<i64>,
}

/// Reads the description; none if it is not BTF or is cut short. `functions` names the functions looked for.
pub(super) fn read(octets: &[u8], functions: &[&str]) -> Option<KernelTypes> {
    if octets.get(..2)? != MAGIC.to_le_bytes() {
        return None;
    }
    let header = word(octets, 4)? as usize;
    let section = |at: usize| {
        let start = header.checked_add(word(octets, at)? as usize)?;
        octets.get(start..start.checked_add(word(octets, at + 4)? as usize)?)
    };
    let (types, strings) = (section(8)?, section(16)?);
    let mut found = KernelTypes::default();
    let mut variables = BTreeMap::new();
    let mut per_cpu = None;
    let mut way = BTreeSet::new();
    let (mut at, mut number) = (0, 0);
    while at < types.len() {
        let (name, info) = (word(types, at)?, word(types, at + 4)?);
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let name = || text(strings, name);
        number += 1;
        match kind {
            KIND_STRUCT => {
                let structure = name()?;
                for step in STEAL_WAY.iter().filter(|step| step.0 == structure) {
                    for member in 0..count {
                        if text(strings, word(types, at + 12 + 12 * member)?)? == step.1 {
                            way.insert(*step);
                        }
                    }
                }
            }
            KIND_VAR => {
                let name = name()?;
                if [RUN_QUEUES, STEAL_TIME].contains(&name) {
                    variables.insert(name, number);
                }
            }
            KIND_DATASEC if name()? == PER_CPU => per_cpu = Some((at + 12, count)),
            KIND_TYPEDEF => {
                if let Some(tracepoint) = name()?.strip_prefix("btf_trace_") {
                    found.tracepoints.insert(tracepoint.to_owned());
                }
            }
            KIND_FUNC => {
                let name = name()?;
                if functions.contains(&name) {
                    found.functions.insert(name.to_owned());
                }
            }
            KIND_ENUM if name()? == "skb_drop_reason" => {
                for value in 0..count {
                    let name = text(strings, word(types, at + 12 + 8 * value)?)?;
                    let name = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
                    found
                        .drop_reasons
                        .entry(word(types, at + 16 + 8 * value)?)
                        .or_insert_with(|| name.to_owned());
                }
            }
            _ => {}
        }
        at += 12 + trailing_bytes(kind, count)?;
    }
    let offset = |variable: &str| {
        let (first, count) = per_cpu?;
        let wanted = *variables.get(variable)?;
        (0..count).find_map(|entry| {
            let entry = first + 12 * entry;
            (word(types, entry)? == wanted).then(|| word(types, entry + 4).map(i64::from))?
        })
    };
    if way.len() == STEAL_WAY.len() {
        found.steal_offset = offset(STEAL_TIME).zip(offset(RUN_QUEUES)).map(|(steal, queue)| steal - queue);
    }
    Some(found)
}

/// Bytes after the common 12 of a type with `count` members.
fn trailing_bytes(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        1 | 14 | 17 => 4,
        2 | 7..=12 | 16 | 18 => 0,
        3 => 12,
        4 | 5 | 15 | 19 => 12 * count,
        6 | 13 => 8 * count,
        _ => return None,
    })
}

fn word(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(octets.get(at..at + 4)?.try_into().ok()?))
}

fn text(strings: &[u8], at: u32) -> Option<&str> {
    let rest = strings.get(at as usize..)?;
    std::str::from_utf8(&rest[..rest.iter().position(|b| *b == 0)?]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description of three types: a typedef, a function and an enumeration.
    fn example() -> Vec<u8> {
        let strings = b"\0btf_trace_cpu_idle\0bpf_cast_to_kern_ctx\0skb_drop_reason\0SKB_CONSUMED\0SKB_DROP_REASON_NO_SOCKET\0";
        let at = |name: &str| strings.windows(name.len()).position(|w| w == name.as_bytes()).unwrap() as u32;
        let types: Vec<u32> = [
            vec![at("btf_trace"), 8 << 24, 0],
            vec![at("bpf_cast"), 12 << 24, 0],
            vec![at("skb_drop"), 6 << 24 | 2, 4, at("SKB_CONSUMED"), 1, at("SKB_DROP_REASON_NO"), 3],
        ]
        .concat();
        let types: Vec<u8> = types.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut octets = vec![0x9f, 0xeb, 1, 0];
        for value in [24, 0, types.len(), types.len(), strings.len()] {
            octets.extend((value as u32).to_le_bytes());
        }
        octets.extend(types);
        octets.extend(strings);
        octets
    }

    #[test]
    fn finds_what_is_looked_for() {
        let found = read(&example(), &["bpf_cast_to_kern_ctx", "other"]).unwrap();
        assert_eq!(found.tracepoints.iter().collect::<Vec<_>>(), ["cpu_idle"]);
        assert_eq!(found.functions.iter().collect::<Vec<_>>(), ["bpf_cast_to_kern_ctx"]);
        assert_eq!(found.drop_reasons[&1], "SKB_CONSUMED");
        assert_eq!(found.drop_reasons[&3], "NO_SOCKET");
    }

    /// The way to the steal record: four structures, two variables, and the section that places them.
    fn steal_example(members: &[(&str, &[&str])]) -> Vec<u8> {
        let mut strings = vec![0u8];
        let mut at = |name: &str| {
            let place = strings.len() as u32;
            strings.extend(name.as_bytes());
            strings.push(0);
            place
        };
        let mut types: Vec<u32> = Vec::new();
        types.extend([at("steal_time"), 14 << 24, 9, 1]);
        for (structure, members) in members {
            types.extend([at(structure), 4 << 24 | members.len() as u32, 8]);
            for member in *members {
                types.extend([at(member), 9, 0]);
            }
        }
        types.extend([at("runqueues"), 14 << 24, 9, 1]);
        let queues = members.len() as u32 + 2;
        types.extend([at(".data..percpu"), 15 << 24 | 3, 0x4000]);
        types.extend([99, 64, 8, queues, 0x2ba80, 3584, 1, 0x17c00, 64]);
        let types: Vec<u8> = types.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut octets = vec![0x9f, 0xeb, 1, 0];
        for value in [24, 0, types.len(), types.len(), strings.len()] {
            octets.extend((value as u32).to_le_bytes());
        }
        octets.extend(types);
        octets.extend(strings);
        octets
    }

    #[test]
    fn the_steal_record_is_found_from_the_run_queue() {
        let whole: [(&str, &[&str]); 4] = [
            ("sched_entity", &["load", "cfs_rq"]),
            ("cfs_rq", &["rq"]),
            ("rq", &["clock", "cpu"]),
            ("kvm_steal_time", &["steal", "version"]),
        ];
        assert_eq!(read(&steal_example(&whole), &[]).unwrap().steal_offset, Some(0x17c00 - 0x2ba80));
        for gone in 0..whole.len() {
            let mut lacking = whole;
            lacking[gone].1 = &[];
            assert_eq!(read(&steal_example(&lacking), &[]).unwrap().steal_offset, None, "{}", whole[gone].0);
        }
        assert_eq!(read(&example(), &[]).unwrap().steal_offset, None);
    }

    #[test]
    fn refuses_what_is_cut_short() {
        let octets = example();
        for length in 0..octets.len() {
            assert_eq!(read(&octets[..length], &[]), None, "{length} bytes");
        }
        assert_eq!(read(b"not a type description", &[]), None);
    }
}
