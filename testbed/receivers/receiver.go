// Receives UDP on loopback and does one deed each 250 packets: `receiver block PORT DEED FOLDER`.
package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const (
	deedEachPackets = 250
	deedTime        = 3 * time.Millisecond
	writtenBytes    = 2 << 20
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	port, err := strconv.Atoi(os.Args[2])
	check(err)
	deed := os.Args[3]
	var file *os.File
	if deed == "disk" {
		file, err = os.Create(filepath.Join(os.Args[4], fmt.Sprintf("deed.%d", os.Getpid())))
		check(err)
		check(os.Remove(file.Name()))
	}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	check(err)
	packet := make([]byte, 65536)
	for received := 1; ; received++ {
		_, _, err := socket.ReadFromUDP(packet)
		check(err)
		if received%deedEachPackets != 0 {
			continue
		}
		switch deed {
		case "sleep":
			time.Sleep(deedTime)
		case "compute":
			for end := time.Now().Add(deedTime); time.Now().Before(end); {
			}
		case "disk":
			_, err = file.WriteAt(make([]byte, writtenBytes), 0)
			check(err)
			check(file.Sync())
		}
	}
}
