package main
import ("bufio";"fmt";"net";"os";"runtime";"runtime/debug";"time")
type N struct{l,r *N; x [4]int}
func mk(d int)*N{ if d==0 {return nil}; return &N{l:mk(d-1),r:mk(d-1)} }
func main(){ a,_:=net.ResolveUDPAddr("udp",os.Args[1]); c,_:=net.ListenUDP("udp",a); k:=mk(21); debug.SetGCPercent(-1)
 go func(){ in:=bufio.NewReader(os.Stdin); for { if _,e:=in.ReadString('\n'); e!=nil {return}; t:=time.Now(); runtime.GC(); debug.FreeOSMemory(); fmt.Fprintln(os.Stderr,"gc",time.Since(t)) } }()
 b:=make([]byte,2048); for { c.Read(b); _=k } }
