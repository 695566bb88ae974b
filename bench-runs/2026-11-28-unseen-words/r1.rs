// Rust std: modes; each prints "WHAT tid waits ns"
use std::sync::*;
use std::sync::atomic::*;
use std::time::*;
use std::thread::*;
static ZERO: OnceLock<Instant> = OnceLock::new();
fn now()->u64{ ZERO.get().unwrap().elapsed().as_nanos() as u64 }
fn tid()->u64{ std::fs::read_link("/proc/thread-self").unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap() }
fn ms(n:u64){ sleep(Duration::from_millis(n)) }
fn spin(n:u64){ let u=now()+n*1_000_000; while now()<u { } }
fn timed<T>(n:&mut u64, f:impl FnOnce()->T)->T{ let a=now(); let r=f(); *n+=now()-a; r }
fn named<F:FnOnce()+Send+'static>(n:&str,f:F)->JoinHandle<()>{ Builder::new().name(n.into()).spawn(f).unwrap() }
static RW: RwLock<u64> = RwLock::new(0);
static M: Mutex<u64> = Mutex::new(0);
static M2: Mutex<u64> = Mutex::new(0);
static CV: Condvar = Condvar::new();
static CELL: OnceLock<u64> = OnceLock::new();
#[inline(never)] fn read_it(w:&mut u64){ let g=timed(w,||RW.read().unwrap()); ms(1); drop(g) }
#[inline(never)] fn write_it(w:&mut u64){ let g=timed(w,||RW.write().unwrap()); ms(6); drop(g) }
#[inline(never)] fn rwlock(){
  let mut v=vec![];
  v.push(named("writer",||{let mut w=0; for _ in 0..30{ write_it(&mut w); ms(3);} println!("rw-write {} 30 {}",tid(),w)}));
  for i in 0..2{ v.push(named(["reader0","reader1"][i],||{let mut w=0; for _ in 0..60{ read_it(&mut w); ms(1)} println!("rw-read {} 60 {}",tid(),w)})); }
  for j in v {j.join().unwrap()}
}
fn condvar(){
  // consumer waits for items; producer makes one each 5 ms, notify_one; a third thread waits with timeouts that run out
  let c=named("consumer",||{let mut w=0; for i in 1..=40{ let mut g=M.lock().unwrap(); while *g<i { g=timed(&mut w,||CV.wait(g).unwrap()); } } println!("cv-consumer {} 40 {}",tid(),w)});
  let p=named("producer",||{ for _ in 0..40{ ms(5); *M.lock().unwrap()+=1; CV.notify_one(); } println!("cv-producer {} 0 0",tid())});
  c.join().unwrap(); p.join().unwrap();
}
fn cvtimeout(){
  let c=named("timeouts",||{let mut w=0; let mut g=M.lock().unwrap(); for _ in 0..20{ g=timed(&mut w,||CV.wait_timeout(g,Duration::from_millis(7)).unwrap().0);} println!("cv-timeout {} 20 {}",tid(),w)});
  c.join().unwrap();
}
fn mpsc_(){
  let (tx,rx)=mpsc::channel::<u64>();
  let c=named("consumer",move||{let mut w=0; for _ in 0..40{ timed(&mut w,||rx.recv().unwrap()); spin(1);} println!("mpsc-recv {} 40 {}",tid(),w)});
  let p=named("producer",move||{for i in 0..40{ ms(5); tx.send(i).unwrap();} println!("mpsc-send {} 0 0",tid())});
  c.join().unwrap(); p.join().unwrap();
  let (tx,rx)=mpsc::sync_channel::<u64>(1);
  let c=named("slow",move||{let mut w=0; for _ in 0..40{ timed(&mut w,||rx.recv().unwrap()); ms(5);} println!("sync-recv {} 40 {}",tid(),w)});
  let p=named("fast",move||{let mut w=0; for i in 0..40{ timed(&mut w,||tx.send(i).unwrap());} println!("sync-send {} 40 {}",tid(),w)});
  c.join().unwrap(); p.join().unwrap();
}
fn once(){
  let b=Arc::new(Barrier::new(3)); let mut v=vec![];
  for i in 0..3u64{ let b=b.clone(); v.push(named("once",move||{ b.wait(); ms(i*2); let mut w=0; let mut first=false; timed(&mut w,||*CELL.get_or_init(||{first=true; ms(60); 1})); println!("once{} {} 1 {}",if first {"-init"} else {""},tid(),w)})); }
  for j in v {j.join().unwrap()}
}
fn barrier(){
  let b=Arc::new(Barrier::new(3)); let mut v=vec![];
  for i in 0..3u64{ let b=b.clone(); v.push(named(["quick0","quick1","late"][i as usize],move||{ let mut w=0; for _ in 0..30{ if i==2 {ms(8)} else {ms(2)}; timed(&mut w,||b.wait()); } println!("barrier {} 30 {}",tid(),w)})); }
  for j in v {j.join().unwrap()}
}
fn chain(){
  // C has M2 and computes; B has M and waits for M2; A waits for M
  let b=Arc::new(Barrier::new(3)); let mut v=vec![];
  let bb=b.clone(); v.push(named("C-root",move||{ for _ in 0..20{ let g=M2.lock().unwrap(); bb.wait(); spin(9); drop(g); bb.wait(); } println!("root {} 0 0",tid())}));
  let bb=b.clone(); v.push(named("B-mid",move||{ let mut w=0; for _ in 0..20{ let g=M.lock().unwrap(); bb.wait(); ms(1); let h=timed(&mut w,||M2.lock().unwrap()); drop(h); drop(g); bb.wait(); } println!("mid {} 20 {}",tid(),w)}));
  let bb=b.clone(); v.push(named("A-leaf",move||{ let mut w=0; for _ in 0..20{ bb.wait(); ms(3); let h=timed(&mut w,||M.lock().unwrap()); drop(h); bb.wait(); } println!("leaf {} 20 {}",tid(),w)}));
  for j in v {j.join().unwrap()}
}
static STOP: AtomicBool = AtomicBool::new(false);
fn trylock(){
  // holder sleeps 4 ms with the lock, pauses 2 ms; a try-lock barger takes it in the pauses; a waiter queues
  let h=named("holder",||{ for _ in 0..40{ let g=M.lock().unwrap(); ms(4); drop(g); ms(2);} STOP.store(true,Ordering::SeqCst); println!("try-holder {} 0 0",tid())});
  let t=named("tryer",||{ let (mut got,mut held)=(0,0); while !STOP.load(Ordering::SeqCst){ if let Ok(g)=M.try_lock(){ got+=1; timed(&mut held,||spin(1)); drop(g);} sleep(Duration::from_micros(100)); } println!("try-tryer {} {} {}",tid(),got,held)});
  let q=named("queuer",||{ let mut w=0;let mut n=0; while !STOP.load(Ordering::SeqCst){ let g=timed(&mut w,||M.lock().unwrap()); n+=1; drop(g); ms(1);} println!("try-queuer {} {} {}",tid(),n,w)});
  for j in [h,t,q] {j.join().unwrap()}
}
fn main(){ ZERO.set(Instant::now()).unwrap();
  match std::env::args().nth(1).unwrap().as_str(){
   "rwlock"=>rwlock(),"condvar"=>condvar(),"cvtimeout"=>cvtimeout(),"mpsc"=>mpsc_(),"once"=>once(),"barrier"=>barrier(),"chain"=>chain(),"trylock"=>trylock(),_=>panic!() }
}
