// Package weights answers challenges of the files of models: it proves to the platform
// that they are within the machine's reach (pkg/fingerprint has the rules).
//
// The owner names one folder for each model, or none. Look opens each folder once and says
// in the log which ones cannot be used; a folder that cannot is no reason not to serve.
// Watch looks again every minute, because a folder may be made, or a disk mounted, after
// the agent was started. Each answer opens its folder anew, because files may be put in
// place, or replaced, while the agent runs.
//
// The files of a model without a folder are looked for in the stores of the engines, where
// the owner allows it. The catalog lists their names, sizes and SHA-256. Ollama names each file
// by its SHA-256, and a cache of Hugging Face each large file, so such a file is found by that
// name. A small file in a cache is found by its own name, and read once to compute its SHA-256.
// A challenge can name no other file. If one of the files is missing, none is proven. A file
// that has changed since the last look is not proven, because a wrong digest would count
// against the owner.
//
// Bounds of a look: 1,000 files of a model in each store, 512 entries of a cache, 4 repositories
// of a cache, 16 snapshots of a repository, and 64 MiB read over all models.
//
// A file system may hang for ever, and a system call on it cannot be broken off. Look and
// Answer return when their context ends all the same, and then leave the call behind. They
// leave at most one behind for each folder: a folder whose last call has not returned is
// busy. An answer waits for a look, which takes no longer than the file system does.
package weights

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"svc.internal/pkg/fingerprint"
)

var (
	errNoFolder = errors.New("the agent has no folder with the files of this model")
	errNoOpen   = errors.New("the folder of the model cannot be opened")
	errTime     = errors.New("the time was over before all was read")
	errBusy     = errors.New("busy: the files of the model are being read")
)

// Folders are the folders of the models. They are safe for concurrent use.
type Folders struct {
	log  *slog.Logger
	open func(path string) (files, error)
	// stores and list are for models whose files are looked for. readable is how many bytes the look
	// under way may still read. asks holds one for each question to the catalog.
	stores   Stores
	list     List
	readable atomic.Int64
	asks     chan struct{}

	mu     sync.Mutex
	models map[string]*folder
}

// maxAsks bounds the questions to the catalog that are under way at a time.
const maxAsks = 4

// folder is the folder of one model.
type folder struct {
	model, path string
	sought      *sought       // what is looked for; nil where the owner names a folder
	turn        chan struct{} // holds one while the folder is used
	looks       atomic.Bool   // a look uses the folder, or is about to

	mu     sync.Mutex
	usable bool
	reason string // why the folder cannot be used, as the log has it
}

// The pause between two looks of Watch, and the bound of one.
const (
	lookInterval = time.Minute
	lookTimeout  = 10 * time.Second
)

// Model says where the files of a model are.
type Model struct {
	ID string
	// Folder holds the files. Where it is empty, the files are looked for, unless Names is empty, too.
	Folder string
	// Names are the names that the model's repository may have, such as owner/name.
	Names []string
}

// New makes the folders of models. It does not look at them. Files of models without a folder will be
// looked for in stores, as list lists them.
func New(models []Model, stores Stores, list List, log *slog.Logger) *Folders {
	f := &Folders{
		log: log, stores: stores, list: list, asks: make(chan struct{}, maxAsks),
		open: func(path string) (files, error) { return fingerprint.OpenDir(path) },
	}
	f.Set(models)
	return f
}

// Set replaces the models. What is known of a folder that stays is kept.
func (f *Folders) Set(models []Model) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.models
	f.models = map[string]*folder{}
	for _, m := range models {
		dir := &folder{model: m.ID, path: m.Folder, turn: make(chan struct{}, 1)}
		if m.Folder == "" {
			if len(m.Names) == 0 || f.stores.None() {
				continue
			}
			caches := &reader{names: m.Names, readable: &f.readable, read: map[where]digested{}}
			dir.sought = &sought{model: m.ID, stores: f.stores, list: f.list, caches: caches}
		}
		if old := before[m.ID]; old != nil && old.same(dir) {
			dir = old
		}
		f.models[m.ID] = dir
	}
}

// same reports whether two folders are of the same path, or are looked for under the same names.
func (dir *folder) same(other *folder) bool {
	if dir.sought == nil || other.sought == nil {
		return dir.sought == other.sought && dir.path == other.path
	}
	return slices.Equal(dir.sought.caches.names, other.sought.caches.names)
}

// all returns the folders of all models.
func (f *Folders) all() []*folder {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.models))
}

// of returns the folder of a model; nil for none.
func (f *Folders) of(model string) *folder {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.models[model]
}

// Usable reports whether a folder could be opened at the last look.
func (f *Folders) Usable() bool {
	for _, dir := range f.all() {
		dir.mu.Lock()
		usable := dir.usable
		dir.mu.Unlock()
		if usable {
			return true
		}
	}
	return false
}

// Look opens each folder once, and looks for the files of models without a folder. It returns when
// everything is done or ctx has ended.
func (f *Folders) Look(ctx context.Context) {
	f.readable.Store(maxRead)
	var all sync.WaitGroup
	for _, dir := range f.all() {
		all.Go(func() {
			f.ask(ctx, dir)
			f.tell(dir, dir.look(ctx, f.open))
		})
	}
	all.Wait()
}

// ask asks the catalog for the files of a model that has no folder.
func (f *Folders) ask(ctx context.Context, dir *folder) {
	if dir.sought == nil {
		return
	}
	select {
	case f.asks <- struct{}{}:
		dir.sought.ask(ctx)
		<-f.asks
	case <-ctx.Done():
	}
}

// Watch looks at the folders every minute until ctx ends.
func (f *Folders) Watch(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		looking, cancel := context.WithTimeout(ctx, lookTimeout)
		f.Look(looking)
		cancel()
	}
}

// tell notes what a look has found, and logs it where it is news. A folder that is being
// read stays as it was known.
func (f *Folders) tell(dir *folder, found error) {
	dir.mu.Lock()
	defer dir.mu.Unlock()
	if errors.Is(found, errBusy) && dir.usable {
		return
	}
	reason := ""
	if found != nil {
		reason = found.Error()
	}
	args := []any{"model", dir.model, "weights_dir", dir.path}
	if dir.sought != nil {
		args = []any{"model", dir.model}
	}
	news := reason != dir.reason || dir.sought != nil && reason == "" && !dir.usable
	switch {
	case !news:
	case reason == "":
		f.log.Info("the files of a model can be proven to the platform now", args...)
	case dir.sought != nil: // no warning, because the owner did not ask for proofs
		f.log.Info("the files of a model were not found", append(args, "reason", reason)...)
	default:
		f.log.Warn("the files of a model cannot be proven to the platform", append(args, "reason", reason)...)
	}
	dir.usable, dir.reason = reason == "", reason
}

func (dir *folder) look(ctx context.Context, open func(path string) (files, error)) error {
	dir.looks.Store(true)
	select {
	case dir.turn <- struct{}{}:
	default:
		dir.looks.Store(false)
		return errBusy
	}
	return dir.use(ctx, func() error {
		defer dir.looks.Store(false)
		if dir.sought != nil {
			return dir.sought.look()
		}
		opened, err := open(dir.path)
		if err != nil {
			return err
		}
		return opened.Close()
	})
}

// Answer answers a challenge of a model. The answer names no path of the machine.
func (f *Folders) Answer(ctx context.Context, model string, c fingerprint.Challenge) fingerprint.Result {
	dir := f.of(model)
	if dir == nil {
		return fingerprint.Failed(errNoFolder.Error())
	}
	answer := make(chan fingerprint.Result, 1)
	err := dir.take(ctx, func() error {
		opened, err := dir.files(f.open)
		if err != nil {
			f.log.Warn("a challenge of a model's files cannot be answered", "model", model, "reason", err)
			return errNoOpen
		}
		defer opened.Close()
		answer <- fingerprint.Answer(ctx, opened, c)
		return nil
	})
	if err != nil {
		return fingerprint.Failed(err.Error())
	}
	r := <-answer
	if r.Error != "" {
		f.log.Warn("a challenge of a model's files is answered in part", "model", model, "reason", r.Error)
	}
	return r
}

// files opens the folder, or the files that were found.
func (dir *folder) files(open func(path string) (files, error)) (files, error) {
	if dir.sought != nil {
		return dir.sought.open()
	}
	return open(dir.path)
}

// take calls work once the folder is not used by a look. It fails at once where another
// answer uses the folder.
func (dir *folder) take(ctx context.Context, work func() error) error {
	looks := dir.looks.Load()
	select {
	case dir.turn <- struct{}{}:
		return dir.use(ctx, work)
	default:
	}
	if !looks {
		return errBusy
	}
	select {
	case dir.turn <- struct{}{}:
		return dir.use(ctx, work)
	case <-ctx.Done():
		return errTime
	}
}

// use calls work, which uses the folder, in the turn that the caller took, and waits for
// it until ctx ends. work goes on then, and the folder is busy until work returns.
func (dir *folder) use(ctx context.Context, work func() error) error {
	done := make(chan error, 1)
	go func() {
		err := work()
		<-dir.turn // before the result, so that the next challenge finds the folder free
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errTime
	}
}
