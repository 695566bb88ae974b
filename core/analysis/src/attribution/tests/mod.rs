//! Scenarios with exact nanoseconds, conservation, and the brute-force twin.

mod conservation;
mod crowd;
mod episodes;
mod interruptions;
mod names;
mod noise;
mod pace;
mod rules;
mod scene;
mod settling;
mod stream;
mod threads;
mod twin;
