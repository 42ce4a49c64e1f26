// Goroutines that wait on channels, on threads of their own and not, beside one that computes until the process is killed.
package main

import (
	"fmt"
	"runtime"
	"sync"
)

func main() {
	// With one at a time no other thread looks for work when the runtime interrupts the one that computes: its monitor alone wakes by itself.
	runtime.GOMAXPROCS(1)
	jobs := make(chan int)
	var ready sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		ready.Add(1)
		go func(own bool) {
			if own {
				runtime.LockOSThread()
			}
			ready.Done()
			for range jobs {
			}
		}(worker%2 == 0)
	}
	ready.Wait()
	fmt.Println("ready")
	sum := uint64(0)
	for {
		sum++
		if sum == 0 {
			fmt.Println(sum)
		}
	}
}
