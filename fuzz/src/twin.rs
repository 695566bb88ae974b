//! A capture, read by us and by another library (pcap-file): where both take the whole of it, both have the same packets.

use crate::captures;
use pcap_file::pcapng::{Block, PcapNgReader};

/// Bytes of each packet as the other library has them; none where it refuses the file.
fn others(octets: &[u8]) -> Option<Vec<(usize, usize)>> {
    let mut reader = PcapNgReader::new(octets).ok()?;
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.ok()? {
            Block::EnhancedPacket(packet) => packets.push((packet.interface_id as usize, packet.data.len())),
            // Of simple packets it takes the padding for data; early packets and further sections it reads otherwise.
            Block::SimplePacket(_) | Block::Packet(_) | Block::SectionHeader(_) => return None,
            _ => {}
        }
    }
    Some(packets)
}

/// Both read the same.
pub fn twin(octets: &[u8]) {
    let ours = captures::read(octets);
    if !ours.whole || ours.error.is_some() || !ours.cautions.is_empty() {
        return;
    }
    if let Some(theirs) = others(octets) {
        let ours: Vec<_> = ours.packets.iter().map(|packet| (packet.0, packet.2)).collect();
        assert_eq!(ours, theirs);
    }
}
