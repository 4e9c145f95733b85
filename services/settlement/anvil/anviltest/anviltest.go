// Package anviltest gives tests development chains of their own.
//
// A chain ends with its test. Where the program cannot be installed, a test is skipped, but in CI it fails.
package anviltest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"svc.internal/services/settlement/anvil"
)

// binary is the path of the program. It is installed once.
var binary = sync.OnceValues(func() (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	return anvil.Install(context.Background(), root)
})

// Start starts a chain that lives as long as the test, with further arguments of the program.
func Start(t testing.TB, chainID uint64, arguments ...string) *anvil.Chain {
	t.Helper()
	path, err := binary()
	if errors.Is(err, anvil.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	chain, err := anvil.Start(context.WithoutCancel(t.Context()),
		anvil.Config{Binary: path, ChainID: chainID, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.Stop)
	return chain
}

// repository is the folder above the working directory that has the workspace.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		} else if dir == filepath.Dir(dir) {
			return "", err
		}
	}
}
