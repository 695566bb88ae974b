//! Traces of other tools, made byte by byte.
#![allow(dead_code, reason = "each test file and driver uses its part")]
#![allow(unreachable_pub, reason = "fuzz/ uses it from another crate")]

/// An entry of drmemtrace.
pub fn entry(kind: u16, size: u16, value: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
}

/// Entries of drmemtrace, one after the other.
pub fn entries(all: &[(u16, u16, u64)]) -> Vec<u8> {
    all.iter().flat_map(|(kind, size, value)| entry(*kind, *size, *value)).collect()
}

/// What a file of drmemtrace begins with: header, markers of version and type, thread, process, a time stamp unless it is 0.
pub fn begin(thread: u64, stamp: u64) -> Vec<(u16, u16, u64)> {
    let mut begin = vec![(25, 0, 5), (28, 12, 5), (28, 9, 0x40), (22, 4, thread), (24, 4, 90), (28, 10, 64)];
    if stamp > 0 {
        begin.extend([(28, 2, stamp), (28, 3, 1)]);
    }
    begin
}

/// Two files of drmemtrace of two threads, the second of which begins between the first one's stamps.
pub fn drmemtrace() -> [Vec<u8>; 2] {
    let mut first = begin(100, 10);
    first.extend([
        (10, 4, 0x40_1000),
        (0, 8, 0x7000),
        (48, 2, 0x40_1004),
        (10, 3, 0x40_1100),
        (1, 4, 0x7100),
        (28, 2, 30),
        (10, 5, 0x40_1103),
        (16, 1, 0x40_1108),
        (0, 8, 0x7fff0),
        (23, 0, 100),
        (26, 0, 0),
    ]);
    let mut second = begin(101, 20);
    second.extend([
        (10, 3, 0x40_1100),
        (1, 4, 0x7104),
        (47, 2, 0x9090),
        (10, 2, 0x40_1200),
        (3, 0, 0x7200),
        (23, 0, 101),
        (26, 0, 0),
    ]);
    [entries(&first), entries(&second)]
}

/// A record of ChampSim.
#[derive(Clone, Copy, Default)]
pub struct Record {
    pub ip: u64,
    pub branch: Option<bool>,
    pub written_registers: [u8; 2],
    pub read_registers: [u8; 4],
    pub written: [u64; 2],
    pub read: [u64; 4],
}

impl Record {
    /// Its 64 bytes.
    pub fn octets(&self) -> Vec<u8> {
        let mut octets = self.ip.to_le_bytes().to_vec();
        octets.extend([u8::from(self.branch.is_some()), u8::from(self.branch == Some(true))]);
        octets.extend(self.written_registers);
        octets.extend(self.read_registers);
        self.written.iter().chain(&self.read).for_each(|address| octets.extend(address.to_le_bytes()));
        octets
    }
}

/// A loop of ChampSim: a load, an addition to memory, and a jump back that is taken once.
pub fn champsim() -> Vec<u8> {
    let load = Record {
        ip: 0x40_0000,
        written_registers: [10, 0],
        read_registers: [6, 0, 0, 0],
        read: [0x7fff_0010, 0, 0, 0],
        ..Record::default()
    };
    let add = Record {
        ip: 0x40_0005,
        written_registers: [25, 0],
        read_registers: [10, 0, 0, 0],
        read: [0x60_0000, 0, 0, 0],
        written: [0x60_0000, 0],
        ..Record::default()
    };
    let jump = Record {
        ip: 0x40_0008,
        branch: Some(true),
        written_registers: [26, 0],
        read_registers: [25, 26, 0, 0],
        ..Record::default()
    };
    let on = Record { branch: Some(false), ..jump };
    let last = Record { ip: 0x40_000a, read_registers: [77, 0, 0, 0], ..Record::default() };
    [load, add, jump, load, add, on, last].iter().flat_map(Record::octets).collect()
}

/// What the calls of two threads of SynchroTrace mean.
pub const PTHREAD: &str = "##139637,2\n**6295680,1,2\nTotal instructions: 12\n";

/// Events of two threads as sigil2 writes them.
pub const SIGIL: [&str; 2] = [
    "0,1,5,1,1,1 $ 0x1000 0x1003 * 0x2000 0x2007\n1,1,pth_ty:3^0x22175\n! 10\n2,1,pth_ty:5^0x601080\n\
     3,1,pth_ty:4^0x22175\n",
    "0,2,pth_ty:1^0x601000\n1,2 # 1 0 0x1000 0x1003\n2,2,pth_ty:6^0x601040&0x601000\n3,2,pth_ty:2^0x601000\n\
     4,2,pth_ty:5^0x601080\n5,2,pth_ty:8^0x601040\n",
];

/// The same as Prism writes them.
pub const PRISM: [&str; 2] = [
    "@ 5,1,1,1 $ 0x1000 0x1003 * 0x2000 0x2007 \n^ 3^0x22175\n! 10\n^ 5^0x601080\n^ 4^0x22175\n",
    "^ 1^0x601000\n# 1 0 0x1000 0x1003 \n^ 6^0x601040&0x601000\n^ 2^0x601000\n^ 5^0x601080\n^ 8^0x601040\n",
];

/// What lackey prints.
pub const LACKEY: &str = "==77== Lackey, an example Valgrind tool\n==77== \nI  04001090,3\nI  04001093,5\n S 1fff000118,8\n\
                          I  04001ea0,4\n L 1fff000118,8\n M 0421f000,4\nI  04001093,5\n S 1fff000108,8\nI  04001ea0,4\n L 1fff000108,8\n";
