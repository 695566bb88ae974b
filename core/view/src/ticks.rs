//! Where axes have their lines, and what is written there.
