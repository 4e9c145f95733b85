package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"inference-bench/internal/record"
)

// machine is what is recorded about the machine: the day, its processor and cores,
// and the versions of what the product is made with.
func machine(now time.Time, postgres string) []record.Record {
	text, _ := os.ReadFile("/proc/cpuinfo") // elsewhere than on Linux the model stays unknown
	cpu := fmt.Sprintf("%d cores", runtime.NumCPU())
	if model := cpuModel(string(text)); model != "" {
		cpu = model + ", " + cpu
	}
	about := func(name, text string) record.Record {
		return record.Record{Target: record.Machine, Measure: name, Text: text}
	}
	recs := []record.Record{
		about("date", now.UTC().Format(time.DateOnly)), about("cpu", cpu),
		about("go", "Go "+strings.TrimPrefix(runtime.Version(), "go")),
	}
	if version := postgresVersion(postgres); version != "" {
		recs = append(recs, about("postgres", "PostgreSQL "+version))
	}
	return recs
}

// cpuModel is the name of the first processor in /proc/cpuinfo; "" if there is none.
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)*`)

// postgresVersion is the number in what postgres --version prints.
func postgresVersion(text string) string { return versionNumber.FindString(text) }
