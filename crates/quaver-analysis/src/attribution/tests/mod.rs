//! Scenarios with exact nanoseconds, and the brute-force twin.
