//! The protocol on histories whose answer is known.

mod causes;
mod handlers;
mod histories;
mod lives;
mod matching;
mod scene;
