//! Replies octet by octet, and sessions over loopback.

mod reply;
mod session;
