//! Sending a flow.
use super::{FlowError, FlowSpec, SendReport, TestSocket};
use std::sync::atomic::AtomicBool;

/// Sends the whole flow.
pub fn send_flow(
    _socket: &TestSocket,
    _spec: &FlowSpec,
    _acknowledged: &AtomicBool,
    _stop: &AtomicBool,
) -> Result<SendReport, FlowError> {
    Err(FlowError::Schedule("not written yet"))
}
