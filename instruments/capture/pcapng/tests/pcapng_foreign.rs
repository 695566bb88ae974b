//! Captures in the forms that `editcap` writes, compressed and not: each packet is as tshark reads it, and the counts are
//! those of capinfos.

#[path = "../../../../testbed/src/privileged.rs"]
#[allow(unreachable_pub, reason = "it is a module of the testbed, which imports this crate")]
mod privileged;

use privileged::{Lack, skip};
use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use quaver_pcapng::{
    CaptureReader, InterfaceFacts, LINK_ETHERNET, PacketRecord, PcapngWriter, SectionFacts, Uncompressed,
};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

const START_NS: i64 = 1_700_000_000_000_000_000;
const PACKETS: usize = 250;
/// Forms of editcap, and how ours calls them.
const FORMS: [(&str, &str); 5] = [
    ("pcapng", "pcapng"),
    ("pcap", "pcap, microseconds"),
    ("nsecpcap", "pcap, nanoseconds"),
    ("modpcap", "pcap, microseconds"),
    ("snoop", "snoop"),
];

fn tools_are_there() -> bool {
    let works = |tool: &&str| {
        Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    let missing = ["editcap", "tshark", "capinfos"].into_iter().find(|tool| !works(tool));
    missing.iter().for_each(|_| skip("captures of others", Lack::Installed("tshark")));
    missing.is_none()
}

/// What a program prints of a file.
fn printed(words: &[&str], file: &Path) -> String {
    let output = Command::new(words[0]).args(&words[1..]).arg(file).env("TZ", "UTC").output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Packets of many lengths, of which 90 bytes were kept, at times that use every digit.
fn write(path: &Path) {
    let mut writer = PcapngWriter::new(File::create(path).unwrap(), &SectionFacts::default()).unwrap();
    let facts =
        InterfaceFacts { name: "e".to_owned(), link_type: LINK_ETHERNET, ..InterfaceFacts::default() };
    writer.interface(&facts).unwrap();
    for n in 0..PACKETS as i64 {
        let time_ns = START_NS + n * 1_234_567_891 + n * n * 7;
        let mut stamps = PacketStamps::default();
        stamps.set(Layer::Kernel, LayerStamp { clock: StampClock::Realtime, time_ns, bound_ns: 1, epoch: 0 });
        let length = 14 + n as usize * 31 % 1_500;
        let data = vec![n as u8; length.min(90)];
        writer.packet(0, &PacketRecord::new(Layer::Kernel, &stamps, &data, length as u32)).unwrap();
    }
    writer.finish().unwrap();
}

/// Number of packets, their bytes on the wire, and a line for each as tshark prints it.
fn ours(path: &Path, form: &str, compression: Option<&str>) -> (u64, u64, Vec<String>) {
    let source = Uncompressed::new(File::open(path).unwrap()).unwrap();
    assert_eq!(source.compression(), compression, "{}", path.display());
    let mut reader = CaptureReader::new(source).unwrap();
    assert_eq!(reader.format().name(), form);
    let (mut packets, mut octets, mut lines) = (0, 0, Vec::new());
    while let Some(packet) = reader.next_packet().unwrap() {
        packets += 1;
        octets += u64::from(packet.original_length);
        let time_ns = packet.time_ns.unwrap();
        lines.push(format!(
            "{}.{:09}\t{}\t{}",
            time_ns / 1_000_000_000,
            time_ns % 1_000_000_000,
            packet.original_length,
            packet.data.len()
        ));
        let first = packet.data[0];
        assert!(packet.link_type == LINK_ETHERNET && packet.data.iter().all(|octet| *octet == first));
    }
    let cautions: Vec<_> = reader.cautions().collect();
    assert!(reader.is_whole() && cautions.is_empty(), "{cautions:?}");
    (packets, octets, lines)
}

fn gzip(path: &Path, into: &Path) {
    let mut encoder =
        flate2::write::GzEncoder::new(File::create(into).unwrap(), flate2::Compression::default());
    encoder.write_all(&std::fs::read(path).unwrap()).unwrap();
    encoder.finish().unwrap();
}

fn zstd(path: &Path, into: &Path) {
    zstd::stream::copy_encode(File::open(path).unwrap(), File::create(into).unwrap(), 3).unwrap();
}

#[test]
fn packets_and_counts_are_those_of_tshark_and_capinfos_in_every_form_compressed_or_not() {
    if !tools_are_there() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("base.pcapng");
    write(&base);
    for (form, name) in FORMS {
        let plain = directory.path().join(form);
        let made = Command::new("editcap").args(["-F", form]).arg(&base).arg(&plain).status().unwrap();
        assert!(made.success(), "{form}");
        let (packed, squeezed) = (plain.with_extension("gz"), plain.with_extension("zst"));
        gzip(&plain, &packed);
        zstd(&plain, &squeezed);
        for (path, compression) in [(&plain, None), (&packed, Some("gzip")), (&squeezed, Some("zstd"))] {
            let (packets, octets, lines) = ours(path, name, compression);
            let counted = printed(&["capinfos", "-M", "-T", "-r", "-m", "-B", "-c", "-d"], path);
            let expected = format!("\t{packets}\t{octets}");
            assert!(
                packets == PACKETS as u64 && counted.trim_end().ends_with(&expected),
                "{form}: {counted}"
            );
            let fields = ["-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.cap_len"];
            let theirs = printed(&[&["tshark", "-n", "-T", "fields"], &fields[..], &["-r"]].concat(), path);
            assert!(lines.iter().eq(theirs.lines()), "{form} {compression:?}");
        }
    }
}

#[test]
fn a_compressed_file_that_is_cut_is_read_up_to_there_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("base.pcapng");
    write(&base);
    let whole = std::fs::read(&base).unwrap();
    // As a program compresses that writes while it captures: what was handed over can be read.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut zstd = zstd::Encoder::new(Vec::new(), 3).unwrap();
    for part in whole.chunks(4_096) {
        gzip.write_all(part).and_then(|()| gzip.flush()).unwrap();
        zstd.write_all(part).and_then(|()| zstd.flush()).unwrap();
    }
    for packed in [gzip.finish().unwrap(), zstd.finish().unwrap()] {
        let read = |packed: &[u8]| {
            let mut reader = CaptureReader::new(Uncompressed::new(packed).unwrap())?;
            let mut packets = 0;
            while reader.next_packet()?.is_some() {
                packets += 1;
            }
            let told =
                reader.cautions().any(|(sentence, _)| sentence.starts_with("the compressed file was cut"));
            Ok::<_, quaver_pcapng::ReadError>((packets, reader.is_whole(), told))
        };
        assert_eq!(read(&packed).unwrap(), (PACKETS, true, false));
        let (packets, is_whole, told) = read(&packed[..packed.len() * 3 / 4]).unwrap();
        assert!(
            (PACKETS / 4..PACKETS).contains(&packets) && !is_whole && told,
            "{packets} {is_whole} {told}"
        );
        let nothing = read(&packed[..12]).unwrap_err().to_string();
        assert!(nothing.contains("the compressed data are cut or damaged"), "{nothing}");
    }
}

#[test]
fn packet_blocks_of_old_are_packets_in_both_byte_orders() {
    for (big, drops, told) in [(false, 3u16, Some(3)), (true, 3, Some(3)), (true, 0xffff, None)] {
        let word = |number: u32| if big { number.to_be_bytes() } else { number.to_le_bytes() };
        let half = |number: u16| if big { number.to_be_bytes() } else { number.to_le_bytes() };
        let block = |kind: u32, body: &[u8]| {
            let length = word(body.len() as u32 + 12);
            [&word(kind)[..], &length, body, &length].concat()
        };
        let section = [&word(0x1a2b_3c4d)[..], &half(1), &half(0), &[0xff; 8]].concat();
        let interface = [&half(1)[..], &half(0), &word(0)].concat();
        let body =
            [&half(1)[..], &half(drops), &word(0), &word(7), &word(5), &word(60), b"abcde\0\0\0"].concat();
        let interface = block(1, &interface);
        let file = [&block(0x0a0d_0d0a, &section)[..], &interface, &interface, &block(2, &body)].concat();
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        let packet = reader.next_packet().unwrap().unwrap();
        assert_eq!((packet.interface, packet.time_ns, packet.original_length), (1, Some(7_000), 60));
        assert_eq!((packet.data, packet.drops_before), (&b"abcde"[..], told));
        assert!(
            reader.next_packet().unwrap().is_none() && reader.is_whole() && reader.cautions().count() == 0
        );
    }
}

#[test]
fn snoop_tells_what_was_dropped_and_impossible_lengths_end_the_reading() {
    let packet = |length: u32, drops: u32, octets: &[u8]| {
        let padded = octets.len().next_multiple_of(4);
        let mut record = Vec::new();
        for word in [length, octets.len() as u32, 24 + padded as u32, drops, 1_700_000_000, 999_999] {
            record.extend(word.to_be_bytes());
        }
        record.extend(octets);
        record.resize(24 + padded, 0);
        record
    };
    let header = [&b"snoop\0\0\0"[..], &2u32.to_be_bytes(), &4u32.to_be_bytes()].concat();
    let mut file =
        [&header[..], &packet(60, 0, b"abcde"), &packet(61, 3, b"fgh"), &packet(62, 3, b"i")].concat();
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    for (length, drops, data) in [(60, None, &b"abcde"[..]), (61, Some(3), b"fgh"), (62, None, b"i")] {
        let read = reader.next_packet().unwrap().unwrap();
        assert_eq!((read.original_length, read.drops_before, read.data), (length, drops, data));
        assert_eq!(read.time_ns, Some(1_700_000_000_999_999_000));
    }
    assert!(reader.next_packet().unwrap().is_none() && reader.is_whole());
    for (at, word) in [(24u32, 23u32), (24, 1 << 30), (20, 40)] {
        let at = at as usize;
        let kept = file[at..at + 4].to_vec();
        file[at..at + 4].copy_from_slice(&word.to_be_bytes());
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        let mut packets = 0;
        while reader.next_packet().unwrap().is_some() {
            packets += 1;
        }
        assert_eq!((packets, reader.cautions().count()), (if at == 20 { 2 } else { 0 }, 1), "{at} {word}");
        file[at..at + 4].copy_from_slice(&kept);
    }
    assert!(
        CaptureReader::new(&b"snoop\0\0\0\0\0\0\x09\0\0\0\x04"[..])
            .unwrap_err()
            .to_string()
            .contains("version")
    );
    assert!(CaptureReader::new(&b"snoopy, a dog"[..]).is_err() && CaptureReader::new(&header[..9]).is_err());
}
