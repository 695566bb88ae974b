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
const KIND_ENUM: u32 = 6;
const KIND_TYPEDEF: u32 = 8;
const KIND_FUNC: u32 = 12;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelTypes {
    /// Tracepoints that a `tp_btf` program can take.
    pub tracepoints: BTreeSet<String>,
    /// Functions described, of those asked for.
    pub functions: BTreeSet<String>,
    /// `enum skb_drop_reason`: name of each number, without the common prefix.
    pub drop_reasons: BTreeMap<u32, String>,
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
    let mut at = 0;
    while at < types.len() {
        let (name, info) = (word(types, at)?, word(types, at + 4)?);
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let name = || text(strings, name);
        match kind {
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

    #[test]
    fn refuses_what_is_cut_short() {
        let octets = example();
        for length in 0..octets.len() {
            assert_eq!(read(&octets[..length], &[]), None, "{length} bytes");
        }
        assert_eq!(read(b"not a type description", &[]), None);
    }
}
