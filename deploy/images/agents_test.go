package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"svc.internal/deploy/images/archive"
)

// distribution writes what make agents writes, with a script as the agent.
func distribution(t *testing.T) string {
	t.Helper()
	return distributionOf(t, "#!/bin/sh\necho svc-agent of the test\n")
}

// distributionOf makes a distribution with script as the program.
func distributionOf(t *testing.T, script string) string {
	t.Helper()
	docs := []archive.File{{Name: "LICENSE", Bytes: []byte("l\n")}, {Name: "README.md", Bytes: []byte("r\n")}}
	made := make([][]archive.File, len(targets))
	for i, target := range targets {
		var err error
		if made[i], err = archivesOf(target, []byte(script), docs, testCommit); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "agents")
	if err := writeAgents(out, made); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEverySystemHasAnArchiveAndLinuxAPackage(t *testing.T) {
	out := distribution(t)
	sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"svc-agent-linux-amd64.tar.gz", "svc-agent-linux-arm64.tar.gz",
		"svc-agent-darwin-amd64.tar.gz", "svc-agent-darwin-arm64.tar.gz", "svc-agent-amd64.deb", "svc-agent-arm64.deb",
		"install.sh"} {
		if !bytes.Contains(sums, []byte("  "+name+"\n")) {
			t.Errorf("SHA256SUMS: got %q, want %q in it", sums, name)
		}
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		}
	}
}

func TestUnderUmask077EverybodyMayReadTheArchives(t *testing.T) {
	before := syscall.Umask(0o077)
	out := distribution(t)
	syscall.Umask(before)
	folder, err := os.Stat(out)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := folder.Mode().Perm(), os.FileMode(0o755); got != want {
		t.Errorf("the folder: got mode %v, want %v", got, want)
	}
	files, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm() & 0o444; got != 0o444 {
			t.Errorf("%s: got the rights to read %v, want everybody's", file.Name(), got)
		}
	}
}

// installs runs the install.sh of a distribution with a home folder, and returns what it prints.
func installs(t *testing.T, out, home string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{filepath.Join(out, "install.sh")}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

// hostArchive returns the path of a distribution's archive for this machine.
func hostArchive(out string) string {
	return filepath.Join(out, "svc-agent-"+runtime.GOOS+"-"+runtime.GOARCH+".tar.gz")
}

func TestTheScriptInstallsOnlyWhatTheChecksumsName(t *testing.T) {
	out, home := distribution(t), t.TempDir()
	program := filepath.Join(home, ".local/bin/svc-agent")
	if text, err := installs(t, out, home, "--dry-run"); err != nil {
		t.Errorf("a dry run: got the error %v, want none: %s", err, text)
	}
	if _, err := os.Stat(program); err == nil {
		t.Error("a dry run has installed something")
	}
	text, err := installs(t, out, home)
	if err != nil {
		t.Fatalf("got the error %v, want none: %s", err, text)
	}
	for _, want := range []string{hostArchive(out), "not verified", program, "installed: svc-agent of the test"} {
		if !strings.Contains(text, want) {
			t.Errorf("got %q, want %q in it", text, want)
		}
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	other := distributionOf(t, "#!/bin/sh\necho svc-agent of somebody else\n")
	if err := os.Rename(hostArchive(other), hostArchive(out)); err != nil {
		t.Fatal(err)
	}
	text, err = installs(t, out, home)
	if err == nil {
		t.Error("an archive that was changed: got no error, want one")
	}
	if !strings.Contains(text, "the checksum of") {
		t.Errorf("an archive that was changed: got %q, want that its checksum is another", text)
	}
	if _, err := os.Stat(program); err == nil {
		t.Error("an archive that was changed is installed")
	}
}

// releaseKey makes a key with ssh-keygen, and returns the path of its file.
func releaseKey(t *testing.T) string {
	t.Helper()
	return releaseKeyOf(t, "ed25519")
}

// releaseKeyOf is a key of a kind.
func releaseKeyOf(t *testing.T, kind string) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "release")
	cmd := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", key)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a key: %v: %s", err, text)
	}
	return key
}

func TestAGivenKeyInstallsOnlyWhatItHasSigned(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not here")
	}
	out, home, key := distribution(t), t.TempDir(), releaseKey(t)
	program := filepath.Join(home, ".local/bin/svc-agent")
	refused := func(what, public, want string) {
		t.Helper()
		text, err := installs(t, out, home, "--key", public)
		if err == nil {
			t.Errorf("%s: got no error, want one", what)
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: got %q, want %q in it", what, text, want)
		}
		if _, err := os.Stat(program); err == nil {
			t.Errorf("%s: it is installed", what)
		}
	}
	refused("no signature", key+".pub", "not signed")
	refused("no key", filepath.Join(home, "absent"), "neither a key")
	if err := sign(t.Context(), out, key); err != nil {
		t.Fatal(err)
	}
	refused("another key", releaseKey(t)+".pub", "not signed by the key")
	line, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	for what, public := range map[string]string{"a file": key + ".pub", "a line": string(line)} {
		if text, err := installs(t, out, home, "--key", public); err != nil {
			t.Errorf("%s: got the error %v, want none: %s", what, err, text)
		}
		if err := os.Remove(program); err != nil {
			t.Errorf("%s: got the error %v, want an installed program", what, err)
		}
	}
	sums := filepath.Join(out, sumsName)
	text, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sums, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("checksums that were changed", key+".pub", "not signed by the key")
}

// A release may be signed by a key of each kind that ssh-keygen makes, hardware included.
func TestAKeyOfEachKindMayBeGivenAsALineOrAFile(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not here")
	}
	out, home, key := distribution(t), t.TempDir(), releaseKeyOf(t, "ecdsa")
	if err := sign(t.Context(), out, key); err != nil {
		t.Fatal(err)
	}
	line, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	for what, public := range map[string]string{"a file": key + ".pub", "a line": string(line)} {
		if text, err := installs(t, out, home, "--key", public); err != nil {
			t.Errorf("%s: got the error %v, want none: %s", what, err, text)
		}
	}
	empty := filepath.Join(home, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for public, want := range map[string]string{
		"sk-ssh-ed25519@openssh.com AAAA":         "not signed by the key",
		"sk-ecdsa-sha2-nistp256@openssh.com AAAA": "not signed by the key",
		"":      "needs a value",
		empty:   "neither a key",
		key:     "neither a key", // the private key
		"AAAA=": "neither a key",
	} {
		text, err := installs(t, out, home, "--key", public)
		if err == nil {
			t.Errorf("%q: got no error, want one", public)
		}
		if !strings.Contains(text, want) {
			t.Errorf("%q: got %q, want %q in it", public, text, want)
		}
	}
}

// Others may write into the folder of programs.
func TestNothingThatLiesInTheFolderIsWrittenTo(t *testing.T) {
	out, home := distribution(t), t.TempDir()
	bin, theirs := filepath.Join(home, ".local/bin"), filepath.Join(home, "theirs")
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.WriteFile(theirs, []byte("theirs"), 0o600),
		os.Symlink(theirs, filepath.Join(bin, ".svc-agent.new"))); err != nil {
		t.Fatal(err)
	}
	entries := func(what string, want int) {
		t.Helper()
		left, err := os.ReadDir(bin)
		if err != nil {
			t.Fatal(err)
		}
		if len(left) != want {
			t.Errorf("%s: files in the folder: got %d, want %d", what, len(left), want)
		}
	}
	if text, err := installs(t, out, home); err != nil {
		t.Fatalf("got the error %v, want none: %s", err, text)
	}
	entries("installed", 2)
	text, err := os.ReadFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != "theirs" {
		t.Errorf("the file behind the link: got %q, want %q", text, "theirs")
	}
	if text, err := installs(t, distributionOf(t, "#!/bin/sh\nexit 1\n"), home); err == nil {
		t.Errorf("a program that does not start: got %q, want an error", text)
	}
	entries("a program that does not start", 2)
}

func TestAProgramThatDoesNotStartReplacesNone(t *testing.T) {
	out, home := distribution(t), t.TempDir()
	if text, err := installs(t, out, home); err != nil {
		t.Fatalf("got the error %v, want none: %s", err, text)
	}
	broken := distributionOf(t, "#!/bin/sh\nexit 1\n")
	if text, err := installs(t, broken, home); err == nil {
		t.Errorf("got %q, want an error", text)
	}
	text, err := exec.CommandContext(t.Context(), filepath.Join(home, ".local/bin/svc-agent")).Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "of the test") {
		t.Errorf("the program: got %q, want the one that was there", text)
	}
}

func TestOnlyTargetsWithAnArchiveAreChosen(t *testing.T) {
	for list, want := range map[string][]target{"": targets, "darwin/arm64": {{"darwin", "arm64"}}} {
		got, err := chooseTargets(list)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", list, got, want)
		}
	}
	if _, err := chooseTargets("linux/amd64,windows/amd64"); err == nil {
		t.Error("a system without an archive: got no error, want one")
	}
}
