//! The instruments of the packet and noise measurements, and the threads that they measure on.

pub mod thread;
