//! The plugin that QEMU loads to trace a program: which blocks of instructions each thread ran, where they read and wrote, and
//! how the threads waited for each other; or to trace what the kernel of a system does. Never linked into the tool.
//!
//! ```text
//! QEMU, a host thread for each thread of the program
//!   translation  ──> translate: blocks decoded once, numbered
//!   execution    ──> threads: a buffer each, no lock          ──> frames, packed where they were filled ──> one writer
//!   system call  ──> marks: what the recorder says of calls   ──> sync: who woke whom, under one lock
//! ```
//!
//! What holds:
//! - A callback never panics. What cannot be written ends the trace, with a sentence in the control directory; never the program.
//! - Only the host thread that runs a thread of the program touches its buffer, unless that thread is inside a system call and
//!   was taken over for good ([`threads::Slot`]).
//! - What the recorder itself runs, and what the thread library runs between two marks of it, is no part of the trace.
//!
//! | module | what |
//! |---|---|
//! | `api` | what QEMU gives to plugins |
//! | `accesses` | accesses as QEMU tells them, and as a trace has them |
//! | `translate` | blocks, as they are translated |
//! | `thread` | a thread of the program: its steps that are not written yet |
//! | `threads` | the threads that are alive, and who may touch which |
//! | `marks` | steps of synchronisation, from marks |
//! | `sync` | which signal ended which wait |
//! | `output` | the file, progress, and the request to stop |
//! | `callbacks` | what QEMU calls |
//! | `system` | a system's kernel: its activity from each entry to the exit |
#![cfg(unix)]

mod accesses;
mod api;
mod callbacks;
mod marks;
mod output;
mod pace;
mod sync;
mod system;
mod thread;
mod threads;
mod translate;
