package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"debug/macho"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// builtAgents returns the folder that make agents wrote. Without SVC_AGENTS, which make agents-check
// sets, the test is skipped.
func builtAgents(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("SVC_AGENTS")
	if dir == "" {
		t.Skip("SVC_AGENTS is not set: run make agents-check")
	}
	return dir
}

// packed is a member of an archive.
type packed struct {
	name string
	mode int64
	text []byte
}

// unpacked reads the archive of a target. It fails the test for an owner other than root.
func unpacked(t *testing.T, path string) []packed {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []packed
	for r := tar.NewReader(compressed); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if owner := fmt.Sprint(h.Uid, h.Gid); owner != "0 0" {
			t.Errorf("%s: owner: got %s, want 0 0", h.Name, owner)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, packed{h.Name, h.Mode, text})
	}
}

func TestEachBuiltArchiveHoldsAProgramOfItsSystem(t *testing.T) {
	dir := builtAgents(t)
	for _, target := range targets {
		t.Run(target.String(), func(t *testing.T) {
			top := "svc-agent-" + target.system + "-" + target.architecture
			want := []packed{{name: top + "/", mode: 0o755}, {name: top + "/svc-agent", mode: 0o755},
				{name: top + "/LICENSE", mode: 0o644}, {name: top + "/README.md", mode: 0o644}}
			members := unpacked(t, filepath.Join(dir, top+".tar.gz"))
			same := slices.EqualFunc(members, want, func(a, b packed) bool { return a.name == b.name && a.mode == b.mode })
			if !same {
				t.Fatalf("members: got %d, want %d with the modes of %v", len(members), len(want), want)
			}
			if target.system == "linux" {
				wantStaticELF(t, members[1].text, target.architecture)
			} else {
				wantMachO(t, members[1].text, target.architecture)
			}
		})
	}
}

// wantStaticELF fails the test unless a program is for Linux and links no library.
func wantStaticELF(t *testing.T, text []byte, architecture string) {
	t.Helper()
	file, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	if file.Machine != machines[architecture] {
		t.Errorf("machine: got %v, want %v", file.Machine, machines[architecture])
	}
	loaded := []elf.ProgType{elf.PT_INTERP, elf.PT_DYNAMIC}
	for _, p := range file.Progs {
		if slices.Contains(loaded, p.Type) {
			t.Errorf("a part for the loader of libraries: got %v, want none", p.Type)
		}
	}
}

// loadSignature is the load command of Mach-O for a code signature.
const loadSignature = 0x1d

// wantMachO fails the test unless a program is for macOS, links only the system's own libraries and, for
// Apple's own processors, has a code signature, because they start no program without one. The linker
// makes that signature without a key.
func wantMachO(t *testing.T, text []byte, architecture string) {
	t.Helper()
	if magic := hex.EncodeToString(text[:4]); magic != "cffaedfe" {
		t.Errorf("magic: got %s, want cffaedfe", magic)
	}
	file, err := macho.NewFile(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if file.Type != macho.TypeExec {
		t.Errorf("type: got %v, want %v", file.Type, macho.TypeExec)
	}
	processors := map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64}
	if file.Cpu != processors[architecture] {
		t.Errorf("processor: got %v, want %v", file.Cpu, processors[architecture])
	}
	libraries, err := file.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range libraries {
		if !strings.HasPrefix(library, "/usr/lib/") && !strings.HasPrefix(library, "/System/Library/") {
			t.Errorf("library: got %s, want none but the system's", library)
		}
	}
	signed := slices.ContainsFunc(file.Loads, func(l macho.Load) bool {
		return file.ByteOrder.Uint32(l.Raw()) == loadSignature
	})
	if architecture == "arm64" && !signed {
		t.Error("it has no signature, so that no Mac would start it")
	}
}

// Debian's own program installs the package into a folder, and removes it again.
func TestEachBuiltPackageInstallsIntoAFolder(t *testing.T) {
	dir := builtAgents(t)
	if os.Getuid() != 0 {
		t.Skip("only root gives files to root")
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		root := debianRoot(t)
		dpkg := func(args ...string) {
			t.Helper()
			args = append([]string{"--root=" + root, "--force-architecture"}, args...)
			if text, err := exec.CommandContext(t.Context(), "dpkg", args...).CombinedOutput(); err != nil {
				t.Fatalf("dpkg %q: got the error %v, want none: %s", args, err, text)
			}
		}
		dpkg("--install", filepath.Join(dir, "svc-agent-"+architecture+".deb"))
		dpkg("--verify", "svc-agent")
		program := filepath.Join(root, "usr/bin/svc-agent")
		packed, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		archived := unpacked(t, filepath.Join(dir, "svc-agent-linux-"+architecture+".tar.gz"))[1].text
		if !bytes.Equal(packed, archived) {
			t.Errorf("%s: the package and the archive hold different programs", architecture)
		}
		if architecture == runtime.GOARCH {
			text, err := exec.CommandContext(t.Context(), program, "version").CombinedOutput()
			if err != nil {
				t.Errorf("version: got the error %v, want none: %s", err, text)
			}
		}
		dpkg("--remove", "svc-agent")
		if _, err := os.Stat(program); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: after it was removed: got the error %v, want that it is not there", architecture, err)
		}
	}
}

// debianRoot makes a folder with dpkg's empty records.
func debianRoot(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is not here")
	}
	root := t.TempDir()
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}
