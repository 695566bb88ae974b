//! The alternatives that the paper tried (its appendix F): bring lines back before a switch, or pin lines of the level that
//! runs. Each is a second level of one core, kept beside the plain one so that their misses can be compared.

mod buffer;
mod level;
mod predictor;

pub use buffer::{PrefetchConfig, PrefetchCounts, Prefetching};
pub use level::{Level, LevelLine, Privilege};
pub use predictor::DurationPredictor;
