//! Figures for Prometheus: families of metrics as OpenMetrics text or protobuf, and the HTTP that serves them.
//!
//! Whoever counts builds [`Family`] values when it is asked, and [`listen_at`] serves them to whoever has [`Access`].

mod access;
mod families;
pub mod histogram;
mod http;
mod openmetrics;
mod process;
mod protobuf;

pub use access::{Access, AccessSettings};
pub use families::{Buckets, Family, Kind, Labels, Rows, Sample, Value, seconds};
pub use http::{Answer, Answers, Request, exchange, listen_at, listen_on, only_metrics, scrape};
pub use openmetrics::page as text_page;
pub use process::{ProcessCost, ProcessMeter};
