// Package terminaltest lets a test run a program at a terminal of its own, type at the terminal, and
// wait for what it shows. The package has content on Linux only.
//
// Every wait is for a text, never for a time, and ends after Patience.
package terminaltest
