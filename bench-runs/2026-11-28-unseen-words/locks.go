package main
import ("fmt";"os";"runtime";"sync";"time";"syscall")
func spin(d time.Duration){ t:=time.Now(); for time.Since(t)<d {} }
var mu sync.Mutex
func own(i int, wg *sync.WaitGroup){ runtime.LockOSThread(); defer wg.Done(); var w time.Duration; for k:=0;k<40;k++{ f:=time.Now(); mu.Lock(); w+=time.Since(f); if i==1 {spin(6*time.Millisecond)} else {time.Sleep(2*time.Millisecond)}; mu.Unlock(); time.Sleep(300*time.Microsecond)}; fmt.Println("go-mutex",syscall.Gettid(),40,w.Nanoseconds()) }
func main(){ var wg sync.WaitGroup
 switch os.Args[1] {
 case "mutex": wg.Add(2); go own(0,&wg); go own(1,&wg); wg.Wait()
 case "chan": c:=make(chan int); wg.Add(2)
  go func(){ runtime.LockOSThread(); defer wg.Done(); var w time.Duration; for i:=0;i<40;i++{ f:=time.Now(); <-c; w+=time.Since(f); time.Sleep(5*time.Millisecond)}; fmt.Println("go-recv",syscall.Gettid(),40,w.Nanoseconds()) }()
  go func(){ runtime.LockOSThread(); defer wg.Done(); var w time.Duration; for i:=0;i<40;i++{ f:=time.Now(); c<-i; w+=time.Since(f)}; fmt.Println("go-send",syscall.Gettid(),40,w.Nanoseconds()) }()
  wg.Wait()
 case "dead": var a,b sync.Mutex; wg.Add(2); go func(){a.Lock();time.Sleep(50*time.Millisecond);b.Lock()}(); go func(){b.Lock();time.Sleep(50*time.Millisecond);a.Lock()}(); go func(){for{time.Sleep(time.Second)}}(); wg.Wait()
 } }
