//! Jitter and its cure on the running machine: injection, units, frames and the DVFS controllers, by the machine's hooks.
//!
//! ```text
//! machine ── events, in the order of time ──> translate: what the thread library would tell
//!    ▲                                           │            │
//!    │ kernel activity, standing still           ▼            ▼
//!    ├───────────── injection: by class ◄─── a call ends    units ── lost time of each thread
//!    │                                                        │
//!    └── frequency, PLL ◄── controller of the thread ◄── its subframe ends
//! ```

mod activity;
mod boost;
mod budget;
mod config;
mod debt;
mod events;
mod hooks;
mod library;
mod results;
mod subframe;
mod text;
mod threads;
mod translate;

pub use crate::cure_cache::{CacheKind, CureCache};
pub use activity::{ActivityCounts, Refills};
pub use budget::{BoostConfig, BoostRule};
pub use config::{CureConfig, Evictions};
pub use hooks::Cure;
pub use library::Library;
pub use results::{CoreResidency, CureResults, InjectedCounts, SubframeRecord};
pub use text::{COMMENTED_CURE, CureError};
