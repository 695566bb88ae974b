//! Receiving a flow.
use super::{FlowError, FlowSpec, ReceiveReport, Received, TestSocket};
use std::sync::atomic::AtomicBool;

/// Receives the whole flow.
pub fn receive_flow(
    _socket: &TestSocket,
    _spec: &FlowSpec,
    _on_packets: &mut dyn FnMut(&[Received]),
    _stop: &AtomicBool,
) -> Result<ReceiveReport, FlowError> {
    Err(FlowError::Schedule("not written yet"))
}
