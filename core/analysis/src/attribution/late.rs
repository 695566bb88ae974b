//! Packets that reached the application late.

/// One late packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatePacket {
    /// Row in the packet table; none for a packet that was not read by the end of the run.
    pub row: Option<u32>,
    /// Sequence number.
    pub seq: u64,
    /// First instant of its late window, CLOCK_MONOTONIC.
    pub start_ns: i64,
    /// First instant after it: the application stamp (or the start, for an empty window), or the end of the run.
    pub end_ns: i64,
    /// Application stamp, or the end of the run, minus expected instant, nanoseconds.
    pub lateness_ns: i64,
    /// Leading cause, as index in the summary's causes; none is unexplained.
    pub cause: Option<u32>,
    /// Its first piece in [`PacketAnalysis::pieces`].
    pub first_piece: u32,
    /// One after its last piece.
    pub end_piece: u32,
}

impl LatePacket {
    /// Its row as an index.
    pub fn row(&self) -> Option<usize> {
        self.row.map(|row| row as usize)
    }
}
