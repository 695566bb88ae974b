//! What every instrument is made of: command-line parts, recording, exit statuses, results.

pub mod args;
pub mod bins;
pub mod causes;
pub mod cpu_watch;
pub mod deliver;
pub mod exit_code;
pub mod facts;
pub mod head;
pub mod host_state;
pub mod interrupt;
pub mod marks;
pub mod names;
pub mod percentiles;
pub mod pieces;
pub mod program;
pub mod progress;
pub mod quantity;
pub mod recording;
pub mod registry;
pub mod results;
pub mod rtp;
pub mod runs;
pub mod stored;
pub mod terminal;
pub mod threshold;
pub mod tier;
