//! The protocol on histories whose answer is known.

mod causes;
mod handlers;
pub(super) mod histories;
mod lives;
mod matching;
pub(super) mod scene;
