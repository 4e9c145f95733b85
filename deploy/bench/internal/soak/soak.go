// Package soak reads for hours what a product holds while it serves a steady load: memory,
// goroutines, open files, folders, tables. What grows without end shows as a slope.
package soak

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"inference-bench/internal/proc"
	"inference-bench/internal/slope"
	"inference-bench/internal/vitals"
)

// Product is what is read.
type Product struct {
	Program vitals.Process
	// Group is all of its processes, the program and its database.
	Group proc.Group
	// Folders are read by name.
	Folders map[string]string
	// Database is its PostgreSQL.
	Database string
}

// Unit is what a series counts.
type Unit string

// The units.
const (
	Bytes Unit = "bytes"
	Count Unit = ""
)

// Series is one thing over time.
type Series struct {
	Name string `json:"name"`
	Unit Unit   `json:"unit,omitempty"`
	// Served reports whether the series is a table, which may grow with what was served.
	Served   bool            `json:"served,omitempty"`
	Readings []slope.Reading `json:"-"`
	slope.Line
}

// Read reads everything each interval until ctx ends, and returns the series in the order in
// which they were met first. told is called with each reading's number.
func (p Product) Read(ctx context.Context, interval time.Duration, told func(int)) ([]*Series, error) {
	conn, err := pgx.Connect(ctx, p.Database)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	begun := time.Now()
	book := book{named: map[string]*Series{}}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		book.hours = time.Since(begun).Hours()
		if err := p.once(ctx, conn, &book); err != nil {
			if ctx.Err() != nil {
				return book.all, nil
			}
			return nil, err
		}
		told(n)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return book.all, nil
		}
	}
}

// book keeps the series.
type book struct {
	hours float64
	all   []*Series
	named map[string]*Series
}

func (b *book) note(name string, unit Unit, served bool, value float64) {
	s := b.named[name]
	if s == nil {
		s = &Series{Name: name, Unit: unit, Served: served}
		b.named[name], b.all = s, append(b.all, s)
	}
	s.Readings = append(s.Readings, slope.Reading{Hours: b.hours, Value: value})
}

func (p Product) once(ctx context.Context, conn *pgx.Conn, b *book) error {
	live, err := p.Program.Collect(ctx)
	if err != nil {
		return fmt.Errorf("collect the program's garbage: %w", err)
	}
	b.note("heap in use behind a collection", Bytes, false, float64(live.Heap))
	b.note("stacks", Bytes, false, float64(live.Stacks))
	b.note("resident memory of the program", Bytes, false, float64(p.Program.Resident()))
	var others []int
	for _, pid := range p.Group.Pids() {
		if pid != p.Program.Pid {
			others = append(others, pid)
		}
	}
	b.note("memory of PostgreSQL", Bytes, false, float64(proc.Memory(others)))
	b.note("processes of PostgreSQL", Count, false, float64(len(others)))
	goroutines, err := p.Program.Gauge(ctx, "go_goroutines")
	if err != nil {
		return fmt.Errorf("count goroutines: %w", err)
	}
	b.note("goroutines", Count, false, goroutines)
	files, err := os.ReadDir("/proc/" + strconv.Itoa(p.Program.Pid) + "/fd")
	if err != nil {
		return fmt.Errorf("count open files: %w", err)
	}
	b.note("open files", Count, false, float64(len(files)))
	for name, folder := range p.Folders {
		size, err := folderSize(folder)
		if err != nil {
			return fmt.Errorf("measure %s: %w", name, err)
		}
		b.note("folder of "+name, Bytes, false, float64(size))
	}
	return tables(ctx, conn, b)
}

// tables reads the size of each table with its indexes.
func tables(ctx context.Context, conn *pgx.Conn, b *book) error {
	rows, err := conn.Query(ctx, `SELECT schemaname || '.' || relname, pg_total_relation_size(relid)
		FROM pg_stat_user_tables WHERE pg_total_relation_size(relid) > 0 ORDER BY 1`)
	if err != nil {
		return fmt.Errorf("measure tables: %w", err)
	}
	var name string
	var size int64
	_, err = pgx.ForEachRow(rows, []any{&name, &size}, func() error {
		b.note("table "+name, Bytes, true, float64(size))
		return nil
	})
	if err != nil {
		return fmt.Errorf("measure tables: %w", err)
	}
	return nil
}

// folderSize is the size of all files below a folder. Files that end meanwhile do not count.
func folderSize(folder string) (sum int64, err error) {
	err = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum, err
}
