//! Replies byte by byte, and sessions over loopback.

mod reply;
mod session;
