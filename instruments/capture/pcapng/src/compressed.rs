//! Captures that were compressed as a whole: gzip and zstd, as Wireshark writes and reads them.

use flate2::read::MultiGzDecoder;
use std::io::{self, Chain, Cursor, Read};

const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Of a frame of zstd, little-endian 0xfd2fb528 (RFC 8878).
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Most memory that a frame may ask for is 2 to this power, bytes: what zstd itself takes without being asked.
const MOST_WINDOW_LOG2: u32 = 27;

/// A source with the bytes that were read of it to see what it is.
type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

/// A file as it is, or what was compressed.
pub struct Uncompressed<R: Read>(Way<R>);

enum Way<R: Read> {
    Plain(Whole<R>),
    Gzip(Box<MultiGzDecoder<Whole<R>>>),
    Zstd(zstd::Decoder<'static, io::BufReader<Whole<R>>>),
}

impl<R: Read> Uncompressed<R> {
    /// Sees what a file is by its first bytes.
    ///
    /// # Errors
    /// The system cannot read it.
    pub fn new(mut source: R) -> io::Result<Self> {
        let mut first = Vec::new();
        source.by_ref().take(ZSTD.len() as u64).read_to_end(&mut first)?;
        let (gzip, zstd) = (first.starts_with(&GZIP), first == ZSTD);
        let whole = Cursor::new(first).chain(source);
        if gzip {
            return Ok(Self(Way::Gzip(Box::new(MultiGzDecoder::new(whole)))));
        }
        if zstd {
            let mut decoder = zstd::Decoder::new(whole)?;
            decoder.window_log_max(MOST_WINDOW_LOG2)?;
            return Ok(Self(Way::Zstd(decoder)));
        }
        Ok(Self(Way::Plain(whole)))
    }

    /// How it was compressed, if it was.
    pub fn compression(&self) -> Option<&'static str> {
        match self.0 {
            Way::Plain(_) => None,
            Way::Gzip(_) => Some("gzip"),
            Way::Zstd(_) => Some("zstd"),
        }
    }
}

impl<R: Read> Read for Uncompressed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &mut self.0 {
            Way::Plain(source) => return source.read(into),
            Way::Gzip(source) => source.read(into),
            Way::Zstd(source) => source.read(into),
        };
        // What the system says has its number; all else is said of the data.
        read.map_err(|error| match error.raw_os_error() {
            None if error.kind() != io::ErrorKind::Interrupted => {
                io::Error::new(io::ErrorKind::InvalidData, error.to_string())
            }
            _ => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(octets: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(octets).unwrap();
        encoder.finish().unwrap()
    }

    fn read(octets: &[u8]) -> (Option<&'static str>, io::Result<Vec<u8>>) {
        let mut source = Uncompressed::new(octets).unwrap();
        let (compression, mut out) = (source.compression(), Vec::new());
        (compression, source.read_to_end(&mut out).map(|_| out))
    }

    #[test]
    fn files_are_told_by_their_first_bytes_and_parts_are_read_on() {
        let octets: Vec<u8> = (0..100_000u32).map(|n| (n / 3) as u8).collect();
        let (first, second) = octets.split_at(40_000);
        let pack = |octets| zstd::encode_all(octets, 1).unwrap();
        for (packed, compression) in [
            (octets.clone(), None),
            ([gzip(first), gzip(second)].concat(), Some("gzip")),
            ([pack(first), pack(second)].concat(), Some("zstd")),
        ] {
            let (told, unpacked) = read(&packed);
            assert_eq!((told, unpacked.unwrap() == octets), (compression, true));
        }
        assert_eq!((read(b"").1.unwrap(), read(b"\x1f").1.unwrap()), (vec![], vec![0x1f]));
    }

    #[test]
    fn damage_is_of_the_data_and_a_refusal_of_the_system_is_its_own() {
        for packed in [gzip(&[7; 5_000]), zstd::encode_all(&[7; 5_000][..], 1).unwrap()] {
            for length in 4..packed.len() {
                let error = read(&packed[..length]).1.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{length}: {error}");
            }
        }
        struct Refuses;
        impl Read for Refuses {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(5))
            }
        }
        let mut cut = Uncompressed::new(Cursor::new(gzip(b"abc")[..12].to_vec()).chain(Refuses)).unwrap();
        assert_eq!(cut.read_to_end(&mut Vec::new()).unwrap_err().raw_os_error(), Some(5));
    }
}
