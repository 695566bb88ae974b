//! What every instrument is made of: command-line parts, recording, exit statuses, results.

pub mod args;
pub mod causes;
pub mod cpu_watch;
pub mod deliver;
pub mod digest;
pub mod exit_code;
pub mod head;
pub mod host_state;
pub mod interrupt;
pub mod pieces;
pub mod progress;
pub mod quantity;
pub mod recording;
pub mod registry;
pub mod results;
pub mod rtp;
pub mod runs;
pub mod terminal;
pub mod threshold;
pub mod tier;
