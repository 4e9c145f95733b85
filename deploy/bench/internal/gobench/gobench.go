// Package gobench reads what `go test -bench` prints.
package gobench

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Line is one benchmark's result. Metrics are by unit: ns/op, and the metrics
// that the benchmark reports itself, such as admissions/s.
type Line struct {
	// Name is without the word Benchmark and without the number of
	// processors.
	Name    string
	Metrics map[string]float64
}

// maxLine bounds what one line may hold.
const maxLine = 64 << 10

// Parse reads all results. Other lines are passed over; a line that begins
// like a result and is none, or a benchmark that failed, is an error.
func Parse(r io.Reader) ([]Line, error) {
	var out []Line
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		text := in.Text()
		if strings.HasPrefix(text, "--- FAIL") || text == "FAIL" || strings.HasPrefix(text, "FAIL\t") {
			return nil, fmt.Errorf("a benchmark failed: %s", text)
		}
		f := strings.Fields(text)
		if len(f) < 2 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		if _, err := strconv.Atoi(f[1]); err != nil {
			continue // a line of the benchmark's own log
		}
		line, err := parse(f)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		out = append(out, line)
	}
	return out, in.Err()
}

func parse(f []string) (Line, error) {
	if len(f)%2 != 0 {
		return Line{}, fmt.Errorf("%d fields are no pairs", len(f))
	}
	line := Line{Name: name(f[0]), Metrics: map[string]float64{}}
	for i := 2; i < len(f); i += 2 {
		v, err := strconv.ParseFloat(f[i], 64)
		if err != nil {
			return Line{}, fmt.Errorf("%q is no number", f[i])
		}
		line.Metrics[f[i+1]] = v
	}
	return line, nil
}

func name(s string) string {
	s = strings.TrimPrefix(s, "Benchmark")
	if i := strings.LastIndexByte(s, '-'); i > 0 {
		if _, err := strconv.Atoi(s[i+1:]); err == nil {
			s = s[:i]
		}
	}
	return s
}
