package main
import ("fmt"; "os"; "sync"; "time")
func main() { var m sync.Mutex; var rw sync.RWMutex; var wg sync.WaitGroup; c := make(chan int, 4); var w, l time.Duration; var mu sync.Mutex
	for i := 0; i < 4; i++ { wg.Add(1); go func() { defer wg.Done(); for k := 0; k < 20; k++ { f := time.Now(); m.Lock(); d := time.Since(f); time.Sleep(2 * time.Millisecond); m.Unlock(); mu.Lock(); l += d; mu.Unlock(); rw.RLock(); rw.RUnlock(); c <- k } }() }
	go func() { f := time.Now(); wg.Wait(); w = time.Since(f); close(c) }(); s := 0; for v := range c { s += v }
	x := 0; for i := 0; i < 8; i++ { wg.Add(1); go func() { defer wg.Done(); y := 0; for k := 0; k < 20000000; k++ { y += k & 3 }; mu.Lock(); x += y & 1; mu.Unlock() }() }; wg.Wait()
	fmt.Println(s, x); if p := os.Getenv("OWN"); p != "" { os.WriteFile(p, []byte(fmt.Sprintf("lock %v waitgroup %v (goroutines, not threads)\n", l, w)), 0644) } ; os.Exit(4) }
