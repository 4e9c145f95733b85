package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the operating-system user of the server. initdb and postgres refuse to run
// as root, so root hands them to an unprivileged user.
type account struct {
	name     string
	uid, gid int
	// switched is false when the server runs as our own user.
	switched bool
}

func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return account{}, fmt.Errorf("user %s has uid %q", name, u.Uid)
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			return account{}, fmt.Errorf("user %s has gid %q", name, u.Gid)
		}
		if uid != 0 {
			return account{name: name, uid: uid, gid: gid, switched: true}, nil
		}
	}
	return account{}, fmt.Errorf("postgres does not run as root, and there is no user postgres or nobody to run it as")
}

// command prepares a program of the server in its own process group, so that a
// Ctrl-C in the terminal reaches us first and we stop the server in order.
func (a account) command(dir, path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...) //nolint:gosec // the server binary chosen by FindBinaries or the operator
	cmd.Dir = dir
	// Messages are matched and shown to people: keep them in one language.
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.switched {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return cmd
}

// give makes path the account's own and closes it to every other user.
func (a account) give(path string, mode fs.FileMode) error {
	if a.switched {
		if err := os.Chown(path, a.uid, a.gid); err != nil {
			return fmt.Errorf("give to user %s: %w", a.name, err)
		}
	}
	if err := os.Chmod(path, mode); err != nil {
		return fmt.Errorf("restrict access: %w", err)
	}
	return nil
}

// MakeReachable makes a folder and its missing parents, so that the user of a Server can
// enter them. It sets their modes explicitly, because our umask may take permissions
// away. Existing folders keep their modes.
func MakeReachable(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", dir, err)
	}
	var missing []string
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, at)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // what is inside is closed to others
		return fmt.Errorf("make a folder that PostgreSQL can reach: %w", err)
	}
	for _, made := range missing {
		if err := os.Chmod(made, 0o755); err != nil { //nolint:gosec // as above
			return fmt.Errorf("make a folder that PostgreSQL can reach: %w", err)
		}
	}
	return nil
}

// CheckReach returns an error when the user of a Server, which is another one if we are
// root, cannot enter the existing folder dir.
func CheckReach(dir string) error {
	a, err := serverAccount()
	if err != nil {
		return err
	}
	return a.checkReach(dir)
}

// checkReach returns an error unless the account can enter dir. Otherwise initdb would
// fail with a bare "Permission denied" on a folder that it does not name.
func (a account) checkReach(dir string) error {
	if !a.switched {
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", dir, err)
	}
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("check access to the database folder: %w", err)
		}
		if !a.maySearch(info) {
			return fmt.Errorf("user %s, which runs PostgreSQL when we are root, cannot enter %s (mode %04o): "+
				"choose a data folder elsewhere or run chmod o+x on it", a.name, dir, info.Mode().Perm())
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
	}
}

func (a account) maySearch(info fs.FileInfo) bool {
	bit := fs.FileMode(0o001)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		switch {
		case int(st.Uid) == a.uid:
			bit = 0o100
		case int(st.Gid) == a.gid:
			bit = 0o010
		}
	}
	return info.Mode()&bit != 0
}
