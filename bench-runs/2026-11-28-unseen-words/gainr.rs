use std::sync::*; use std::time::*; use std::thread::*;
static M: Mutex<u64> = Mutex::new(0);
fn us(n:u64){ sleep(Duration::from_micros(n)) }
fn main(){ let a:Vec<String>=std::env::args().collect(); let cut=a[2]=="1"; let f=Instant::now();
 match a[1].as_str(){
 "lock"=>{ let v:Vec<_>=(0..3).map(|_|spawn(move||for _ in 0..40{ let g=M.lock().unwrap(); us(if cut {2000} else {4000}); drop(g); us(3000);})).collect(); for j in v{j.join().unwrap()} }
 "barrier"=>{ let b=Arc::new(Barrier::new(3)); let v:Vec<_>=(0..3).map(|i|{let b=b.clone(); spawn(move||for _ in 0..40{ us(if i==2&&!cut {8000} else {2000}); b.wait();})}).collect(); for j in v{j.join().unwrap()} }
 "pipe"=>{ let (t1,r1)=mpsc::channel::<u64>(); let (t2,r2)=mpsc::channel::<u64>(); let a=spawn(move||for i in 0..50{us(1500); t1.send(i).unwrap()}); let b=spawn(move||for v in r1{us(if cut {2500} else {5000}); t2.send(v).unwrap()}); let c=spawn(move||for _ in r2{us(1000)}); for j in [a,b,c]{j.join().unwrap()} }
 _=>panic!() } println!("{}",f.elapsed().as_nanos()); }
