package main
import ("fmt";"os";"sync";"time")
func main(){ ms:=func(n int){time.Sleep(time.Duration(n)*time.Millisecond)}; var tot time.Duration; var mu sync.Mutex
 t:=func(f func()){a:=time.Now(); f(); d:=time.Since(a); mu.Lock(); tot+=d; mu.Unlock()}
 switch os.Args[1]{
 case "chan": c:=make(chan int); go func(){ for i:=0;i<50;i++{ ms(4); c<-i }; close(c) }(); for { ok:=true; t(func(){ _,ok=<-c }); if !ok {break} }
 case "select": c:=make(chan int); d:=make(chan int); go func(){ for i:=0;i<30;i++{ ms(6); c<-i }; close(d) }(); l: for { a:=time.Now(); select{ case <-c: tot+=time.Since(a); case <-time.After(2*time.Millisecond): tot+=time.Since(a); case <-d: break l } }
 case "rw": var r sync.RWMutex; var w sync.WaitGroup; for i:=0;i<3;i++{ w.Add(1); go func(){ defer w.Done(); for j:=0;j<20;j++{ t(r.RLock); ms(2); r.RUnlock(); t(r.Lock); ms(3); r.Unlock() } }() }; w.Wait() }
 fmt.Printf("own wait %.3f\n",float64(tot)/1e6); os.Exit(6) }
