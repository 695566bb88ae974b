package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Go: sync.Mutex, RWMutex, Cond, WaitGroup, Once and channels, on threads that are locked to their goroutines.
type own struct {
	name  string
	n, ns atomic.Int64
}

func (o *own) timed(deed func()) { from := time.Now(); deed(); o.ns.Add(int64(time.Since(from))); o.n.Add(1) }

func main() {
	mutex, cond, group, pass, once := &own{name: "word:mutex"}, &own{name: "word:cond"}, &own{name: "word:group"}, &own{name: "word:channel"}, &own{name: "word:once"}
	var m sync.Mutex
	var first sync.Once
	c := sync.NewCond(&sync.Mutex{})
	items, sum := 0, 0
	var all sync.WaitGroup
	for k := 0; k < 3; k++ {
		all.Add(1)
		go func() {
			runtime.LockOSThread()
			defer all.Done()
			once.timed(func() { first.Do(func() { time.Sleep(8 * time.Millisecond) }) })
			for i := 0; i < 30; i++ { mutex.timed(m.Lock); sum++; time.Sleep(time.Millisecond); m.Unlock() }
			c.L.Lock()
			for items == 0 { cond.timed(c.Wait) }
			items--
			c.L.Unlock()
		}()
	}
	time.Sleep(200 * time.Millisecond)
	for i := 0; i < 3; i++ { time.Sleep(5 * time.Millisecond); c.L.Lock(); items++; c.L.Unlock(); c.Signal() }
	group.timed(all.Wait)
	box := make(chan int)
	go func() { runtime.LockOSThread(); for i := 0; i < 50; i++ { time.Sleep(time.Millisecond); box <- i }; close(box) }()
	for { var v int; var ok bool; pass.timed(func() { v, ok = <-box }); if !ok { break }; sum += v }
	fmt.Println(sum)
	if path := os.Getenv("OWN"); path != "" {
		f, _ := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0666)
		for _, o := range []*own{mutex, cond, group, pass, once} { fmt.Fprintln(f, o.name, o.n.Load(), o.ns.Load()) }
	}
}
