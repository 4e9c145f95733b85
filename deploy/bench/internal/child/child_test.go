package child

import (
	"os/exec"
	"testing"
)

func TestEachLineIsAnsweredByOne(t *testing.T) {
	c, err := Start(exec.Command("cat"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"status", ""} {
		answer, err := c.Ask(line)
		if err != nil {
			t.Fatal(err)
		}
		if string(answer) != line {
			t.Errorf("got %q, want %q", answer, line)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestAProcessThatEndsDoesNotAnswer(t *testing.T) {
	c, err := Start(exec.Command("true"))
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := c.Ask("status"); err == nil {
		t.Errorf("got the answer %q, want an error", answer)
	}
	_ = c.Close() // its input is broken
}
