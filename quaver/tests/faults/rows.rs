//! What was tried: faults that this program makes itself, and commands under each.

use super::row::{How, Keeps, Row};
use rustix::process::Resource;

/// A fault, and the commands that were tried under it.
pub(crate) struct Tried {
    pub(crate) fault: &'static str,
    /// How it is made, as a sentence.
    pub(crate) made: &'static str,
    pub(crate) rows: &'static [Row],
}

const CHASE: &str = "chase --for 100ms --period 1ms --pace sleep --receive block --lab loopback --tier user --no-cost -q -o out";
const NOISE: &str = "noise --for 100ms --tier user -q -o out";
const PROBE: &str = "probe {server} --for 100ms -q -o out";
const SOURCE: &str = "source 127.0.0.1:9 --period 1ms --count 20 --pace sleep";
const SINK: &str = "sink 127.0.0.1:0 --for 100ms -q -o out";
const SYNC: &str = "sync -o out -- sleep 0.1";
const CAPTURE: &str = "capture -i lo -o out --for 100ms";

/// A row without an error: nothing has to be said.
const fn fine(words: &'static str, how: How, keeps: Keeps) -> Row {
    Row { words, how, status: 0, says: "", keeps }
}

const fn ends(status: i32, words: &'static str, how: How, says: &'static str, keeps: Keeps) -> Row {
    Row { words, how, status, says, keeps }
}

use Keeps::{CutShort, File, Nothing, Run};

const FULL: How = How::Full(1);
const ELSEWHERE: &str = "choose another place with -o";
const FREE: &str = "free some";
const THREADS: How = How::Refused(&[libc::SYS_clone, libc::SYS_clone3], libc::EAGAIN);
const MORE_THREADS: &str = "raise the limit of ";
const LIMITS: How = How::Refused(&[libc::SYS_prlimit64, libc::SYS_getrlimit], libc::EPERM);
const FIVE_FILES: How = How::Limit(Resource::Nofile, 5);
const MORE_FILES: &str = "raise the limit of open files (ulimit -n)";
const SOCKETS: How = How::Refused(&[libc::SYS_socket], libc::EACCES);
const TRACING: How = How::Refused(
    &[libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_mount, libc::SYS_unshare, libc::SYS_setns],
    libc::EPERM,
);
const SCHEDULING: How = How::Refused(
    &[libc::SYS_sched_setaffinity, libc::SYS_sched_setscheduler, libc::SYS_mlockall, libc::SYS_setpriority],
    libc::EPERM,
);
const CLOCKS: How = How::Refused(&[libc::SYS_adjtimex, libc::SYS_clock_adjtime], libc::EPERM);
const STRANGE: How = How::Environment(&[
    ("LC_ALL", "tr_TR.ISO-8859-9"),
    ("LANG", "xx"),
    ("TZ", ":/nonsense/zone"),
    ("COLUMNS", "abc"),
    ("TERM", "nonsense"),
]);
const FORBIDS: &str = "forbids";

pub(crate) const TRIED: &[Tried] = &[
    Tried {
        fault: "disk full",
        made: "Everything that writes below the command's directory fails with ENOSPC, from the first call on.",
        rows: &[
            ends(6, CHASE, FULL, FREE, Nothing),
            ends(6, NOISE, FULL, FREE, Nothing),
            ends(6, PROBE, FULL, FREE, Nothing),
            ends(0, SYNC, FULL, "sleep runs unrecorded", Nothing),
            ends(6, CAPTURE, FULL, FREE, Nothing),
            ends(6, "analyze {run}", FULL, FREE, Nothing),
            ends(6, "report {run} -o out", FULL, ELSEWHERE, Nothing),
            ends(6, "export {run} --perfetto -o out", FULL, ELSEWHERE, Nothing),
            ends(6, "scrub {run} -o out", FULL, "name another place", Nothing),
            ends(6, "compare {run} {run} --html out", FULL, ELSEWHERE, Nothing),
            ends(6, "runs html --root . -o out", FULL, ELSEWHERE, Nothing),
            ends(6, "runs tag {run} good", FULL, FREE, Nothing),
            ends(6, "man -o out", FULL, FREE, Nothing),
        ],
    },
    Tried {
        fault: "read-only place",
        made: "Everything that writes below the command's directory fails with EROFS.",
        rows: &[
            ends(6, CHASE, How::ReadOnly, "put the run elsewhere", Nothing),
            ends(6, NOISE, How::ReadOnly, "put the run elsewhere", Nothing),
            ends(6, PROBE, How::ReadOnly, "put the run elsewhere", Nothing),
            ends(0, SYNC, How::ReadOnly, "sleep runs unrecorded", Nothing),
            ends(6, CAPTURE, How::ReadOnly, "choose another place", Nothing),
            ends(0, "analyze {run}", How::ReadOnly, "not stored", Nothing),
            ends(6, "report {run}", How::ReadOnly, "choose another place with -o", Nothing),
            ends(6, "export {run} --perfetto", How::ReadOnly, "choose another place with -o", Nothing),
            ends(6, "scrub {run} -o out", How::ReadOnly, "name another place", Nothing),
            ends(6, "runs tag {run} good", How::ReadOnly, "put the run elsewhere", Nothing),
            fine("compare {run} {run}", How::ReadOnly, Nothing),
            fine("runs --root .", How::ReadOnly, Nothing),
        ],
    },
    Tried {
        fault: "killed",
        made: "SIGKILL in place of the call of that number of those that write below the command's directory.",
        rows: &[
            ends(137, CHASE, How::Killed(12), "", CutShort),
            ends(137, NOISE, How::Killed(12), "", CutShort),
            ends(137, PROBE, How::Killed(6), "", CutShort),
            ends(137, SYNC, How::Killed(6), "", CutShort),
        ],
    },
    Tried {
        fault: "out of descriptors",
        made: "The process may have five open files (RLIMIT_NOFILE).",
        rows: &[
            ends(6, CHASE, FIVE_FILES, MORE_FILES, Nothing),
            ends(6, NOISE, FIVE_FILES, MORE_FILES, Nothing),
            ends(6, PROBE, FIVE_FILES, MORE_FILES, Nothing),
            ends(6, SOURCE, FIVE_FILES, MORE_FILES, Nothing),
            ends(6, CAPTURE, FIVE_FILES, MORE_FILES, Nothing),
            ends(6, "sync -- sleep 0.1", FIVE_FILES, MORE_FILES, Nothing),
            ends(6, "analyze {run}", FIVE_FILES, MORE_FILES, Nothing),
            ends(6, "report {run}", FIVE_FILES, MORE_FILES, Nothing),
            ends(6, "compare {run} {run}", FIVE_FILES, MORE_FILES, Nothing),
            ends(6, "scrub {run} -o out", FIVE_FILES, MORE_FILES, Nothing),
            fine("doctor", FIVE_FILES, Nothing),
            fine("tune audit --no-watch", FIVE_FILES, Nothing),
        ],
    },
    Tried {
        fault: "memory limit",
        made: "The process may have 180 MB of address space (RLIMIT_AS).",
        rows: &[
            ends(
                6,
                "capture -i lo -o out --for 100ms --buffer 200MiB",
                How::Limit(Resource::As, 180_000_000),
                "raise the limit of memory",
                Nothing,
            ),
            // There is room for the ring or for the records of layers, and whichever comes second finds none.
            ends(
                6,
                "capture -i lo -o out --for 100ms --buffer 70MiB",
                How::Limit(Resource::As, 180_000_000),
                "raise the limit of memory",
                Nothing,
            ),
            fine("analyze {run}", How::Limit(Resource::As, 180_000_000), Nothing),
        ],
    },
    Tried {
        fault: "no more threads",
        made: "No thread or process can be made: clone fails with EAGAIN, as by pids.max.",
        rows: &[
            ends(6, CHASE, THREADS, MORE_THREADS, CutShort),
            ends(6, NOISE, THREADS, MORE_THREADS, CutShort),
            ends(6, PROBE, THREADS, MORE_THREADS, Nothing),
            ends(6, "probe {server} --at-once --for 100ms -q -o out", THREADS, MORE_THREADS, Nothing),
            ends(6, SOURCE, THREADS, MORE_THREADS, Nothing),
            ends(6, SYNC, THREADS, MORE_THREADS, Nothing),
            ends(6, CAPTURE, THREADS, MORE_THREADS, Nothing),
            fine("doctor", THREADS, Nothing),
            fine("analyze {run}", THREADS, Nothing),
        ],
    },
    Tried {
        fault: "denied by a security module",
        made: "System calls fail with EPERM or EACCES, also for root. They are those of sockets; of BPF, perf, mounts and \
               namespaces; of scheduling and locked memory; of limits; and of the clock's state.",
        rows: &[
            ends(3, CHASE, SOCKETS, "not permitted; run as root", CutShort),
            ends(3, PROBE, SOCKETS, "see the firewall of this host", Nothing),
            ends(3, SOURCE, SOCKETS, "not permitted; run as root", Nothing),
            ends(3, CAPTURE, SOCKETS, "sudo setcap", Nothing),
            fine("doctor", SOCKETS, Nothing),
            fine("extcap --extcap-interfaces", SOCKETS, Nothing),
            fine(
                "chase --for 100ms --period 1ms --pace sleep --receive block --no-cost -q -o out",
                TRACING,
                Run,
            ),
            fine("noise --for 100ms -q -o out", TRACING, Run),
            fine(SYNC, TRACING, Run),
            fine(CAPTURE, TRACING, File),
            fine("doctor", TRACING, Nothing),
            ends(
                3,
                "runs --root .",
                How::Refused(&[libc::SYS_getdents64], libc::EACCES),
                "check who owns it",
                Nothing,
            ),
            ends(3, CHASE, SCHEDULING, FORBIDS, Nothing),
            ends(3, NOISE, SCHEDULING, FORBIDS, Nothing),
            ends(3, SOURCE, SCHEDULING, FORBIDS, Nothing),
            fine(SYNC, SCHEDULING, Run),
            fine(CHASE, LIMITS, Run),
            fine(NOISE, LIMITS, Run),
            fine(SOURCE, LIMITS, Nothing),
            fine(SYNC, LIMITS, Run),
            fine(CAPTURE, LIMITS, File),
            fine(NOISE, CLOCKS, Run),
            fine(CAPTURE, CLOCKS, File),
        ],
    },
    Tried {
        fault: "stdin, stdout or stderr closed",
        made: "The descriptor is closed before the program starts. The runtime opens /dev/null in its place.",
        rows: &[
            fine(NOISE, How::Closed(0), Run),
            fine(NOISE, How::Closed(1), Run),
            fine(NOISE, How::Closed(2), Run),
            fine(SYNC, How::Closed(0), Run),
            fine(SYNC, How::Closed(1), Run),
            fine(CAPTURE, How::Closed(2), File),
            fine("analyze {run}", How::Closed(1), Nothing),
            fine("doctor", How::Closed(2), Nothing),
        ],
    },
    Tried {
        fault: "locale and time zone",
        made: "The locale, the time zone, the terminal and its width are nonsense; there is no HOME and no USER.",
        rows: &[
            fine(NOISE, STRANGE, Run),
            fine(SYNC, STRANGE, Run),
            fine("analyze {run}", STRANGE, Nothing),
            fine("runs --root .", STRANGE, Nothing),
            fine("doctor", STRANGE, Nothing),
        ],
    },
    Tried {
        fault: "peer gone",
        made: "The peer was never there, or falls silent.",
        rows: &[
            ends(
                4,
                "probe 127.0.0.1 --port 9 --for 100ms -q -o out",
                How::Environment(&[]),
                "start `quaver serve` there",
                Nothing,
            ),
            ends(4, SINK, How::Environment(&[]), "see whether it is sent", Nothing),
            ends(4, "jitlat 127.0.0.1 --control-port 9", How::Environment(&[]), "", Nothing),
            ends(
                4,
                "top --socket nowhere.sock",
                How::Environment(&[]),
                "start `quaver watch --config FILE`",
                Nothing,
            ),
            ends(
                4,
                "watch status --socket nowhere.sock",
                How::Environment(&[]),
                "start `quaver watch --config FILE`",
                Nothing,
            ),
            ends(
                4,
                "chase --from 127.0.0.1:9 --for 100ms -q -o out",
                How::Environment(&[]),
                "start `quaver serve` there",
                Nothing,
            ),
        ],
    },
];
