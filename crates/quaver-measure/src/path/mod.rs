//! The path between two hosts: control connection, flows of test packets.

pub mod flow;
