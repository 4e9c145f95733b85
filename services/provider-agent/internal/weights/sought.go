package weights

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Bounds of what is listed and looked for.
const (
	// maxFiles bounds the files of a model, as the catalog does.
	maxFiles = 1_000
	// listPatience bounds a question to the catalog. Its answer is good for listLooks looks, because
	// the files of a model seldom change.
	listPatience = 5 * time.Second
	listLooks    = 60
)

// sought are the files of one model, which are looked for in the stores of engines.
type sought struct {
	model  string
	stores Stores
	list   List
	// caches is for one look at a time, which the folder's turn ensures.
	caches *reader

	mu    sync.Mutex
	files []File
	looks int   // since files were listed
	fault error // of the last question
	// places are where the last look found the files, by name.
	places map[string]place
}

// errNotFound means that no look has found all files.
var errNotFound = errors.New("the files of the model were not found")

// ask asks the catalog for the files, unless its last answer is still good.
func (s *sought) ask(ctx context.Context) {
	s.mu.Lock()
	good := s.files != nil && s.looks < listLooks
	s.looks++
	s.mu.Unlock()
	if good {
		return
	}
	asking, cancel := context.WithTimeout(ctx, listPatience)
	defer cancel()
	files, err := s.list(asking, s.model)
	if err == nil && len(files) > maxFiles {
		err = fmt.Errorf("it lists more than %d files", maxFiles)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault = err; err == nil {
		s.files, s.looks = files, 0
	}
}

// look looks for all files. It reads no more than readable allows, and keeps what it has read.
func (s *sought) look() error {
	s.mu.Lock()
	files, fault := s.files, s.fault
	s.mu.Unlock()
	var found map[string]place
	var err error
	switch {
	case len(files) > 0:
		found, err = s.find(files)
	case fault != nil:
		err = fmt.Errorf("the catalog does not say which files the model has: %w", fault)
	default:
		err = errors.New("the catalog lists no files of the model")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places = found
	return err
}

// find looks for files in all stores. It fails unless it finds all of them, because a challenge may
// read all of them.
func (s *sought) find(files []File) (map[string]place, error) {
	found := map[string]place{}
	for _, store := range s.stores.Ollama {
		inStore(store, func(root *os.Root) { findBlobs(root, store, "blobs/sha256-", files, found) })
	}
	for _, cache := range s.stores.Caches {
		if len(found) < len(files) {
			inStore(cache, func(root *os.Root) { s.caches.findInCache(root, cache, files, found) })
		}
	}
	for _, f := range files {
		if _, ok := found[f.Name]; !ok {
			return nil, fmt.Errorf("%d of %d files of the catalog are not in the stores of the engines, such as %s",
				len(files)-len(found), len(files), f.Name)
		}
	}
	return found, nil
}

// inStore calls look with a store, if the store exists. No link leads out of it.
func inStore(store string, look func(*os.Root)) {
	root, err := os.OpenRoot(store)
	if err != nil {
		return // most machines have some of the stores only
	}
	defer func() { _ = root.Close() }()
	look(root)
}

// open opens the files that the last look found.
func (s *sought) open() (files, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == nil {
		return nil, errNotFound
	}
	return kept(s.places), nil
}
