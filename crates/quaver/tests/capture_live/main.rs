//! `quaver capture`, the real program, in namespaces that the tests make.

mod ends;
mod files;
mod softirq;
mod support;
mod veth;
