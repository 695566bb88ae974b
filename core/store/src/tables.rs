//! Which tables runs have, of whatever kind they are.

use crate::table::Table;
use crate::{events, gaps, late, packets, waits};

/// Tables of runs of any kind.
pub static TABLES: [&Table; 5] = [&packets::TABLE, &events::TABLE, &late::TABLE, &gaps::TABLE, &waits::TABLE];
