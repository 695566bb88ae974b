//! Ground truth for the instruments: interference of a known kind, injected on purpose. Never shipped.

pub mod inject;
pub mod kept;
pub mod phase;
pub mod ports;
pub mod printed;
pub mod privileged;
pub mod refusal;
pub mod relay;
pub mod schema;
pub mod stand_in;
pub mod sync_oracle;
pub mod terminal;
pub mod tun;
