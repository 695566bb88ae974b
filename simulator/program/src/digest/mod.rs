//! What a simulation comes to: figures, threads over time, jitter and its cure.

mod cure;
mod facts;
mod figures;
mod lanes;
mod machine;
mod recorded;
mod summary;
mod timeline;

pub use cure::{
    ClassFigures, CureRuns, CureSummary, OneRun, PointFigures, PowerFigures, RefillFigures, SeedFigures,
    SeedRuns, TIMER, TimeSlice, UnitFigures,
};
pub use facts::{SimFacts, SimSpeed};
pub(crate) use facts::{facts_of, speed_of};
pub(crate) use figures::{running_fs, summarize};
pub use lanes::{SLICES, SimLane, SimLanes};
pub use machine::{Difference, differences, words as machine_words};
pub use recorded::{RecordedClass, RecordedFigures};
pub use summary::{
    ChipFigures, CoreFigures, LevelFigures, PARTS, PathFigures, PathThread, RUNNING_PARTS, SCHEMA,
    SimSummary, ThreadFigures, TimePart, TrafficFigures, WAITS,
};
pub(crate) use timeline::keep;
