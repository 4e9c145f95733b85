package offer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/jsonscan"
	"svc.internal/services/provider-agent/internal/filelock"
)

// Add adds a model to the text of a models.json, which may be empty. It keeps the form of the file and
// every byte of it: the new entry follows the last one, after the same white space.
func Add(existing []byte, m Model) ([]byte, error) {
	if len(bytes.TrimSpace(existing)) == 0 {
		return parsed([]byte("{\n  " + entryOf(m, false) + "\n}\n"))
	}
	at, err := entriesOf(existing)
	if err != nil {
		return nil, err
	}
	for _, e := range at.entries {
		if e.id == m.ModelID {
			return nil, fmt.Errorf("%s is in the file already: change its entry there, or remove it first", m.ModelID)
		}
	}
	last := at.entries[len(at.entries)-1]
	before := existing[:last.span.Start]
	space := before[len(bytes.TrimRight(before, " \t\r\n")):]
	entry := "," + string(space) + entryOf(m, at.list)
	return parsed(bytes.Join([][]byte{existing[:last.span.End], existing[last.span.End:]}, []byte(entry)))
}

// Remove removes a model from the text of a models.json, and keeps every other byte.
func Remove(existing []byte, modelID string) ([]byte, error) {
	at, err := entriesOf(existing)
	if err != nil {
		return nil, err
	}
	for i, e := range at.entries {
		switch {
		case e.id != modelID:
			continue
		case len(at.entries) == 1:
			return nil, fmt.Errorf("%s is the only model, and an agent offers at least one: svc-agent drain ends the agent",
				modelID)
		case i == 0: // up to the next entry
			return parsed(slices.Concat(existing[:e.span.Start], existing[at.entries[1].span.Start:]))
		}
		return parsed(slices.Concat(existing[:at.entries[i-1].span.End], existing[e.span.End:]))
	}
	return nil, fmt.Errorf("%s is not in the file", modelID)
}

// placed has the entries of a file with their places.
type placed struct {
	list    bool
	entries []placedEntry
}

// placedEntry is one entry. In a map its span includes the key.
type placedEntry struct {
	id   string
	span jsonscan.Span
}

// entriesOf finds the entries of a text. It fails for a text with a fault; any other has at least one
// entry.
func entriesOf(text []byte) (placed, error) {
	models, err := Parse(text)
	if err != nil {
		return placed{}, err
	}
	p := newParser(text)
	cursor := p.doc.Cursor()
	within := cursor.Skip()
	for key, value := range p.members(within, "") {
		if key != "models" {
			continue
		}
		if within = value.Value; value.Kind == jsonscan.Array {
			var at placed
			at.list = true
			for element, err := range p.doc.Array(within) {
				if err != nil {
					return placed{}, err
				}
				at.entries = append(at.entries, placedEntry{models[len(at.entries)].ModelID, element.Value})
			}
			return at, nil
		}
	}
	var at placed
	for member, err := range p.doc.Object(within) {
		if err != nil {
			return placed{}, err
		}
		at.entries = append(at.entries, placedEntry{string(member.Key.Name(text)),
			jsonscan.Span{Start: member.Key.Span.Start - 1, End: member.Value.End}}) // with the key's quote
	}
	return at, nil
}

// entryOf returns the text of an entry. In a map the endpoint is written without /v1, because agents for
// dialect v1 add that.
func entryOf(m Model, list bool) string {
	text := func(s string) string { return string(jsonscan.AppendString(nil, s)) }
	entry, root := "", m.EngineURL
	if list {
		entry = `{"model_id": ` + text(m.ModelID) + `, "engine_url": `
	} else {
		entry, root = text(m.ModelID)+`: {"endpoint": `, strings.TrimSuffix(Root(root), "/v1")
	}
	entry += text(root)
	if m.LocalModel != "" && m.LocalModel != m.ModelID {
		entry += `, "local_model": ` + text(m.LocalModel)
	}
	return entry + "}"
}

// parsed returns a text, and fails where it has a fault.
func parsed(text []byte) ([]byte, error) {
	if _, err := Parse(text); err != nil {
		return nil, err
	}
	return text, nil
}

// errMeanwhile means that somebody else has changed the file.
var errMeanwhile = errors.New("the file has changed meanwhile: try again")

// errUnderWay means that another edit has not ended.
var errUnderWay = errors.New("another command is changing a file of its folder: try again")

const (
	// lockPatience is how long an edit waits for another one, and lockInterval the pause between
	// two looks.
	lockPatience = 5 * time.Second
	lockInterval = 20 * time.Millisecond
)

// Edit changes the file at path by change, whole or not at all. It keeps the file's mode, owner and
// group, because the service that reads the file is often another user's; a file that was not there
// is for its owner alone. A link to the file stays. Of two edits at once, one waits for the other.
func Edit(path string, change func(existing []byte) ([]byte, error)) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write the models: %w", err)
	}
	folder, err := lockFolder(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("%s is not changed: %w", path, err)
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	existing, info, err := read(path)
	if err != nil {
		return err
	}
	changed, err := change(existing)
	if err != nil {
		return fmt.Errorf("%s is not changed: %w", path, err)
	}
	temp, err := temporary(path, info, changed)
	if err != nil {
		return fmt.Errorf("write the models: %w", err)
	}
	again, _, err := read(path) // an editor takes no lock
	if err == nil && !bytes.Equal(again, existing) {
		err = errMeanwhile
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s is not changed: %w", path, err), os.Remove(temp))
	}
	return nil
}

// lockFolder keeps other edits out of a folder until it is closed. The folder is locked and not the
// file, because each edit puts another file in its place. Where a folder cannot be locked, as on some
// network file systems, an edit goes on without.
func lockFolder(dir string) (*os.File, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	look, patience := time.NewTicker(lockInterval), time.NewTimer(lockPatience)
	defer look.Stop()
	defer patience.Stop()
	for {
		if taken, _ := filelock.Take(folder); !taken {
			return folder, nil
		}
		select {
		case <-look.C:
		case <-patience.C:
			return nil, errors.Join(errUnderWay, folder.Close())
		}
	}
}

// read is a file's content and what else is to be kept of it; nil where there is no file.
func read(path string) ([]byte, fs.FileInfo, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the models: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("read the models: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("read the models: %w", err)
	case len(text) > maxFile:
		return nil, nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return text, info, nil
}

// temporary writes a file beside path, with the mode, owner and group of the file that it is to
// replace, and returns its name. replaced is nil where there is none.
func temporary(path string, replaced fs.FileInfo, text []byte) (name string, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".models-*") // of mode 0600
	if err != nil {
		return "", err
	}
	_, err = file.Write(text)
	if err == nil && replaced != nil {
		// The owner comes first, so that no group reads the file whose mode is of another group.
		err = errors.Join(keepOwner(file, replaced), file.Chmod(replaced.Mode().Perm()))
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}
