use std::sync::{*,atomic::*,mpsc}; use std::thread; use std::time::*;
fn ms(n:u64){thread::sleep(Duration::from_millis(n))}
fn own(k:&str,d:Duration){println!("own {k} {:.3}",d.as_secs_f64()*1e3)}
fn t<R>(d:&Mutex<Duration>,f:impl FnOnce()->R)->R{let a=Instant::now();let r=f();*d.lock().unwrap()+=a.elapsed();r}
fn main(){ let k=std::env::args().nth(1).unwrap(); let w:Vec<Mutex<Duration>>=(0..6).map(|_|Mutex::new(Duration::ZERO)).collect();
 match &*k{
 "park"=>{ let n=AtomicUsize::new(0); thread::scope(|s|{ let h=s.spawn(||{ for i in 1..=40{ while n.load(Ordering::SeqCst)<i { t(&w[0],thread::park); } } }); for _ in 0..40{ ms(4); n.fetch_add(1,Ordering::SeqCst); h.thread().unpark(); } }); own("park",*w[0].lock().unwrap()); }
 "rendez"=>{ let (a,b)=mpsc::sync_channel::<u32>(0); thread::scope(|s|{ let w=&w; s.spawn(move||{ for i in 0..40{ t(&w[0],||a.send(i).unwrap()); } }); for _ in 0..40{ ms(4); b.recv().unwrap(); } }); own("send",*w[0].lock().unwrap()); }
 "cvpred"=>{ let m=Mutex::new(0usize); let c=Condvar::new(); let f=AtomicUsize::new(0); thread::scope(|s|{ for me in 1..=3{ let(m,c,f,w)=(&m,&c,&f,&w); s.spawn(move||{ for _ in 0..20{ let mut g=m.lock().unwrap(); let mut first=true; while *g!=me{ if !first{f.fetch_add(1,Ordering::SeqCst);} first=false; let a=Instant::now(); g=c.wait(g).unwrap(); *w[me].lock().unwrap()+=a.elapsed(); } *g=0; c.notify_all(); } }); } for i in 0..60{ ms(3); let mut g=m.lock().unwrap(); while *g!=0 { g=c.wait(g).unwrap(); } *g=1+i%3; c.notify_all(); } }); own("wait",*w[1].lock().unwrap()+*w[2].lock().unwrap()+*w[3].lock().unwrap()); println!("own false {}",f.load(Ordering::SeqCst)); }
 "upg"=>{ let r=RwLock::new(0); thread::scope(|s|{ for me in 0..3{ let(r,w)=(&r,&w); s.spawn(move||{ for _ in 0..20{ let g=t(&w[0],||r.read().unwrap()); ms(2); drop(g); let g=t(&w[1],||r.write().unwrap()); ms(3); drop(g); ms(1+me);} }); } }); own("read",*w[0].lock().unwrap()); own("write",*w[1].lock().unwrap()); }
 "bar2"=>{ let b=Barrier::new(2); thread::scope(|s|{ for me in 0..2u64{ let(b,w)=(&b,&w); s.spawn(move||{ for _ in 0..50{ ms(1+5*me); t(&w[me as usize],||b.wait()); } }); } }); own("w0",*w[0].lock().unwrap()); own("w1",*w[1].lock().unwrap()); }
 "endwait"=>{ let m=Arc::new(Mutex::new(0)); let g=m.lock().unwrap(); for _ in 0..2{ let m=m.clone(); thread::spawn(move||{ *m.lock().unwrap()+=1; }); } ms(150); println!("bye"); std::mem::forget(g); std::process::exit(5); }
 "panic"=>{ let m=Arc::new(Mutex::new(0)); let q=m.clone(); let h=thread::spawn(move||{ let _g=q.lock().unwrap(); ms(20); panic!("poison") }); ms(5); let a=Instant::now(); let r=m.lock().is_err(); own("lock",a.elapsed()); println!("poisoned {r} {}",h.join().is_err()); std::process::exit(3); }
 _=>{} } }
