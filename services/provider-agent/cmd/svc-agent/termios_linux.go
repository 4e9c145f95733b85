package main

import "golang.org/x/sys/unix"

// The requests by which the settings of a terminal are read and written.
const (
	readTermios  = unix.TCGETS
	writeTermios = unix.TCSETS
)
