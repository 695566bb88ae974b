//! The path: what an application with a steady stream of packets would see between two hosts.
//!
//! A server waits for clients; a client measures to a server. Both speak Jitlat as its document has it, and
//! Quaver's extension of it (`docs/protocol.md`). The control connection and all decisions are here; test
//! packets are in [`quaver_path_flow`].

pub mod auth;
mod below;
mod client;
mod clocks;
mod control;
mod dial;
mod drive;
mod error;
mod event;
mod figures;
mod hosts;
mod limits;
mod message;
mod options;
mod outcome;
pub mod owamp;
mod room;
mod sending;
mod server;
mod source;
pub mod stamp;

pub use client::{RemoteSource, SourceClient, request_source, run_client};
pub use clocks::{ClockEstimate, ClockPair, ClockStep, STEP_LEAST_NS};
pub use error::PathError;
pub use event::{Progress, ServerEvent};
pub use figures::{ServerFigures, Shown};
pub use hosts::Side;
pub use limits::{Budget, LegacyLimits, Limits};
pub use options::{ClientOptions, Directions, ServerOptions};
pub use outcome::{Completion, FlowOutcome, HostClocks, Moved, Protocol, TestOutcome};
pub use server::serve;
pub use source::{ShapeError, SourceRequest, SourceSummary, StreamShape};

#[cfg(test)]
mod tests;
