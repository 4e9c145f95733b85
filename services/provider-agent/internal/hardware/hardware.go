// Package hardware finds out what machine the agent runs on: NVIDIA GPUs as nvidia-smi
// reports them, or Apple Silicon as sysctl does. A hub decides by it whether a node may
// serve. It proves nothing, and a machine on which nothing is found reports nothing. A
// program that fails or hangs, as it does while the driver is still loading, has found
// nothing out and is run again.
//
// Of several GPUs the smallest memory and the lowest compute capability count, because an
// engine that uses all of them can rely on these only.
//
// Limits: a program may take 5 s and print 64 KiB. It is run again after 10 s, doubling
// to 10 minutes. 64 GPUs are counted, and every text is cut to 64 printable characters.
package hardware

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	patience  = 5 * time.Second
	maxOutput = 64 << 10
	maxGPUs   = 64
	maxText   = 64
)

// Report is what is known of the machine.
type Report struct {
	// Type and Model name the first GPU: RTX 4090 and NVIDIA GeForce RTX 4090, or
	// m3_max and Apple M3 Max.
	Type, Model string
	Count       int
	// MemoryMB is the memory of the smallest GPU, or the unified memory, in MiB; 0 is not
	// known.
	MemoryMB int64
	// ComputeCapability is the lowest, such as 8.9; empty when not known.
	ComputeCapability string
	Driver            string
	// Engine is the kind of engine that serves the models: sglang, vllm, ollama, llamacpp
	// or unknown. A Finder leaves it empty.
	Engine string
}

// run runs a program and returns what it prints.
type run func(ctx context.Context, name string, args ...string) ([]byte, error)

// Detect looks for GPUs once. It returns nil where there are none, or no program that reports
// them, and an error where the program fails.
func Detect(ctx context.Context) (*Report, error) { return detect(ctx, runProgram, runtime.GOOS) }

// detect looks for GPUs. It returns nil where there are none, or no program that reports
// them, and an error where the program fails.
func detect(ctx context.Context, run run, system string) (*Report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	program, args, parse := "nvidia-smi",
		[]string{"--query-gpu=name,memory.total,driver_version,compute_cap", "--format=csv,noheader,nounits"}, parseNVIDIA
	if system == "darwin" {
		program, args, parse = "sysctl", []string{"-n", "machdep.cpu.brand_string", "hw.memsize"}, parseApple
	}
	out, err := run(ctx, program, args...)
	switch {
	case err == nil:
		return parse(string(out)), nil
	case errors.Is(err, exec.ErrNotFound):
		return nil, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("run %s: %w", program, context.Cause(ctx))
	default:
		return nil, fmt.Errorf("run %s: %w", program, err)
	}
}

// parseNVIDIA reads one line for each GPU. Fields that a driver does not know are [N/A]
// or the like.
func parseNVIDIA(text string) *Report {
	table := csv.NewReader(strings.NewReader(text))
	table.FieldsPerRecord, table.LazyQuotes = -1, true // messages of the program are no table
	var r *Report
	for {
		fields, err := table.Read()
		if err != nil { // it is the end, because nothing else is a fault
			return r
		}
		if len(fields) < 4 {
			continue
		}
		// A name may hold a comma; the others cannot.
		last := len(fields) - 3
		name := clean(strings.Join(fields[:last], ","))
		if name == "" || strings.HasPrefix(name, "[") {
			continue
		}
		memory, _ := strconv.ParseInt(strings.TrimSpace(fields[last]), 10, 64) // 0 is not known
		memory = max(memory, 0)
		capability := capabilityOf(fields[last+2])
		if r == nil {
			r = &Report{
				Type: typeOf(name), Model: name, MemoryMB: memory, ComputeCapability: capability,
				Driver: known(clean(fields[last+1])),
			}
		}
		r.MemoryMB = min(r.MemoryMB, memory)
		r.ComputeCapability = lower(r.ComputeCapability, capability)
		if r.Count++; r.Count == maxGPUs {
			return r
		}
	}
}

// typeOf is the model without its maker.
func typeOf(name string) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(name, "NVIDIA "), "GeForce "))
}

// capabilityOf is a capability of the form 8.9, or empty.
func capabilityOf(text string) string {
	text = strings.TrimSpace(text)
	if _, _, ok := numbersOf(text); !ok {
		return ""
	}
	return text
}

func numbersOf(capability string) (major, minor int, ok bool) {
	whole, rest, dotted := strings.Cut(capability, ".")
	if !dotted || len(capability) > 8 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(whole)
	minor, err2 := strconv.Atoi(rest)
	return major, minor, err == nil && err2 == nil && major >= 0 && minor >= 0
}

// lower is the lower capability as a number: 8.9 is below 10.0. It is empty where either
// is.
func lower(a, b string) string {
	majorA, minorA, okA := numbersOf(a)
	majorB, minorB, okB := numbersOf(b)
	switch {
	case !okA || !okB:
		return ""
	case cmp.Or(cmp.Compare(majorA, majorB), cmp.Compare(minorA, minorB)) <= 0:
		return a
	default:
		return b
	}
}

// parseApple reads the name of the chip and the memory, one to a line. An Intel Mac has
// no GPU that counts.
func parseApple(text string) *Report {
	name, rest, _ := strings.Cut(text, "\n")
	name = clean(name)
	chip, ok := strings.CutPrefix(name, "Apple ")
	if !ok {
		return nil
	}
	size, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64) // 0 is not known
	return &Report{
		Type: strings.ReplaceAll(strings.ToLower(chip), " ", "_"), Model: name, Count: 1, MemoryMB: max(size, 0) >> 20,
	}
}

// known returns a text, and an empty text for a placeholder in brackets.
func known(text string) string {
	if strings.HasPrefix(text, "[") {
		return ""
	}
	return text
}

// clean keeps the characters that can be shown in one line.
func clean(text string) string {
	out := make([]rune, 0, maxText)
	for _, r := range strings.TrimSpace(text) {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar && len(out) < maxText {
			out = append(out, r)
		}
	}
	return string(out)
}

var errTooMuch = errors.New("the program prints too much")

// runProgram runs a program. It ends with ctx, whatever the program does.
func runProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // the names are this package's
	out := &bounded{}
	cmd.Stdout = out
	// A child of the program could keep its output open.
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return out.text.Bytes(), nil
}

// bounded keeps up to maxOutput bytes.
type bounded struct{ text bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxOutput {
		return 0, errTooMuch
	}
	return b.text.Write(p)
}
