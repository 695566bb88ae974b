//! `quaver capture`, the real program, in namespaces that the tests make.

mod accounts;
mod clsact;
mod ends;
mod fanout;
mod files;
mod immediate;
mod order;
mod raw;
mod softirq;
mod support;
mod veth;
