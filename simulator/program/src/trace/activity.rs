//! What a guest does while its kernel is traced: work that makes the kernel do all that it usually does. Nothing of it ends; the host
//! ends the guest.
//!
//! | task | what the kernel does for it |
//! |---|---|
//! | `qv-futex`, `qv-barrier` | futex calls, wake-ups on other processors, changes of tasks |
//! | `qv-timer` | timers of the kernel's, interrupts of the processors' timers |
//! | `qv-files` | a file system in memory: files made, written, read, renamed, looked for, removed |
//! | `qv-socket` | UDP and TCP over loopback, and the softirqs that carry them |
//! | `qv-sender`, `qv-sink` | packets through two devices: their interrupts, top and bottom halves |
//! | `qv-memory` | page faults, memory mapped and given back |
//! | `qv-reclaim` | more names than memory is to be had for: kswapd |
//! | `qv-spawn` | processes made, replaced and ended |
//! | `qv-compute` | nothing: it is what interrupts come to |

use anyhow::Context;
use quaver_abi::guest_marks::CALIBRATING_TASK;
use quaver_host::netns::Lab;
use quaver_host::root::HostRoot;
use quaver_lab_guests::guest;
use quaver_lab_guests::guest::{SINK_ADDRESS, SOURCE_ADDRESS};
use quaver_lab_guests::marks;
use rustix::mm::{MapFlags, ProtFlags};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pauses between two rounds of a task, in turn; of prime number, so that tasks do not go on in step.
const PAUSES_US: [u64; 11] = [50, 130, 700, 90, 310, 1_700, 60, 220, 2_900, 170, 450];
/// Bytes that files get and messages have, in turn.
const SIZES: [usize; 7] = [64, 1_500, 4_096, 300, 24_000, 700, 61_000];
/// How many meet at the barrier.
const PARTIES: usize = 3;
/// Bytes of memory that are mapped and given back.
const MAPPED: usize = 1 << 20;
/// Memory that stays free beside that which nobody may have: less than the kernel wants to be free once its marks are raised, so
/// that it has to look for more.
const LEFT_FREE_KIB: u64 = 160 << 10;
/// Names that were looked for in vain before anything is traced, which the kernel keeps in memory until it needs that.
const NAMES: usize = 12_000;
/// Parts of ten thousand of all memory between the marks that wake kswapd and let it sleep.
const WATERMARK_SCALE: &str = "3000";
/// Memory in a huge page.
const HUGE_PAGE_KIB: u64 = 2 << 10;

/// What a thread does without end.
type Task = fn() -> anyhow::Result<()>;

/// Has the kernel traced, and keeps it busy.
pub(super) fn run(root: &HostRoot) -> anyhow::Result<()> {
    let ends = Lab::between(
        &guest::interface_with(root, SOURCE_ADDRESS)?,
        &guest::interface_with(root, SINK_ADDRESS)?,
    )?;
    let symbols = marks::wanted_symbols()?;
    take_memory()?;
    marks::tell_symbols(&symbols);
    calibrate()?;
    let tasks: [(&str, Task); 6] = [
        ("qv-timer", timers),
        ("qv-files", files),
        ("qv-memory", memory),
        ("qv-reclaim", reclaim),
        ("qv-spawn", spawn),
        ("qv-compute", compute),
    ];
    for (name, task) in tasks {
        start(name, task)?;
    }
    futexes()?;
    network(ends)?;
    marks::begin();
    loop {
        std::thread::park();
    }
}

/// A thread of this name. What ends it is told on the console, and ends nobody else.
fn start(name: &str, task: impl FnOnce() -> anyhow::Result<()> + Send + 'static) -> anyhow::Result<()> {
    let told = name.to_owned();
    let body = move || {
        if let Err(error) = task() {
            quaver_instrument::tell!("quaver: {told}: {error:#}");
        }
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .with_context(|| format!("starting {name}"))?;
    Ok(())
}

/// Lets a task of a known name come and go, until the plugin has surely seen it.
fn calibrate() -> anyhow::Result<()> {
    let seen = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&seen);
    start(CALIBRATING_TASK, move || {
        (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
        done.store(true, Ordering::SeqCst);
        Ok(())
    })?;
    while !seen.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn pause(round: usize) {
    std::thread::sleep(Duration::from_micros(PAUSES_US[round % PAUSES_US.len()]));
}

fn work(duration: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < duration {
        std::hint::spin_loop();
    }
}

/// Two that wait for each other's signal, and some that meet.
fn futexes() -> anyhow::Result<()> {
    let turn = Arc::new((Mutex::new(0_usize), Condvar::new()));
    for own in 0..2 {
        let turn = Arc::clone(&turn);
        start("qv-futex", move || {
            let (whose, changed) = &*turn;
            loop {
                let held = whose.lock().unwrap_or_else(PoisonError::into_inner);
                let mut held = changed
                    .wait_while(held, |whose| *whose % 2 != own)
                    .unwrap_or_else(PoisonError::into_inner);
                *held += 1;
                let round = *held;
                drop(held);
                changed.notify_all();
                if own == 0 {
                    pause(round);
                }
            }
        })?;
    }
    let barrier = Arc::new(Barrier::new(PARTIES));
    for own in 0..PARTIES {
        let barrier = Arc::clone(&barrier);
        start("qv-barrier", move || {
            for round in own.. {
                work(Duration::from_micros(PAUSES_US[round % PAUSES_US.len()] / 4));
                barrier.wait();
                if round.is_multiple_of(8) {
                    pause(round);
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn timers() -> anyhow::Result<()> {
    for round in 0.. {
        pause(round);
        std::thread::yield_now();
    }
    Ok(())
}

fn compute() -> anyhow::Result<()> {
    for round in 0.. {
        work(Duration::from_millis(3));
        pause(round);
    }
    Ok(())
}

fn files() -> anyhow::Result<()> {
    let text = vec![0x51; SIZES.into_iter().max().unwrap_or(0)];
    let mut into = Vec::new();
    for round in 0_usize.. {
        let place = format!("/tmp/qv-{}", round % 5);
        fs::create_dir_all(&place)?;
        let (one, other) = (format!("{place}/one"), format!("{place}/other"));
        fs::write(&one, &text[..SIZES[round % SIZES.len()]])?;
        fs::rename(&one, &other)?;
        into.clear();
        fs::File::open(&other)?.read_to_end(&mut into)?;
        // What is not there is looked for, too.
        let _ = fs::metadata(&one);
        for entry in fs::read_dir(&place)? {
            entry?.metadata()?;
        }
        fs::remove_dir_all(&place)?;
        pause(round);
    }
    Ok(())
}

fn memory() -> anyhow::Result<()> {
    for round in 0_usize.. {
        let length = MAPPED >> (round % 6);
        // SAFETY: new memory that nobody else knows, written within its length, and not used after it is given back.
        unsafe {
            let at = rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?;
            (0..length).step_by(4096).for_each(|octet| at.cast::<u8>().add(octet).write_volatile(1));
            rustix::mm::munmap(at, length)?;
        }
        pause(round * 3);
    }
    Ok(())
}

/// Most of the free memory is taken without being used, some of the rest by names that were looked for in vain.
fn take_memory() -> anyhow::Result<()> {
    (0..NAMES).for_each(|name| look_for(0, name));
    let text = fs::read_to_string("/proc/meminfo").context("reading how much memory is free")?;
    let free = text.lines().find_map(|line| line.strip_prefix("MemFree:"));
    let free_kib: u64 = free.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0);
    let pages = free_kib.saturating_sub(LEFT_FREE_KIB) / HUGE_PAGE_KIB;
    fs::write("/proc/sys/vm/nr_hugepages", pages.to_string()).context("taking memory")
}

fn look_for(round: usize, name: usize) {
    let _ = fs::metadata(format!("/sys/qv-{round}-{name}"));
}

/// The kernel wants more memory to be free than there is, and names that it may forget become more.
fn reclaim() -> anyhow::Result<()> {
    fs::write("/proc/sys/vm/watermark_scale_factor", WATERMARK_SCALE)
        .context("raising the kernel's marks")?;
    for round in 1_usize.. {
        (0..40).for_each(|name| look_for(round, name));
        pause(round);
    }
    Ok(())
}

fn spawn() -> anyhow::Result<()> {
    for round in 0.. {
        let mut command = Command::new("/init");
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().context("starting a process")?;
        (0..20).for_each(|part| pause(round + part));
    }
    Ok(())
}

/// Packets through the devices, and within one end over loopback.
fn network(ends: Lab) -> anyhow::Result<()> {
    let ends = Arc::new(ends);
    let in_sink = Arc::clone(&ends);
    start("qv-sink", move || {
        in_sink.enter_sink()?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 9))?;
        let mut into = vec![0; 2_048];
        loop {
            let (_, from) = socket.recv_from(&mut into)?;
            socket.send_to(&into[..64], from)?;
        }
    })?;
    let in_source = Arc::clone(&ends);
    start("qv-sender", move || {
        in_source.enter_source()?;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(5)))?;
        let mut into = [0; 2_048];
        for round in 0_usize.. {
            for _ in 0..round % 4 {
                socket.send_to(&[0x51; 1_000], (in_source.sink.ipv4, 9))?;
            }
            let _ = socket.recv(&mut into);
            pause(round);
        }
        Ok(())
    })?;
    start("qv-socket", move || {
        ends.enter_source()?;
        loopback()
    })
}

fn loopback() -> anyhow::Result<()> {
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    let echo = std::thread::Builder::new().name("qv-echo".to_owned());
    echo.spawn(move || {
        let mut into = [0; 16_384];
        while let Ok(length @ 1..) = far.read(&mut into) {
            if far.write_all(&into[..length]).is_err() {
                break;
            }
        }
    })?;
    let (text, mut into) = ([0x51; 16_384], [0; 16_384]);
    for round in 0_usize.. {
        let size = SIZES[round % SIZES.len()].min(1_400);
        udp.send_to(&text[..size], udp.local_addr()?)?;
        udp.recv(&mut into)?;
        let size = SIZES[(round + 3) % SIZES.len()].min(text.len());
        near.write_all(&text[..size])?;
        near.read_exact(&mut into[..size])?;
        pause(round);
    }
    Ok(())
}
