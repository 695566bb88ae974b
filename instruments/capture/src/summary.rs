//! What is said of a capture.

use quaver_capture_analysis::flows::CaptureFigures;
use serde::Serialize;

/// What `quaver analyze` says of a capture, as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct CaptureSummary {
    /// Version of this shape.
    pub schema: &'static str,
    /// Name of the file.
    pub file: String,
    /// `pcapng`, `pcap, microseconds`, `pcap, nanoseconds` or `snoop`.
    pub format: &'static str,
    /// `gzip` or `zstd`, where the file is compressed.
    pub compression: Option<&'static str>,
    /// The file was read to its end.
    pub complete: bool,
    /// Program that captured.
    pub application: Option<String>,
    /// Machine that it ran on.
    pub hardware: Option<String>,
    /// Its operating system.
    pub os: Option<String>,
    /// Comment of the file.
    pub comment: Option<String>,
    /// Interfaces in the order of the file.
    pub interfaces: Vec<InterfaceSummary>,
    /// Where the times of the figures were taken: a layer's name, or that of the file's own time.
    pub layer: &'static str,
    /// Figures.
    #[serde(flatten)]
    pub figures: CaptureFigures,
    /// What the reader should know before believing the numbers.
    pub warnings: Vec<String>,
}

/// One interface, and what became of its packets.
#[derive(Clone, Debug, Serialize)]
pub struct InterfaceSummary {
    /// Name.
    pub name: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// LINKTYPE of its frames.
    pub link_type: u16,
    /// Frames of that type can be decoded.
    pub decoded: bool,
    /// Most bytes kept of a packet; 0 is no limit.
    pub snap_length: u32,
    /// Filter that packets had to pass.
    pub filter: Option<String>,
    /// What the last digit of its times is, nanoseconds.
    pub resolution_ns: u64,
    /// Packets in the file.
    pub in_file: u64,
    /// Packets in the file of which less was kept than was on the wire.
    pub cut: u64,
    /// Packets that were dropped before one that is in the file, as packets tell.
    pub dropped_before_packets: Option<u64>,
    /// Packets that it received.
    pub received: Option<u64>,
    /// Packets that it dropped.
    pub dropped_by_interface: Option<u64>,
    /// Packets that passed the filter.
    pub accepted_by_filter: Option<u64>,
    /// Packets that the system dropped after the filter.
    pub dropped_by_os: Option<u64>,
    /// Packets that came to the capturing program.
    pub delivered: Option<u64>,
    /// Comment of its counts.
    pub comment: Option<String>,
    /// Facts of the run that captured.
    pub run_facts: Option<serde_json::Value>,
}

impl InterfaceSummary {
    /// Packets known to be dropped while capturing.
    pub fn dropped(&self) -> u64 {
        let counted = self.dropped_by_interface.unwrap_or(0).saturating_add(self.dropped_by_os.unwrap_or(0));
        counted.max(self.dropped_before_packets.unwrap_or(0))
    }
}
