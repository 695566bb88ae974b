//! The two ways between the hosts of a test.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which way the packets of a flow go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the client to the server (SENDING).
    Up,
    /// From the server to the client (SEND_ME).
    Down,
}

impl Direction {
    /// Name on pages and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}
