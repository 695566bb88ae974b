//! Scenarios with exact nanoseconds, conservation, and the brute-force twin.

mod asleep;
mod conservation;
mod crowd;
mod episodes;
mod faults;
mod grid;
mod interruptions;
mod names;
mod noise;
mod own;
mod pace;
mod rules;
mod scene;
mod service;
mod settling;
mod steal;
mod stream;
mod threads;
mod twin;
