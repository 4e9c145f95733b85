// Package filelock takes locks on files and folders, which keep two processes apart. They bind only
// those who ask for them.
package filelock
