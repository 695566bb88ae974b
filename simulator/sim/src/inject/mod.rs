//! Jitter to inject: when, for how long, and what the kernel does meanwhile (the paper's appendix D).

pub mod duration;
pub mod epochs;
mod plan;
mod recording;

pub use duration::Duration;
pub use epochs::{BUNDLED, Epoch, EpochSteps, Epochs, KernelData, Owner, bundled, loaded};
pub use plan::{Draw, Injection, InjectionConfig, Occasion, RecordedDraws, Spread, TimerConfig};
pub use recording::{JointCounts, Recording, RecordingBuilder, RecordingFacts};
