//! Packed inputs, told by their first octets: gzip, zstd, zip. Others are refused with the command that unpacks them.

use flate2::Crc;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder};
use std::io::{self, BufRead, BufReader, Cursor, Read};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const ZIP: &[u8] = b"PK\x03\x04";
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z'];
const LZ4: &[u8] = &[0x04, 0x22, 0x4d, 0x18];
const OCTETS: usize = 1 << 16;

/// The input as it was before it was packed.
pub(super) fn unpacked<'a>(mut octets: Box<dyn Read + 'a>) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut first = Vec::new();
    octets.by_ref().take(6).read_to_end(&mut first)?;
    let begins = |magic: &[u8]| first.starts_with(magic);
    let refused = |tool: &str| {
        let reason =
            format!("it is packed by {tool}, which is not unpacked here: use {tool} -dc FILE | quaver … -");
        Err(io::Error::new(io::ErrorKind::InvalidData, reason))
    };
    if begins(XZ) {
        return refused("xz");
    }
    if begins(LZ4) {
        return refused("lz4");
    }
    let (gzip, zstd, zip) = (begins(GZIP), begins(ZSTD), begins(ZIP));
    let whole = BufReader::with_capacity(OCTETS, Cursor::new(first).chain(octets));
    Ok(if gzip {
        Box::new(BufReader::with_capacity(OCTETS, MultiGzDecoder::new(whole)))
    } else if zstd {
        Box::new(BufReader::with_capacity(OCTETS, zstd::Decoder::with_buffer(whole)?))
    } else if zip {
        Box::new(BufReader::with_capacity(OCTETS, Zip::new(whole)))
    } else {
        Box::new(whole)
    })
}

/// The files of a zip archive, one after the other, as DynamoRIO writes the pieces of a trace. Read from its front, without
/// the directory at its end (APPNOTE.TXT of PKWARE, 4.3.7 and 4.3.9):
///
/// ```text
/// 0        4         6       8        10     14      18       22       26          28
/// "PK\3\4" version   flags   method   time   crc32   packed   bytes   name        extra     │ name │ extra │ data
/// then, where bit 3 of flags is set:  "PK\7\8"  crc32  packed  bytes     the last two of 4 bytes, or of 8
/// ```
struct Zip<R: BufRead> {
    state: ArchivePosition<R>,
}

enum ArchivePosition<R: BufRead> {
    /// Before a file's header, whose signature may have been read.
    Between {
        archive: R,
        signature: Option<[u8; 4]>,
    },
    /// Within a file.
    Within {
        file: Box<DeflateDecoder<R>>,
        crc: Crc,
        expected: Option<u32>,
    },
    End,
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("as a zip archive: {reason}"))
}

fn take<const N: usize>(archive: &mut impl Read) -> io::Result<[u8; N]> {
    let mut octets = [0; N];
    archive.read_exact(&mut octets)?;
    Ok(octets)
}

impl<R: BufRead> Zip<R> {
    fn new(archive: R) -> Self {
        Self { state: ArchivePosition::Between { archive, signature: None } }
    }

    fn next_file(mut archive: R, signature: Option<[u8; 4]>) -> io::Result<ArchivePosition<R>> {
        let signature = match signature {
            Some(signature) => signature,
            None => take(&mut archive)?,
        };
        if signature != ZIP {
            // The directory, of which nothing is needed, or rubbish.
            let directory = matches!(&signature, b"PK\x01\x02" | b"PK\x05\x06" | b"PK\x06\x06");
            return if directory {
                Ok(ArchivePosition::End)
            } else {
                Err(invalid("a file's header is not where it should be"))
            };
        }
        let header: [u8; 26] = take(&mut archive)?;
        let half = |at: usize| u16::from_le_bytes([header[at - 4], header[at - 3]]);
        let (flags, method) = (half(6), half(8));
        if flags & 1 != 0 || method != 8 {
            return Err(invalid("a file in it is encrypted, or not packed by DEFLATE"));
        }
        let crc = u32::from_le_bytes([header[10], header[11], header[12], header[13]]);
        let skip = u64::from(half(26)) + u64::from(half(28));
        if io::copy(&mut archive.by_ref().take(skip), &mut io::sink())? < skip {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let expected = (flags & 8 == 0).then_some(crc);
        Ok(ArchivePosition::Within {
            file: Box::new(DeflateDecoder::new(archive)),
            crc: Crc::new(),
            expected,
        })
    }

    /// After a file: what it should have been is told here, unless its header did.
    fn ended(file: DeflateDecoder<R>, crc: &Crc, expected: Option<u32>) -> io::Result<ArchivePosition<R>> {
        let mut archive = file.into_inner();
        let check = |told: u32| {
            (told == crc.sum()).then_some(()).ok_or_else(|| invalid("a file in it has another check sum"))
        };
        if let Some(told) = expected {
            check(told)?;
            return Ok(ArchivePosition::Between { archive, signature: None });
        }
        if &take::<4>(&mut archive)? != b"PK\x07\x08" {
            return Err(invalid("a file in it does not end with its check sum"));
        }
        check(u32::from_le_bytes(take(&mut archive)?))?;
        let _two_lengths: [u8; 8] = take(&mut archive)?;
        let mut next: [u8; 4] = take(&mut archive)?;
        if next != ZIP && &next != b"PK\x01\x02" {
            // Its lengths are of 8 bytes each.
            let _rest_of_second: [u8; 4] = take(&mut archive)?;
            next = take(&mut archive)?;
        }
        Ok(ArchivePosition::Between { archive, signature: Some(next) })
    }
}

impl<R: BufRead> Read for Zip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // An error leaves the archive at its end.
            self.state = match std::mem::replace(&mut self.state, ArchivePosition::End) {
                ArchivePosition::End => return Ok(0),
                ArchivePosition::Between { archive, signature } => Self::next_file(archive, signature)?,
                ArchivePosition::Within { mut file, mut crc, expected } => match file.read(buffer)? {
                    0 if !buffer.is_empty() => Self::ended(*file, &crc, expected)?,
                    count => {
                        crc.update(&buffer[..count]);
                        self.state = ArchivePosition::Within { file, crc, expected };
                        return Ok(count);
                    }
                },
            };
        }
    }
}
