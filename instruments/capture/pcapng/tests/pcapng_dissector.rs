//! The dissector for Wireshark (`packaging/wireshark/quaver.lua`), run by tshark over files of ours.

#[path = "../../../../testbed/src/privileged.rs"]
#[allow(unreachable_pub, reason = "it is a module of the testbed, which imports this crate")]
mod privileged;

use privileged::{Lack, skip};
use quaver_abi::stamp::{Layer, LayerStamp, PacketStamps, StampClock};
use quaver_pcapng::{
    InterfaceFacts, InterfaceStatistics, LINK_ETHERNET, PacketRecord, PcapngWriter, SectionFacts,
};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const DISSECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../packaging/wireshark/quaver.lua");
const START_NS: i64 = 1_700_000_000_123_456_789;
/// Layers in a packet's order, with the clock of each, how long after the kernel it stamps, its bound and epoch.
const LAYERS: [(Layer, StampClock, i64, u32, u16); 6] = [
    (Layer::Nic, StampClock::Phc, -START_NS + 5_000_000_007, u32::MAX, 0),
    (Layer::Xdp, StampClock::Monotonic, -700, 33, 0),
    (Layer::Kernel, StampClock::Realtime, 0, 1, 0),
    (Layer::Raw, StampClock::Cycles, 90, 88, 4),
    (Layer::Tc, StampClock::Monotonic, 1_500, 33, 0),
    (Layer::Application, StampClock::Cycles, 2_000_000_001, 89, 65_535),
];

/// What the dissector shows of a packet: a line of tshark's fields.
fn expected(n: i64, raw: bool) -> String {
    let mut words = vec![if raw { "raw" } else { "kernel" }.to_owned()];
    words.push(if raw { (0xffff_ffff_0000_0000u64 + n as u64).to_string() } else { String::new() });
    let mut before = None;
    for (layer, clock, after_ns, bound_ns, epoch) in LAYERS {
        if layer == Layer::Raw && !raw {
            words.extend(vec![String::new(); 5]);
            continue;
        }
        let time_ns = START_NS + 1_000_000 * n + after_ns;
        words.push(format!("{:09}", time_ns % 1_000_000_000));
        words.push(clock.name().to_owned());
        words.push(if bound_ns == u32::MAX { String::new() } else { bound_ns.to_string() });
        words.push(if epoch == 0 { String::new() } else { (epoch - 1).to_string() });
        let compares = clock != StampClock::Phc;
        let stage = before.filter(|_| compares).map(|before| time_ns - before);
        words.push(stage.map_or(String::new(), |stage: i64| stage.to_string()));
        before = if compares { Some(time_ns) } else { before };
    }
    words.join("\t")
}

/// The same fields of all packets of a file, as tshark shows them with the dissector.
fn shown(file: &Path, options: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-X", &format!("lua_script:{DISSECTOR}"), "-T", "fields"]).args(options);
    command.args(["-e", "quaver.shown", "-e", "quaver.raw.cycles"]);
    for (layer, ..) in LAYERS {
        for part in ["", ".clock", ".bound", ".epoch", ".stage"] {
            command.args(["-e", &format!("quaver.{}{part}", layer.name())]);
        }
    }
    let output = command.arg("-r").arg(file).env("TZ", "UTC").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Lua"), "{said}");
    // Of a time only its nanoseconds: tshark's words for the date are its own.
    let time = |word: &str| match word.split_once('.') {
        Some((_, fraction)) => fraction.trim_end_matches(" UTC").to_owned(),
        None => word.to_owned(),
    };
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| line.split('\t').map(time).collect::<Vec<_>>().join("\t")).collect()
}

/// Packets with all stamps; every other one without raw cycles. Counts stand between them.
fn write(path: &Path, packets: i64) {
    let mut writer =
        PcapngWriter::new(std::fs::File::create(path).unwrap(), &SectionFacts::default()).unwrap();
    let facts =
        InterfaceFacts { name: "e".to_owned(), link_type: LINK_ETHERNET, ..InterfaceFacts::default() };
    writer.interface(&facts).unwrap();
    for n in 0..packets {
        let raw = n % 2 == 0;
        let mut stamps = PacketStamps::default();
        for (layer, clock, after_ns, bound_ns, epoch) in LAYERS {
            let time_ns = START_NS + 1_000_000 * n + after_ns;
            if raw || layer != Layer::Raw {
                stamps.set(layer, LayerStamp { clock, time_ns, bound_ns, epoch });
            }
        }
        if raw {
            stamps.set_raw_cycles(0xffff_ffff_0000_0000 + n as u64);
        }
        let layer = if raw { Layer::Raw } else { Layer::Kernel };
        let data = vec![0x55; 20 + n as usize % 50];
        writer.packet(0, &PacketRecord::new(layer, &stamps, &data, data.len() as u32)).unwrap();
        if n % 7 == 0 {
            let counted = InterfaceStatistics { taken_ns: START_NS, ..InterfaceStatistics::default() };
            writer.statistics(0, &counted).unwrap();
        }
    }
    writer.finish().unwrap();
}

fn tshark_is_there() -> bool {
    let there = Command::new("tshark").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        skip("the dissector", Lack::Installed("tshark"));
    }
    there
}

#[test]
fn every_layer_of_every_packet_has_its_fields_to_the_last_digit() {
    if !tshark_is_there() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.pcapng");
    write(&path, 300);
    let all: Vec<String> = (0..300).map(|n| expected(n, n % 2 == 0)).collect();
    assert_eq!(shown(&path, &[]), all);
    // In two passes frames are looked at again, and a filter may ask for the fields.
    let two =
        shown(&path, &["-2", "-Y", "quaver.raw.cycles >= 18446744069414584322 && quaver.tc.stage == 1410"]);
    assert_eq!(two, all.iter().skip(2).step_by(2).cloned().collect::<Vec<_>>());
    // A copy of some packets, with the stamps and without.
    let some = directory.path().join("some.pcapng");
    let copied =
        Command::new("editcap").args(["-r"]).arg(&path).arg(&some).args(["11-20", "31"]).status().unwrap();
    assert!(copied.success());
    assert_eq!(shown(&some, &[]), [&all[10..20], &all[30..31]].concat());
    let bare = directory.path().join("bare.pcap");
    assert!(
        Command::new("editcap").args(["-F", "nsecpcap"]).arg(&path).arg(&bare).status().unwrap().success()
    );
    assert_eq!(shown(&bare, &[]), vec!["\t".repeat(31); 300]);
    // Which has them, though that file is open; and a file that is cut has those before.
    assert_eq!(shown(&bare, &["-o", &format!("quaver.file:{}", path.display())]), all);
}

#[test]
fn the_shorter_form_shows_the_same_fields() {
    if !tshark_is_there() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("short.pcapng");
    let mut writer =
        PcapngWriter::new(std::fs::File::create(&path).unwrap(), &SectionFacts::default()).unwrap();
    let facts =
        InterfaceFacts { name: "e".to_owned(), link_type: LINK_ETHERNET, ..InterfaceFacts::default() };
    writer.interface(&facts).unwrap();
    let mut wanted = Vec::new();
    for n in 0..60 {
        let (time_ns, delay_ns) = (START_NS + n, 4_294_967_295 - n);
        let bound_ns = if n % 2 == 0 { 89 } else { u32::MAX };
        let (kernel, application) = (StampClock::Realtime, StampClock::Cycles);
        let mut stamps = PacketStamps::default();
        stamps.set(Layer::Kernel, LayerStamp { clock: kernel, time_ns, bound_ns: 1, epoch: 0 });
        let stamp = LayerStamp { clock: application, time_ns: time_ns + delay_ns, bound_ns, epoch: 65_535 };
        stamps.set(Layer::Application, stamp);
        writer.packet(0, &PacketRecord::new(Layer::Kernel, &stamps, &[0x55; 20], 20)).unwrap();
        let others = "\t".repeat(5);
        let (at, then) = (time_ns % 1_000_000_000, (time_ns + delay_ns) % 1_000_000_000);
        let bound = if n % 2 == 0 { "89" } else { "" };
        let kernel = format!("{at:09}\trealtime\t1\t\t");
        wanted.push(format!(
            "kernel\t\t{others}{others}{kernel}\t{others}{others}{then:09}\tcycles\t{bound}\t65534\t{delay_ns}"
        ));
    }
    writer.finish().unwrap();
    // 20 bytes a packet for both stamps.
    let option_bytes = std::fs::metadata(&path).unwrap().len();
    assert!(option_bytes < 60 * (28 + 20 + 20 + 8) + 200, "{option_bytes}");
    assert_eq!(shown(&path, &[]), wanted);
    let some = directory.path().join("some.pcapng");
    let copied =
        Command::new("editcap").args(["-r"]).arg(&path).arg(&some).args(["11-20", "31"]).status().unwrap();
    assert!(copied.success());
    assert_eq!(shown(&some, &[]), [&wanted[10..20], &wanted[30..31]].concat());
}

#[test]
fn stamps_are_columns_and_a_pipe_loses_nothing() {
    if !tshark_is_there() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.pcapng");
    write(&path, 40);
    let columns =
        "gui.column.format:\"No.\",\"%m\",\"raw\",\"%Cus:quaver.raw.stage\",\"tc\",\"%Cus:quaver.tc.bound\"";
    let mut command = Command::new("tshark");
    command.args(["-n", "-X", &format!("lua_script:{DISSECTOR}"), "-o", columns]);
    let output = command.arg("-r").arg(&path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let wanted: Vec<String> = (0..40)
        .map(|n| if n % 2 == 0 { format!("{} 90 33", n + 1) } else { format!("{} 33", n + 1) })
        .collect();
    assert_eq!(rows, wanted);
    // What comes by a pipe is gone once it is read: the dissector must leave it alone.
    let mut child = Command::new("tshark")
        .args([
            "-n",
            "-X",
            &format!("lua_script:{DISSECTOR}"),
            "-T",
            "fields",
            "-e",
            "frame.number",
            "-r",
            "-",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&std::fs::read(&path).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 40);
}
