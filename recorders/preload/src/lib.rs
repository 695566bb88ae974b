//! The recorder of synchronisation: a shared object that is loaded before a program's own libraries
//! (`LD_PRELOAD`), takes the place of the thread library's calls, and writes an event at the entry and the return
//! of each into a mapped segment ([`quaver_abi::sync`]). Never linked into the tool.
//!
//! What holds in every hook:
//! - It never panics, allocates, locks, or prints; it calls the kernel only when a thread needs another chunk.
//! - It keeps `errno`, may be interrupted by a signal handler that calls hooks itself, and may be left by
//!   cancellation.
//! - It touches a lock only before the real unlock: afterwards somebody else may have freed it.
//!
//! | module | what |
//! |---|---|
//! | `exports` | the symbols, each passing on where it was called from |
//! | `hooks` | what is recorded around each call |
//! | `handoffs` | what a creator hands over to the thread that it makes |
//! | `real` | the thread library's own functions |
//! | `ring` | a thread's ring: where a record goes |
//! | `segment` | the file: made, grown by chunks, ended |
//! | `shared` | objects of several processes |
//! | `shared_pages` | spin locks of several processes |
//! | `start` | whether, when and under which name recording begins |
//! | `image` | constructor, destructor and the child of a fork |
//! | `code` | which addresses are code, for stacks |
//! | `known_stacks` | stacks that a thread has written |
//! | `stack` | who called the caller, of calls that waited |
//! | `generated` | code that Java makes, for stacks |
//! | `waiters` | who waits for what, for unlocks that must be recorded |
//! | `marks` | the same calls told to a tracer instead, where one runs the program in an emulator |
//! | `arch` | counters, thread-local storage, instructions |
//!
//! Without `QUAVER_SYNC_DIR` in its environment a program runs unrecorded, at the cost of one load and two jumps a
//! call.
#![cfg(target_os = "linux")]
#![cfg_attr(
    not(all(target_arch = "x86_64", target_env = "gnu")),
    allow(dead_code, reason = "no stack is kept there")
)]

mod arch;
mod code;
mod exports;
mod generated;
mod handoffs;
mod hooks;
mod image;
mod known_stacks;
mod latest;
mod marks;
mod real;
mod ring;
mod samples;
mod segment;
mod shared;
mod shared_pages;
mod stack;
mod start;
mod system;
mod waiters;
