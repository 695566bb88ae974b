//! `quaver capture`, the real program, in namespaces that the tests make.

mod files;
mod support;
mod veth;
