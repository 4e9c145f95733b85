package crashtest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
)

// say tells a controller a line and returns what it answers; empty when it
// hangs up.
func say(t *testing.T, c *Controller, line string) string {
	t.Helper()
	conn, err := net.Dial("unix", c.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, line); err != nil && len(line) <= maxLine {
		t.Fatal(err)
	}
	answer, _ := bufio.NewReader(conn).ReadString('\n')
	return answer
}

func TestOnlyWellFormedHitsCount(t *testing.T) {
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	for line, want := range map[string]string{
		"a.b 17\n": "go\n", "a.b\n": "", " 17\n": "", "a.b x\n": "", "a.b -1\n": "", "a.b 1 2\n": "",
		strings.Repeat("x", 2*maxLine) + " 17\n": "",
	} {
		if got := say(t, c, line); got != want {
			t.Errorf("%.20q: got %q, want %q", line, got, want)
		}
	}
	if hits := c.Hits("a.b"); hits != 1 {
		t.Errorf("hits: got %d, want 1", hits)
	} else if c.Total() != 1 {
		t.Errorf("c.Total(): got %d, want 1", c.Total())
	}
}

func TestAPointThatNobodyReachedIsArmedNoLonger(t *testing.T) {
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	missed := c.Arm("a.b", 1)
	missed.Release()
	stand := c.Arm("a.b", 1)
	answer := make(chan string, 1)
	go func() { answer <- say(t, c, "a.b 17\n") }()
	select {
	case pid := <-stand.Reached():
		if pid != 17 {
			t.Errorf("told of process: got %d, want 17", pid)
		}
	case got := <-answer:
		t.Errorf("the first process passes: got %q, want it to stand", got)
	}
	stand.Release()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestAProcessThatDiesWhileItStandsLeavesTheNextAlone(t *testing.T) {
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	stand := c.Arm("a.b", 1)
	conn, err := net.Dial("unix", c.Socket())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(conn, "a.b 17"); err != nil {
		t.Fatal(err)
	}
	if pid := <-stand.Reached(); pid != 17 {
		t.Errorf("told of process: got %d, want 17", pid)
	}
	conn.Close()
	if got := say(t, c, "a.b 18\n"); got != "go\n" {
		t.Errorf("the next: got %q, want %q", got, "go\n")
	}
	stand.Release()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
