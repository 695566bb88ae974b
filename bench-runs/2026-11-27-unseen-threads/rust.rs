//! Rust: locks of std and of parking_lot, a channel of std and of crossbeam, a barrier, a OnceLock, park.
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{mpsc, Arc, Barrier, Condvar, Mutex, OnceLock, RwLock};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
struct Own(&'static str, AtomicU64, AtomicU64);
impl Own {
    const fn of(name: &'static str) -> Self { Self(name, AtomicU64::new(0), AtomicU64::new(0)) }
    fn timed<T>(&self, deed: impl FnOnce() -> T) -> T { let from = Instant::now(); let result = deed(); self.2.fetch_add(from.elapsed().as_nanos() as u64, Relaxed); self.1.fetch_add(1, Relaxed); result }
    fn write(&self) { if let Ok(path) = std::env::var("OWN") { let mut f = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap(); writeln!(f, "{} {} {}", self.0, self.1.load(Relaxed), self.2.load(Relaxed)).unwrap(); } }
}
static STD: Own = Own::of("word:std-mutex"); static RW: Own = Own::of("word:std-rwlock"); static LOT: Own = Own::of("word:lot-mutex"); static LOTRW: Own = Own::of("word:lot-rwlock"); static MPSC: Own = Own::of("word:mpsc"); static CROSS: Own = Own::of("word:crossbeam"); static ONCE: Own = Own::of("word:once"); static LOTCV: Own = Own::of("word:lot-condvar"); static CV: Own = Own::of("word:std-condvar"); static BAR: Own = Own::of("word:std-barrier");
fn ms(tenths: u64) { sleep(Duration::from_micros(tenths * 100)) }
#[inline(never)] fn std_hold(g: std::sync::MutexGuard<'_, u64>) { ms(9); drop(g) }
#[inline(never)] fn lot_hold(g: parking_lot::MutexGuard<'_, u64>) { ms(9); drop(g) }
fn main() {
    let (m, l) = (Arc::new(Mutex::new(0u64)), Arc::new(parking_lot::Mutex::new(0u64)));
    let (rw, lrw) = (Arc::new(RwLock::new(0u64)), Arc::new(parking_lot::RwLock::new(0u64)));
    let barrier = Arc::new(Barrier::new(3));
    static FIRST: OnceLock<u64> = OnceLock::new();
    let crowd: Vec<_> = (0..3).map(|k| { let (m, l, rw, lrw, barrier) = (m.clone(), l.clone(), rw.clone(), lrw.clone(), barrier.clone()); thread::Builder::new().name(format!("crowd-{k}")).spawn(move || {
        BAR.timed(|| barrier.wait());
        ONCE.timed(|| FIRST.get_or_init(|| { ms(80); 1 }));
        for _ in 0..20 { let mut g = STD.timed(|| m.lock().unwrap()); *g += 1; std_hold(g); ms(1); }
        BAR.timed(|| barrier.wait());
        for _ in 0..20 { let mut g = LOT.timed(|| l.lock()); *g += 1; lot_hold(g); ms(1); }
        BAR.timed(|| barrier.wait());
        for _ in 0..15 { if k == 0 { let mut g = RW.timed(|| rw.write().unwrap()); *g += 1; ms(12) } else { let g = RW.timed(|| rw.read().unwrap()); ms(6); drop(g) } ms(1) }
        BAR.timed(|| barrier.wait());
        for _ in 0..15 { if k == 0 { let mut g = LOTRW.timed(|| lrw.write()); *g += 1; ms(12) } else { let g = LOTRW.timed(|| lrw.read()); ms(6); drop(g) } ms(1) }
    }).unwrap() }).collect();
    for one in crowd { one.join().unwrap() }
    let (send, take) = mpsc::sync_channel::<u64>(2); let (csend, ctake) = crossbeam_channel::bounded::<u64>(2);
    let maker = thread::spawn(move || { for i in 0..30 { MPSC.timed(|| send.send(i).unwrap()); } for i in 0..30 { CROSS.timed(|| csend.send(i).unwrap()); } });
    let mut sum = 0; for _ in 0..30 { sum += take.recv().unwrap(); ms(15) } for _ in 0..30 { sum += ctake.recv().unwrap(); ms(15) }
    maker.join().unwrap();
    let pair = Arc::new((Mutex::new(0u64), Condvar::new(), parking_lot::Mutex::new(0u64), parking_lot::Condvar::new())); let other = pair.clone();
    let waiter = thread::spawn(move || { for _ in 0..20 { let mut g = other.0.lock().unwrap(); while *g == 0 { g = CV.timed(|| other.1.wait(g).unwrap()) } *g -= 1; } for _ in 0..20 { let mut g = other.2.lock(); while *g == 0 { LOTCV.timed(|| other.3.wait(&mut g)) } *g -= 1; } });
    for _ in 0..20 { ms(20); *pair.0.lock().unwrap() += 1; pair.1.notify_one() } for _ in 0..20 { ms(20); *pair.2.lock() += 1; pair.3.notify_one(); }
    waiter.join().unwrap();
    println!("{} {} {} {} {sum}", m.lock().unwrap(), l.lock(), rw.read().unwrap(), lrw.read());
    for own in [&STD, &RW, &LOT, &LOTRW, &MPSC, &CROSS, &ONCE, &CV, &LOTCV, &BAR] { own.write() }
}
