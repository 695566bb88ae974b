//! Stub to be written by the profiles slice.
