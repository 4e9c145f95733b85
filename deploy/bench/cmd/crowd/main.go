// crowd is many idle agents on one hub, for a program that measures the hub and
// is another process. Commands come on standard input, one word a line, and each
// is answered by one line of JSON on standard output, the state of the agents:
//
//	status    how things stand
//	cut       every connection is reset at once; the agents come back by their rules
//
// It ends with its input.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"inference-bench/internal/crowd"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	url := flag.String("ws", "ws://127.0.0.1:8081/ws", "where the agents connect")
	n := flag.Int("agents", 100, "how many agents")
	v1 := flag.Int("v1", 50, "how many of them speak dialect v1")
	bare := flag.Bool("bare", false, "the sockets make the handshake and say nothing")
	rate := flag.Int("rate", 1000, "agents that are started in a second")
	file := flag.String("keys", "", "file with a provider key in each line")
	models := flag.String("models", "", "comma-separated models, two of which each agent offers")
	flag.Parse()
	members, err := enlist(*n, *v1, *bare, *file, *models)
	if err != nil {
		return err
	}
	c := crowd.Start(*url, members, *rate)
	defer c.Close()
	return obey(c, in, out)
}

func enlist(n, v1 int, bare bool, file, models string) ([]crowd.Member, error) {
	if bare {
		members := make([]crowd.Member, n)
		for i := range members {
			members[i].Dialect = crowd.Bare
		}
		return members, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("-keys: %w", err)
	}
	return crowd.Members(n, v1, strings.Fields(string(text)), strings.Split(models, ","))
}

func obey(c *crowd.Crowd, in io.Reader, out io.Writer) error {
	answers := json.NewEncoder(out)
	commands := bufio.NewScanner(in)
	for commands.Scan() {
		switch commands.Text() {
		case "cut":
			c.Cut()
		case "status":
		default:
			return fmt.Errorf("there is no command %q", commands.Text())
		}
		if err := answers.Encode(c.Status()); err != nil {
			return err
		}
	}
	return commands.Err()
}
