package setup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"svc.internal/services/provider-agent/internal/service"
)

// Terminal is where the wizard asks.
type Terminal struct {
	In  io.Reader
	Out io.Writer
	// Hidden calls ask, which shows the question, once nothing that is typed is shown any more, and
	// reads a line. Nil reads it as any other.
	Hidden func(ask func()) (string, error)
}

// maxAnswer bounds an answer, in bytes, and maxTries the answers to one question.
const (
	maxAnswer = 16 << 10
	maxTries  = 5
)

// prompt asks one question after another.
type prompt struct {
	lines  *bufio.Scanner
	out    io.Writer
	hidden func(ask func()) (string, error)
	// silent takes what is known as the answers, and asks nothing.
	silent bool
	over   *bool
}

func newPrompt(t Terminal, silent bool) prompt {
	lines := bufio.NewScanner(t.In)
	lines.Buffer(nil, maxAnswer)
	return prompt{lines: lines, out: t.Out, hidden: t.Hidden, silent: silent, over: new(bool)}
}

// say prints a line. Names in it may be of any server on this machine.
func (p prompt) say(format string, args ...any) {
	fmt.Fprintln(p.out, service.Printable(fmt.Sprintf(format, args...)))
}

// text asks for an answer that must not be empty, unless known is given. flag is the flag that
// answers the question beforehand.
func (p prompt) text(question, known, flag string, check func(string) error) (string, error) {
	needed := func(answer string) error {
		if answer == "" {
			return fmt.Errorf("this needs an answer; %s gives it beforehand", flag)
		}
		return check(answer)
	}
	return p.choice(question, known, "", flag, needed)
}

// choice asks, unless known is given. An empty answer stands for standard. An answer that
// check refuses is asked for again; one that was given beforehand is not.
func (p prompt) choice(question, known, standard, flag string, check func(string) error) (string, error) {
	if known != "" || p.silent {
		if known == "" {
			known = standard
		}
		if err := check(known); err != nil {
			return "", fmt.Errorf("%s: %w", flag, err)
		}
		return known, nil
	}
	if standard != "" {
		question += " [" + standard + "]"
	}
	var last error
	for range maxTries {
		answer, err := p.line(question + ": ")
		if err != nil {
			return "", err
		}
		if answer == "" && last != nil && p.ended() {
			break // nobody is there to correct the answer that was refused
		}
		if answer == "" {
			answer = standard
		}
		if last = check(answer); last == nil {
			return answer, nil
		}
		if p.ended() {
			break
		}
		p.say("  %v", last)
	}
	return "", fmt.Errorf("%s: %w", flag, last)
}

// secret asks for a line that is not shown.
func (p prompt) secret(question string) (string, error) {
	if p.hidden == nil {
		return p.line(question + ": ")
	}
	answer, err := p.hidden(func() { fmt.Fprint(p.out, question+": ") })
	fmt.Fprintln(p.out)
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(answer), nil
}

// line reads a line. It is empty when none follows.
func (p prompt) line(question string) (string, error) {
	fmt.Fprint(p.out, question)
	if p.lines.Scan() {
		return strings.TrimSpace(p.lines.Text()), nil
	}
	fmt.Fprintln(p.out)
	*p.over = true
	if err := p.lines.Err(); err != nil {
		return "", errors.Join(errors.New("the answer cannot be read"), err)
	}
	return "", nil
}

// ended reports whether the input has ended, so that no answer follows.
func (p prompt) ended() bool { return *p.over }
