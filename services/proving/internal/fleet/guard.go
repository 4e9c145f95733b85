package fleet

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// guard ends the processes of a fleet whose supervisor has died without Stop. It is a
// shell that reads from a pipe which pids are alive. The end of the pipe without a word
// means that the supervisor has died. The guard works on every Unix and, unlike a signal
// at the parent's death, is not tied to the thread that happened to fork.
type guard struct {
	cmd *exec.Cmd

	mu   sync.Mutex
	pipe io.WriteCloser
}

// An interrupt ends every program of a fleet in order, PostgreSQL included.
const guardScript = `
pids=""
while read -r word pid; do
  case $word in
  add) pids="$pids $pid" ;;
  drop) rest=""; for p in $pids; do [ "$p" = "$pid" ] || rest="$rest $p"; done; pids=$rest ;;
  end) exit 0 ;;
  esac
done
for p in $pids; do kill -INT "$p" 2>/dev/null; done
i=0
while [ $i -lt 100 ]; do
  rest=""; for p in $pids; do kill -0 "$p" 2>/dev/null && rest="$rest $p"; done; pids=$rest
  [ -z "$pids" ] && exit 0
  sleep 0.1; i=$((i+1))
done
for p in $pids; do kill -KILL "$p" 2>/dev/null; done
`

func setGuard() (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard the fleet: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard the fleet: %w", err)
	}
	return &guard{cmd: cmd, pipe: pipe}, nil
}

func (g *guard) add(pid int) error { return g.tell("add", pid) }

func (g *guard) drop(pid int) error { return g.tell("drop", pid) }

func (g *guard) tell(word string, pid int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := io.WriteString(g.pipe, word+" "+strconv.Itoa(pid)+"\n"); err != nil {
		return fmt.Errorf("write to the guard of the fleet: %w", err)
	}
	return nil
}

// dismiss is called when all processes have ended.
func (g *guard) dismiss() error {
	tellErr := g.tell("end", 0)
	if err := errors.Join(tellErr, g.pipe.Close(), g.cmd.Wait()); err != nil {
		return fmt.Errorf("dismiss the guard of the fleet: %w", err)
	}
	return nil
}
