//! Cutting a stream into records of equal length.

use super::socket::TestSocket;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::os::fd::AsFd;

/// Room for what is read at once, bytes.
const ROOM_BYTES: usize = 256 << 10;

/// Bytes of a stream, and the records in them.
pub(super) struct Records {
    room: Vec<u8>,
    record_bytes: usize,
    /// What has been read and not been given out.
    start: usize,
    end: usize,
}

impl Records {
    /// For records of so many bytes, at least 1.
    pub(super) fn new(record_bytes: usize) -> Self {
        let record_bytes = record_bytes.max(1);
        Self { room: vec![0; ROOM_BYTES.max(2 * record_bytes)], record_bytes, start: 0, end: 0 }
    }

    /// Reads what is there, without waiting; 0 at the end of the stream.
    pub(super) fn read(&mut self, socket: &TestSocket) -> Result<usize, Errno> {
        let room = self.make_room();
        let (_, octets) = recv(socket.as_fd(), &mut *room, RecvFlags::DONTWAIT)?;
        self.end += octets;
        Ok(octets)
    }

    /// Where to read to; not empty once all whole records were given out.
    fn make_room(&mut self) -> &mut [u8] {
        self.room.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.room[self.end..]
    }

    /// The next whole record.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        if self.end - self.start < self.record_bytes {
            return None;
        }
        let record = &self.room[self.start..self.start + self.record_bytes];
        self.start += self.record_bytes;
        Some(record)
    }

    #[cfg(test)]
    fn feed(&mut self, octets: &[u8]) {
        self.make_room()[..octets.len()].copy_from_slice(octets);
        self.end += octets.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_whole_whatever_the_chunks() {
        for record_bytes in [1, 12, 80, 1_000] {
            for chunk_bytes in [1, 7, 79, 80, 81, 999, 4_096] {
                let stream: Vec<u8> = (0..record_bytes * 50 + 3).map(|at| (at * 31 % 251) as u8).collect();
                let (mut records, mut joined) = (Records::new(record_bytes), Vec::new());
                for chunk in stream.chunks(chunk_bytes) {
                    records.feed(chunk);
                    while let Some(record) = records.next() {
                        assert_eq!(record.len(), record_bytes);
                        joined.extend_from_slice(record);
                    }
                }
                let whole = stream.len() / record_bytes * record_bytes;
                assert_eq!(joined, stream[..whole], "records of {record_bytes}, chunks of {chunk_bytes}");
            }
        }
    }
}
