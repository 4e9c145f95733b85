package hardware

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// printing stands for a machine whose programs print what is given.
func printing(t *testing.T, programs map[string]string) run {
	return func(_ context.Context, name string, args ...string) ([]byte, error) {
		text, ok := programs[name]
		if !ok {
			return nil, &exec.Error{Name: name, Err: exec.ErrNotFound}
		}
		if len(args) == 0 {
			t.Errorf("arguments of %s: got 0, want at least 1", name)
		}
		return []byte(text), nil
	}
}

func TestMachinesAreReportedByTheirWeakestGPU(t *testing.T) {
	for name, c := range map[string]struct {
		system, nvidia, sysctl string
		want                   *Report
	}{
		"one GPU": {system: "linux", nvidia: "NVIDIA GeForce RTX 4090, 24564, 550.54.14, 8.9\n",
			want: &Report{Type: "RTX 4090", Model: "NVIDIA GeForce RTX 4090", Count: 1, MemoryMB: 24564,
				ComputeCapability: "8.9", Driver: "550.54.14"}},
		"two of a kind, Windows": {system: "windows",
			nvidia: "NVIDIA H100 PCIe, 81559, 550.54, 9.0\r\nNVIDIA H100 PCIe, 81559, 550.54, 9.0\r\n",
			want: &Report{Type: "H100 PCIe", Model: "NVIDIA H100 PCIe", Count: 2, MemoryMB: 81559, ComputeCapability: "9.0",
				Driver: "550.54"}},
		"the second is weaker": {system: "linux",
			nvidia: "NVIDIA B200, 183359, 1, 10.0\nNVIDIA GeForce RTX 4060, 8188, 1, 8.9\n",
			want: &Report{Type: "B200", Model: "NVIDIA B200", Count: 2, MemoryMB: 8188, ComputeCapability: "8.9",
				Driver: "1"}},
		"the second is newer": {system: "linux",
			nvidia: "NVIDIA GeForce RTX 3060, 12288, 1, 8.6\nNVIDIA GeForce RTX 5090, 32607, 1, 12.0\n",
			want: &Report{Type: "RTX 3060", Model: "NVIDIA GeForce RTX 3060", Count: 2, MemoryMB: 12288,
				ComputeCapability: "8.6", Driver: "1"}},
		"what the driver does not know": {system: "linux", nvidia: "NVIDIA GB10, [N/A], [N/A], 12.1\n",
			want: &Report{Type: "GB10", Model: "NVIDIA GB10", Count: 1, ComputeCapability: "12.1"}},
		"one capability is not known": {system: "linux", nvidia: "Tesla K80, 11441, 470, 3.7\nTesla K80, 11441, 470, [N/A]\n",
			want: &Report{Type: "Tesla K80", Model: "Tesla K80", Count: 2, MemoryMB: 11441, Driver: "470"}},
		"a name with a comma": {system: "linux", nvidia: "Maker, Model X, 100, 1, 8.0\n",
			want: &Report{Type: "Maker, Model X", Model: "Maker, Model X", Count: 1, MemoryMB: 100, ComputeCapability: "8.0",
				Driver: "1"}},
		"a quoted name": {system: "linux", nvidia: "\"Maker, Model X\", 100, 1, 8.0\n",
			want: &Report{
				Type: "Maker, Model X", Model: "Maker, Model X", Count: 1, MemoryMB: 100, ComputeCapability: "8.0", Driver: "1",
			}},
		"a quote in a name": {system: "linux", nvidia: "Model 7\" X, 100, 1, 8.0\n",
			want: &Report{Type: "Model 7\" X", Model: "Model 7\" X", Count: 1, MemoryMB: 100, ComputeCapability: "8.0",
				Driver: "1"}},
		"no GPU but words": {system: "linux", nvidia: "No devices were found\n"},
		"no program":       {system: "linux"},
		"an Apple": {system: "darwin", sysctl: "Apple M3 Max\n137438953472\n",
			want: &Report{Type: "m3_max", Model: "Apple M3 Max", Count: 1, MemoryMB: 131072}},
		"the first Apple": {system: "darwin", sysctl: "Apple M1\n17179869184\n",
			want: &Report{Type: "m1", Model: "Apple M1", Count: 1, MemoryMB: 16384}},
		"an Intel Mac":            {system: "darwin", sysctl: "Intel(R) Core(TM) i9-9880H CPU @ 2.30GHz\n17179869184\n"},
		"an Apple without sysctl": {system: "darwin"},
	} {
		t.Run(name, func(t *testing.T) {
			programs := map[string]string{}
			if c.nvidia != "" {
				programs["nvidia-smi"] = c.nvidia
			}
			if c.sysctl != "" {
				programs["sysctl"] = c.sysctl
			}
			got, err := detect(t.Context(), printing(t, programs), c.system)
			if err != nil {
				t.Fatal(err)
			}
			if (got == nil) != (c.want == nil) {
				t.Errorf("the report: got == nil: got %t, want %t", got == nil, c.want == nil)
			} else if got != nil && *got != *c.want {
				t.Errorf("the report: *got: got %+v, want %+v", *got, *c.want)
			}
		})
	}
}

func TestProgramsAreBoundedInTimeAndOutput(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if out, err := runProgram(t.Context(), script("ok", "echo one GPU")); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if string(out) != "one GPU\n" {
		t.Errorf("out: got %q, want %q", string(out), "one GPU\n")
	}
	if out, err := runProgram(t.Context(), script("flood", "yes | head -c 100000")); err == nil {
		t.Errorf("%d bytes are taken", len(out))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := runProgram(ctx, script("hang", "sleep 60 & wait")); err == nil {
		t.Error("a program that hangs has succeeded")
	}
	if took := time.Since(began); took > 50*time.Second { // and not the minute that its child takes
		t.Errorf("it took: got %v, want at most %v", took, 50*time.Second)
	}
	if _, err := runProgram(t.Context(), filepath.Join(dir, "nothing")); err == nil {
		t.Error("a program that is not there has succeeded")
	}
}

func FuzzReportsAreBounded(f *testing.F) {
	f.Add("NVIDIA GeForce RTX 4090, 24564, 550.54.14, 8.9\n")
	f.Add("Apple M3 Max\n137438953472\n")
	f.Add(strings.Repeat("a, 1, 2, 3.4\n", 100))
	f.Add("\x1b[31m\u202e, -9223372036854775808, ,-1.-1\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range []*Report{parseNVIDIA(text), parseApple(text)} {
			if r == nil {
				continue
			}
			for _, s := range []string{r.Type, r.Model, r.Driver, r.ComputeCapability} {
				switch {
				case utf8.RuneCountInString(s) > maxText:
					t.Fatalf("%+v: utf8.RuneCountInString(s): got %d, want at most %d", r, utf8.RuneCountInString(s), maxText)
				case strings.ContainsAny(s, "\n\r\x1b"):
					t.Fatalf("%+v: strings.ContainsAny(…): got true, want false", r)
				case !utf8.ValidString(s):
					t.Fatalf("%+v: utf8.ValidString(s): got false, want true", r)
				}
			}
			if r.Count < 1 || r.Count > maxGPUs {
				t.Fatalf("r.Count: got %d, want 1 to %d", r.Count, maxGPUs)
			}
			if r.MemoryMB < 0 {
				t.Fatalf("r.MemoryMB: got %d, want at least 0", r.MemoryMB)
			}
		}
	})
}
