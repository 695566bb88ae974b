//! Scenarios with exact nanoseconds, conservation, and the brute-force twin.

mod conservation;
mod crowd;
mod interruptions;
mod noise;
mod scene;
mod stream;
mod threads;
mod twin;
