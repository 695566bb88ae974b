use std::time::*; use std::thread::*; use parking_lot::*; use std::sync::Arc;
fn tid()->u64{ std::fs::read_link("/proc/thread-self").unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap() }
fn ms(n:u64){ sleep(Duration::from_millis(n)) }
fn spin(n:u64){ let u=Instant::now(); while u.elapsed()<Duration::from_millis(n) { } }
fn timed<T>(n:&mut u64, f:impl FnOnce()->T)->T{ let a=Instant::now(); let r=f(); *n+=a.elapsed().as_nanos() as u64; r }
fn named<F:FnOnce()+Send+'static>(n:&str,f:F)->JoinHandle<()>{ Builder::new().name(n.into()).spawn(f).unwrap() }
static M: Mutex<u64> = Mutex::new(0); static CV: Condvar = Condvar::new(); static RW: RwLock<u64>=RwLock::new(0);
fn mutex(){ let a=named("sleeper",||{let mut w=0; for _ in 0..40{ let g=timed(&mut w,||M.lock()); ms(2); drop(g); sleep(Duration::from_micros(300));} println!("pl-sleeper {} 40 {}",tid(),w)});
 let b=named("spinner",||{let mut w=0; for _ in 0..40{ let g=timed(&mut w,||M.lock()); spin(6); drop(g); sleep(Duration::from_micros(300));} println!("pl-spinner {} 40 {}",tid(),w)}); a.join().unwrap(); b.join().unwrap(); }
fn condvar(){ let c=named("consumer",||{let mut w=0; let mut g=M.lock(); for i in 1..=40{ while *g<i { timed(&mut w,||CV.wait(&mut g)); } } println!("pl-cv {} 40 {}",tid(),w)});
 for _ in 0..40{ ms(5); *M.lock()+=1; CV.notify_one(); } c.join().unwrap(); println!("pl-producer {} 0 0",tid()); }
fn rw(){ let a=named("writer",||{let mut w=0; for _ in 0..30{ let g=timed(&mut w,||RW.write()); ms(6); drop(g); ms(3);} println!("pl-writer {} 30 {}",tid(),w)}); let mut v=vec![a]; for _ in 0..2{ v.push(named("reader",||{let mut w=0; for _ in 0..60{ let g=timed(&mut w,||RW.read()); ms(1); drop(g); ms(1);} println!("pl-reader {} 60 {}",tid(),w)})); } for j in v {j.join().unwrap()} }
fn chan(){ let (tx,rx)=crossbeam::channel::bounded::<u64>(1); let c=named("slow",move||{let mut w=0; for _ in 0..40{ timed(&mut w,||rx.recv().unwrap()); ms(5);} println!("cb-recv {} 40 {}",tid(),w)}); let p=named("fast",move||{let mut w=0; for i in 0..40{ timed(&mut w,||tx.send(i).unwrap());} println!("cb-send {} 40 {}",tid(),w)}); c.join().unwrap(); p.join().unwrap(); }
fn wg(){ let w=crossbeam::sync::WaitGroup::new(); let mut v=vec![]; for i in 0..3{ let w=w.clone(); v.push(named("worker",move||{ ms(10+20*i); drop(w); println!("wg-worker{} {} 0 0",i,tid())})); } let mut t=0; timed(&mut t,||w.wait()); println!("wg {} 1 {}",tid(),t); for j in v {j.join().unwrap()} }
fn main(){ let _=Arc::new(0); match std::env::args().nth(1).unwrap().as_str(){ "mutex"=>mutex(),"condvar"=>condvar(),"rw"=>rw(),"chan"=>chan(),"wg"=>wg(),_=>panic!()} }
