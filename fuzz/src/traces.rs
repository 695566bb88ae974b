//! Runs the checks on made-up traces, ours and those of other tools, without a fuzzer: `traces [THOUSANDS [SEED]]`. Each is
//! made of records or lines that are nearly right, and of some that are not.

use quaver_fuzz::epochs::library_frames;
use quaver_fuzz::imports::{FORMATS, imported};
use quaver_fuzz::splitmix::{Random, numbers};
use quaver_fuzz::traces::frames;
use quaver_trace::import::Format;

/// An address such as programs have: a few of them, so that blocks come again.
fn address(random: &mut Random) -> u64 {
    match random.below(16) {
        0 => random.field(),
        _ => 0x40_0000 + random.below(24) * 3,
    }
}

fn entry(random: &mut Random, into: &mut Vec<u8>) {
    let kind = match random.below(48) {
        0 => random.below(52) as u16,
        1..5 => 48 + random.below(2) as u16,
        5..9 => 29,
        9..13 => 22,
        13..17 => 28,
        17 | 18 => 17,
        19..28 => random.below(2) as u16,
        _ => 10,
    };
    let size = match (kind, random.below(80)) {
        (_, 0) => random.next() as u16,
        (28, _) => random.below(14) as u16,
        _ => 1 + random.below(8) as u16,
    };
    let value = match kind {
        22 | 23 => random.below(4),
        28 => random.below(40),
        _ => address(random),
    };
    into.extend(kind.to_le_bytes());
    into.extend(size.to_le_bytes());
    into.extend(value.to_le_bytes());
}

fn drmemtrace(random: &mut Random) -> Vec<u8> {
    let mut files = Vec::new();
    for number in 0..1 + random.below(3) {
        if number > 0 {
            files.extend(b"\n----\n");
        }
        files.extend([25, 0, 0, 0, 2 + random.below(6) as u8, 0, 0, 0, 0, 0, 0, 0]);
        (0..random.below(40)).for_each(|_| entry(random, &mut files));
        files.extend([26, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    files
}

fn champsim(random: &mut Random) -> Vec<u8> {
    let mut file = Vec::new();
    for _ in 0..random.below(20) {
        file.extend(address(random).to_le_bytes());
        file.extend([0, 0].map(|_: u8| random.below(2) as u8));
        file.extend([0; 6].map(|_: u8| if random.below(2) == 0 { 0 } else { random.below(90) as u8 }));
        for _ in 0..6 {
            let value = if random.below(2) == 0 { 0 } else { address(random) };
            file.extend(value.to_le_bytes());
        }
    }
    file
}

fn number(random: &mut Random) -> String {
    match random.below(8) {
        0 => format!("{}", random.field()),
        1 | 2 => format!("{}", random.below(40)),
        _ => format!("{:#x}", 0x1000 + random.below(64)),
    }
}

fn event(random: &mut Random, thread: u64, into: &mut String) {
    let prism = random.below(2) == 0;
    let ranges = |random: &mut Random, into: &mut String, sign: &str| {
        for _ in 0..random.below(3) {
            let first = random.below(1 << 13);
            *into += &format!(" {sign} {first:#x} {:#x}", first + random.below(100));
        }
    };
    let numbered = format!("{},{thread}", random.below(99));
    match random.below(8) {
        0..3 => {
            let counts = [0; 4].map(|_: u8| random.below(20));
            let [integer, float, reads, writes] = counts;
            let counts = format!("{integer},{float},{reads},{writes}");
            *into += &if prism { format!("@ {counts}") } else { format!("{numbered},{counts}") };
            ranges(random, into, "$");
            ranges(random, into, "*");
        }
        3 => {
            *into += if prism { "" } else { &numbered };
            let sign = format!("# {} {}", random.below(4), random.below(9));
            ranges(random, into, &sign);
        }
        4 => *into += &format!("! {}", number(random)),
        5 => *into += &number(random),
        _ => {
            let call = format!("{}^{}", random.below(17), number(random));
            *into += &if prism { format!("^ {call}") } else { format!("{numbered},pth_ty:{call}") };
            if random.below(3) == 0 {
                *into += &format!("&{}", number(random));
            }
        }
    }
    into.push('\n');
}

fn synchrotrace(random: &mut Random) -> Vec<u8> {
    let mut files = String::new();
    for _ in 0..random.below(8) {
        files += &match random.below(2) {
            0 => format!("##{},{}\n", number(random), random.below(4)),
            _ => format!("**{},1,{}\n", number(random), random.below(4)),
        };
    }
    for thread in 1..=1 + random.below(3) {
        files += "\n----\n";
        (0..random.below(12)).for_each(|_| event(random, thread, &mut files));
    }
    files.into_bytes()
}

fn lackey(random: &mut Random) -> Vec<u8> {
    let mut file = String::new();
    for _ in 0..random.below(40) {
        let kind = ["I  ", "I  ", " L ", " S ", " M ", "== "][random.below(6) as usize];
        file += &format!("{kind}{:08x},{}\n", address(random), random.below(20));
    }
    file.into_bytes()
}

/// Frames of a trace of ours.
fn ours(random: &mut Random) -> Vec<u8> {
    let mut octets = Vec::new();
    let mut frame = |kind: u8, thread: u8, raw: &[u8]| {
        octets.extend([kind, thread]);
        octets.extend((raw.len() as u16).to_le_bytes());
        octets.extend(raw);
    };
    frame(1, 0, br#"{"program":[],"tool":"","architecture":""}"#);
    for _ in 0..1 + random.below(2) {
        let mut blocks = Vec::new();
        for _ in 0..random.below(5) {
            let instructions = random.below(4) as u8;
            blocks.extend([random.below(128) as u8, instructions]);
            for _ in 0..instructions {
                let kind = random.below(8) as u8 | (random.below(4) as u8) << 4;
                blocks.extend([
                    1 + random.below(15) as u8,
                    kind,
                    random.below(128) as u8,
                    random.below(128) as u8,
                ]);
            }
        }
        random.damage(&mut blocks);
        frame(2, 0, &blocks);
    }
    for thread in 0..random.below(4) as u8 {
        let (mut control, mut differences) = (Vec::new(), Vec::new());
        for _ in 0..random.below(20) {
            match random.below(6) {
                0 => control.push(random.below(4) as u8),
                1 | 2 => control.extend([0x80, random.below(5) as u8]),
                3 => control.extend([0x81, 1, random.below(3) as u8, 1 + random.below(64) as u8]),
                4 => {
                    control.push(0x90 + random.below(12) as u8);
                    (0..random.below(4)).for_each(|_| control.push(random.below(128) as u8));
                }
                _ => control.push(random.next() as u8),
            }
        }
        control.push(0xff);
        (0..random.below(30)).for_each(|_| differences.push(random.below(160) as u8));
        let mut raw = vec![control.len() as u8 & 0x7f];
        raw.extend(control);
        raw.extend(differences);
        random.damage(&mut raw);
        frame(3, thread, &raw);
    }
    random.damage(&mut octets);
    octets
}

/// Frames of a library of kernel activity.
fn library(random: &mut Random) -> Vec<u8> {
    let mut octets = Vec::new();
    let mut frame = |kind: u8, epochs: u8, raw: &[u8]| {
        octets.extend([kind, epochs]);
        octets.extend((raw.len() as u16).to_le_bytes());
        octets.extend(raw);
    };
    let facts =
        r#"{"tool":"","architecture":"","kernel":"","emulator":"","processors":1,"workload":"","seed":0}"#;
    frame(1, 0, facts.as_bytes());
    let blocks = 1 + random.below(4) as u8;
    let each = |block: u8| [2 + block, 1, 4, 0x30, 1, 1];
    frame(2, blocks, &(0..blocks).flat_map(each).collect::<Vec<_>>());
    for _ in 0..random.below(3) {
        let epochs = random.below(4) as u8;
        let (mut heads, mut control, mut differences) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..epochs {
            let runs = 1 + random.below(4) as u8;
            heads.extend([random.below(9) as u8, 0, random.below(17) as u8, random.below(4) as u8, runs, 2]);
            heads.extend(b"qv");
            for _ in 0..runs {
                if random.below(3) == 0 {
                    control.extend([0x81, 1, 0, 8]);
                }
                control.extend([0x80, random.below(u64::from(blocks)) as u8]);
            }
            control.push(0xff);
        }
        (0..random.below(8)).for_each(|_| differences.push(random.below(128) as u8));
        let mut raw = vec![heads.len() as u8 & 0x7f];
        raw.extend(heads);
        raw.push(control.len() as u8 & 0x7f);
        raw.extend(control);
        raw.extend(differences);
        if random.below(4) == 0 {
            random.damage(&mut raw);
        }
        frame(3, epochs, &raw);
    }
    if random.below(4) == 0 {
        random.damage(&mut octets);
    }
    octets
}

fn main() {
    let (thousands, mut random) = numbers(100);
    let count = thousands * 1000;
    let read = (0..count).filter(|_| frames(&ours(&mut random))).count();
    println!("trace: {count} inputs, {read} read, the rest refused");
    let read = (0..count).filter(|_| library_frames(&library(&mut random))).count();
    println!("epochs: {count} inputs, {read} read, the rest refused");
    for (name, format) in FORMATS {
        let made = |random: &mut Random| {
            let mut octets = match format {
                Format::Drmemtrace => drmemtrace(random),
                Format::Champsim => champsim(random),
                Format::Synchrotrace => synchrotrace(random),
                Format::Lackey => lackey(random),
            };
            if random.below(2) == 0 {
                random.damage(&mut octets);
            }
            octets
        };
        let read = (0..count).filter(|_| imported(format, &made(&mut random))).count();
        println!("{name}: {count} inputs, {read} imported, the rest refused");
    }
}
