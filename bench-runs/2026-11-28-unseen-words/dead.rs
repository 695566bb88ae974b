// never end
use std::sync::*; use std::time::*; use std::thread::*;
fn ms(n:u64){ sleep(Duration::from_millis(n)) }
fn named<F:FnOnce()+Send+'static>(n:&str,f:F)->JoinHandle<()>{ Builder::new().name(n.into()).spawn(f).unwrap() }
static LEFT: Mutex<u64> = Mutex::new(0); static RIGHT: Mutex<u64> = Mutex::new(0); static CV: Condvar = Condvar::new();
#[inline(never)] fn want_right(){ let _a=LEFT.lock().unwrap(); ms(50); let _b=RIGHT.lock().unwrap(); }
#[inline(never)] fn want_left(){ let _a=RIGHT.lock().unwrap(); ms(50); let _b=LEFT.lock().unwrap(); }
#[inline(never)] fn never_told(){ let mut g=LEFT.lock().unwrap(); while *g==0 { g=CV.wait(g).unwrap(); } }
fn main(){ match std::env::args().nth(1).unwrap().as_str(){
 // both stuck, main joins
 "two"=>{ let a=named("alice",want_right); let b=named("bob",want_left); a.join().unwrap(); b.join().unwrap(); }
 // and a third, innocent, that works on
 "busy"=>{ let _a=named("alice",want_right); let _b=named("bob",want_left); let c=named("carol",||{ loop { ms(2); } }); c.join().unwrap(); }
 // locked with contention before, so that owners are seen
 "warm"=>{ let a=named("alice",||{ for _ in 0..20{ let g=LEFT.lock().unwrap(); ms(2); drop(g); } want_right() }); let b=named("bob",||{ for _ in 0..20{ let g=LEFT.lock().unwrap(); ms(2); drop(g);} ms(5); want_left() }); a.join().unwrap(); b.join().unwrap(); }
 "own"=>{ let a=named("alice",||{ let _a=LEFT.lock().unwrap(); let _b=LEFT.lock().unwrap(); }); a.join().unwrap(); }
 // a signal before the wait: the waiter checks nothing
 "lost"=>{ let a=named("alice",||{ ms(30); let g=LEFT.lock().unwrap(); let _g=CV.wait(g).unwrap(); }); CV.notify_one(); a.join().unwrap(); }
 "never"=>{ let a=named("alice",never_told); a.join().unwrap(); }
 "chan"=>{ let (tx,rx)=mpsc::channel::<u64>(); let (ty,ry)=mpsc::channel::<u64>(); let a=named("alice",move||{ let v=rx.recv().unwrap(); ty.send(v).unwrap(); }); let b=named("bob",move||{ let v=ry.recv().unwrap(); tx.send(v).unwrap(); }); a.join().unwrap(); b.join().unwrap(); }
 // a server that waits for work by design, ended by Ctrl-C: nobody to blame
 "idle"=>{ let (tx,rx)=mpsc::channel::<u64>(); let a=named("worker",move||{ while let Ok(v)=rx.recv(){ ms(v); } }); for _ in 0..20{ tx.send(1).unwrap(); ms(5);} let _keep=tx; loop{ ms(1000); let _=&a; } }
 // owner of a lock sleeps (reads a pipe) to the end; a waiter waits for it
 "held"=>{ let a=named("alice",||{ let _a=LEFT.lock().unwrap(); loop{ ms(500);} }); ms(20); let b=named("bob",||{ let _a=LEFT.lock().unwrap(); }); a.join().unwrap(); b.join().unwrap(); }
 "barrier"=>{ let b=Arc::new(Barrier::new(3)); let v:Vec<_>=(0..2).map(|i|{let b=b.clone(); named(["alice","bob"][i],move||{ b.wait(); })}).collect(); for j in v {j.join().unwrap()} }
 _=>panic!() } }
