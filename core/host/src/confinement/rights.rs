//! Who keeps what: one row for each kind of process or thread, which SECURITY.md shows.

use super::{Confined, Confinement, Files, Network, confine};
use rustix::thread::CapabilitySet;

/// What processes or threads of a kind keep.
#[derive(Debug)]
pub struct Right {
    /// Who they are, and their files in words: each names them when it is confined.
    who: &'static [(&'static str, &'static str)],
    network: Sockets,
    tracing: bool,
    programs: bool,
    filter: bool,
    capabilities: CapabilitySet,
}

/// Use of sockets, of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// None but those that are open.
    Open,
    /// It listens at its ports, and connects to nobody by TCP.
    Served,
    /// As the user may.
    Any,
}

/// Files of other users, which root reads and writes too.
const FILES: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);
/// Packets, ports below 1024, real time and locked memory.
const PACKETS: CapabilitySet = CapabilitySet::NET_RAW
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::IPC_LOCK);
/// What other processes and the kernel do.
const TRACES: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::SYSLOG)
    .union(FILES);

/// It answers whoever reaches its ports.
pub static SERVER: Right = Right {
    who: &[(
        "`serve`, and `jitlat` as a server",
        "reads `/proc` and `/sys`; with a clock of an interface also `/dev/ptp*` and the journal of settings",
    )],
    network: Sockets::Served,
    tracing: false,
    programs: false,
    filter: true,
    capabilities: PACKETS,
};

/// It sends to others, and reads their answers.
pub static SENDER: Right = Right {
    who: &[(
        "`probe`, `jitlat` to a host, `source`, `sink`",
        "reads `/proc`, `/sys`, `/etc` and libraries; writes the run, removes one without a measurement, and writes the places of other outputs",
    )],
    network: Sockets::Any,
    tracing: false,
    programs: false,
    filter: true,
    capabilities: PACKETS.union(FILES),
};

/// A thread that measures. A filter of system calls would be part of what it measures.
pub static MEASURING: Right = Right {
    who: &[("`chase`, `source`, `sink`, `capture`, the threads that send and receive packets", "none")],
    network: Sockets::Open,
    tracing: false,
    programs: false,
    filter: false,
    // While memory is locked, a thread without it can allocate none.
    capabilities: CapabilitySet::IPC_LOCK,
};

/// It follows packets or a process of others.
pub static OBSERVER: Right = Right {
    who: &[(
        "`chase` of a stream or receiver of others, and `capture`, while they measure",
        "as the user may: they read `/proc` of others, which Landlock forbids",
    )],
    network: Sockets::Any,
    tracing: true,
    programs: false,
    filter: true,
    capabilities: TRACES.union(PACKETS).union(CapabilitySet::CHECKPOINT_RESTORE),
};

/// It traces for as long as it lives.
pub static WATCH: Right = Right {
    who: &[("`watch`", "as the user may: it reads memory maps of others, which Landlock forbids")],
    network: Sockets::Any,
    tracing: true,
    programs: false,
    filter: true,
    capabilities: TRACES,
};

/// It answers questions about the process that it is part of.
pub static ANSWERS: Right = Right {
    who: &[("`watch`, `serve` and `probe --mesh`, the threads that answer requests", "none")],
    network: Sockets::Open,
    tracing: false,
    programs: false,
    filter: true,
    capabilities: CapabilitySet::empty(),
};

/// It tells a server of what happened, or hears what one answers.
pub static NOTIFIER: Right = Right {
    who: &[
        (
            "`watch`, the thread that sends to the `url` of `[hook]`",
            "reads `/proc`, `/sys`, `/etc` and libraries",
        ),
        ("`watch`, the thread of each `[[path]]`", "reads `/proc`, `/sys`, `/etc` and libraries"),
    ],
    network: Sockets::Any,
    tracing: false,
    programs: false,
    filter: true,
    capabilities: CapabilitySet::empty(),
};

/// It reads captured packets.
pub static CAPTURE_WRITER: Right = Right {
    who: &[(
        "`capture`, the thread that reads and writes packets",
        "reads `/proc` and `/sys`; writes the place of the output",
    )],
    network: Sockets::Any,
    tracing: true,
    programs: false,
    filter: true,
    capabilities: CapabilitySet::DAC_OVERRIDE,
};

/// It reads the ELF files of a process of others.
pub static SYMBOLS: Right = Right {
    who: &[(
        "`chase --pid`, `watch`, the thread that reads ELF files",
        "as the user may: it reads `/proc` of others, which Landlock forbids",
    )],
    network: Sockets::Open,
    tracing: false,
    programs: false,
    filter: true,
    capabilities: CapabilitySet::DAC_READ_SEARCH
        .union(CapabilitySet::IPC_LOCK)
        .union(CapabilitySet::SYS_PTRACE)
        .union(CapabilitySet::CHECKPOINT_RESTORE),
};

/// It reads what is stored.
pub static READER: Right = Right {
    who: &[
        ("`analyze FILE`, `jitlat -f FILE`", "reads that file; writes the place of plots"),
        ("`analyze`, `report`, `export` of a run", "reads and writes the run, and the place of `--output`"),
        (
            "`compare`, `runs`, `scrub`, `migrate`",
            "reads the runs, or what lies below the roots; writes the place of the output, or of the tags",
        ),
        (
            "`sim import`, `sim run`, `sim trace --info`, `--armour`, `--thin`",
            "reads the inputs; writes the place of the output",
        ),
        (
            "`sim sweep run`, `sim paper` when it has traced",
            "reads the inputs; writes the place of the output",
        ),
        ("`sim config`, `runs rm`, `runs prune`", "as the user may"),
    ],
    network: Sockets::Open,
    tracing: false,
    programs: false,
    filter: true,
    capabilities: FILES,
};

/// It has measured, and names what it met: functions of the kernel, which need `CAP_SYSLOG`, and threads.
pub static CONCLUSION: Right = Right {
    who: &[
        (
            "`chase`, `noise`, `sink` when they have measured",
            "reads `/proc` and `/sys`; reads and writes the run",
        ),
        ("`sync` when the program has ended", "reads all files; writes the run"),
    ],
    network: Sockets::Open,
    tracing: false,
    programs: false,
    filter: true,
    capabilities: FILES.union(CapabilitySet::SYSLOG),
};

/// It asks DuckDB about runs that are here.
pub static QUERY: Right = Right {
    who: &[("`query`, and DuckDB below it", "as the user may")],
    network: Sockets::Open,
    tracing: false,
    programs: true,
    filter: true,
    capabilities: FILES,
};

/// It asks DuckDB about runs that are elsewhere.
pub static S3_QUERY: Right = Right {
    who: &[("`query` of a place in S3, and DuckDB below it", "as the user may")],
    network: Sockets::Any,
    tracing: false,
    programs: true,
    filter: true,
    capabilities: FILES,
};

const ALL: [&Right; 13] = [
    &SERVER,
    &SENDER,
    &MEASURING,
    &OBSERVER,
    &WATCH,
    &ANSWERS,
    &NOTIFIER,
    &CAPTURE_WRITER,
    &SYMBOLS,
    &READER,
    &CONCLUSION,
    &QUERY,
    &S3_QUERY,
];

impl Right {
    /// Confines the calling thread, and those that it starts later, to this and to `files` (none: all that the user may use).
    pub fn keep(&self, files: Option<Files<'_>>) -> Confined {
        self.keep_ports(files, &[])
    }

    /// The same for a server, which has these ports.
    pub fn keep_ports(&self, files: Option<Files<'_>>, ports: &[u16]) -> Confined {
        let network = match self.network {
            Sockets::Open => Network::Nothing,
            // A port that is yet unknown cannot be named.
            Sockets::Served if !ports.is_empty() => Network::Serves(ports),
            Sockets::Served | Sockets::Any => Network::Free,
        };
        let Self { tracing, programs, filter, capabilities, .. } = *self;
        confine(&Confinement { files, network, tracing, programs, filter, capabilities })
    }
}

/// The table, as SECURITY.md has it.
pub fn table() -> String {
    let head = "| process or thread | files | new sockets | also | capabilities |\n|---|---|---|---|---|\n";
    let mut table = head.to_owned();
    for right in ALL {
        let network = match right.network {
            Sockets::Open => "none",
            Sockets::Served => "no TCP connection of its own, no other TCP port",
            Sockets::Any => "as the user may",
        };
        let also = [
            (right.tracing, "BPF, performance counters"),
            (right.programs, "starts programs"),
            (!right.filter, "no filter of system calls: it would be part of what they measure"),
        ];
        let also = also.iter().filter(|(keeps, _)| *keeps).map(|(_, words)| *words);
        let also = Vec::from_iter(also).join("; ");
        let kept = right.capabilities.iter_names().map(|(name, _)| name);
        let kept = Vec::from_iter(kept).join(", ");
        let kept = if kept.is_empty() { "none" } else { &kept };
        for (who, files) in right.who {
            table.push_str(&format!("| {who} | {files} | {network} | {also} | {kept} |\n"));
        }
    }
    table
}
