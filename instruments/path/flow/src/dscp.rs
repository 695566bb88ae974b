//! What became of the DSCP of packets on their way: a router may clear or rewrite it (RFC 2475, section 2.3.2).

/// Packets that came with another DSCP than they were sent with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DscpChanges {
    /// How many.
    pub packets: u64,
    /// DSCP of the last of them.
    pub last: u8,
}

impl DscpChanges {
    /// Takes the DSCPs of a packet: as sent, and as it came. Where one is not known nothing changed.
    #[inline]
    pub fn take(&mut self, sent: Option<u8>, came: Option<u8>) {
        let Some((_, last)) = sent.zip(came).filter(|(sent, came)| sent != came) else { return };
        (self.packets, self.last) = (self.packets + 1, last);
    }
}
