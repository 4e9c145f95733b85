// Package weights answers challenges of the files of models: it proves to the platform
// that they are within the machine's reach (pkg/fingerprint has the rules).
//
// The owner names one folder for each model, or none. Look opens each folder once and says
// in the log which ones cannot be used; a folder that cannot is no reason not to serve.
// Watch looks again every minute, because a folder may be made, or a disk mounted, after
// the agent was started. Each answer opens its folder anew, because files may be put in
// place, or replaced, while the agent runs.
//
// A file system may hang for ever, and a system call on it cannot be broken off. Look and
// Answer return when their context ends all the same, and then leave the call behind. They
// leave at most one behind for each folder: a folder whose last call has not returned is
// busy. An answer waits for a look, which takes no longer than the file system does.
package weights

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
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
	log    *slog.Logger
	models map[string]*folder
	open   func(path string) (files, error)
}

// files are the files of an opened folder.
type files interface {
	fs.FS
	io.Closer
}

// folder is the folder of one model.
type folder struct {
	model, path string
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

// New makes folders from their paths by model id. It does not look at them.
func New(paths map[string]string, log *slog.Logger) *Folders {
	f := &Folders{log: log, models: map[string]*folder{}, open: func(path string) (files, error) {
		return fingerprint.OpenDir(path)
	}}
	for model, path := range paths {
		f.models[model] = &folder{model: model, path: path, turn: make(chan struct{}, 1)}
	}
	return f
}

// Usable reports whether a folder could be opened at the last look.
func (f *Folders) Usable() bool {
	for _, dir := range f.models {
		dir.mu.Lock()
		usable := dir.usable
		dir.mu.Unlock()
		if usable {
			return true
		}
	}
	return false
}

// Look opens each folder once. It returns when all are opened or ctx has ended.
func (f *Folders) Look(ctx context.Context) {
	var all sync.WaitGroup
	for _, dir := range f.models {
		all.Go(func() {
			f.tell(dir, dir.look(ctx, f.open))
		})
	}
	all.Wait()
}

// Watch looks at the folders every minute until ctx ends.
func (f *Folders) Watch(ctx context.Context) {
	if len(f.models) == 0 {
		return
	}
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
	switch reason {
	case dir.reason:
	case "":
		f.log.Info("the files of a model can be proven to the platform now", args...)
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
		opened, err := open(dir.path)
		if err != nil {
			return err
		}
		return opened.Close()
	})
}

// Answer answers a challenge of a model. The answer names no path of the machine.
func (f *Folders) Answer(ctx context.Context, model string, c fingerprint.Challenge) fingerprint.Result {
	dir := f.models[model]
	if dir == nil {
		return fingerprint.Failed(errNoFolder.Error())
	}
	answer := make(chan fingerprint.Result, 1)
	err := dir.take(ctx, func() error {
		opened, err := f.open(dir.path)
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
