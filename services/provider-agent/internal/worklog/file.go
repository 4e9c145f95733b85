package worklog

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// The files in the state folder.
const (
	daysFile  = "work-days"
	todayFile = "work-today"
)

// maxLine bounds a line, in bytes: MaxModels names of 200 bytes with their numbers.
const maxLine = 128 << 10

// Read returns the days in a state folder, the oldest first. It may be called while an agent writes them:
// it reads the day under way first, so that it does not miss a day that ends meanwhile.
func Read(dir string) ([]Day, error) {
	today, err := readFile(filepath.Join(dir, todayFile))
	if err != nil {
		return nil, err
	}
	days, err := readFile(filepath.Join(dir, daysFile))
	if err != nil {
		return nil, err
	}
	// A day that both files have is the same day: the agent ended between writing the two, or came
	// back to a day.
	for _, d := range today {
		days = with(days, d)
	}
	return days[max(0, len(days)-MaxDays):], nil
}

// with are the days with d among them, in their order, because readFile leaves out what is not in
// order. d takes the place of the same day. The slice that was given stays as it is.
func with(days []Day, d Day) []Day {
	at, there := slices.BinarySearchFunc(days, d.Day, func(one Day, day string) int { return cmp.Compare(one.Day, day) })
	days = slices.Clone(days)
	if there {
		days[at] = d
		return days
	}
	return slices.Insert(days, at, d)
}

// readFile reads the days of a file; none where there is no file. Lines that cannot be read are left
// out, and so are days that do not follow the day before.
func readFile(path string) ([]Day, error) {
	file, err := os.Open(path) //nolint:gosec // the owner's own folder
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the counts of what was served: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, maxFile))
	lines.Buffer(nil, maxLine)
	var days []Day
	for last := ""; lines.Scan(); {
		var d Day
		if json.Unmarshal(lines.Bytes(), &d) != nil || d.Day <= last {
			continue
		}
		if d.Models == nil {
			d.Models = map[string]Work{}
		}
		last = d.Day
		days = append(days, d)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the counts of what was served: %w", err)
	}
	return days, nil
}

// linesOf writes one day a line.
func linesOf(days []Day) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	for _, d := range days {
		_ = encoder.Encode(d) // cannot fail: a Day always encodes, and a buffer takes every write
	}
	return out.Bytes()
}

// replace writes a file that only its owner may read, whole or not at all. A temporary file that an
// agent left behind goes first, whatever its mode and wherever it leads: no other one is written to.
func replace(path string, text []byte) error {
	temp := path + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { //nolint:gosec // the owner's own folder
		return err
	}
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the owner's own folder
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(temp, path) //nolint:gosec // the owner's own folder
}
