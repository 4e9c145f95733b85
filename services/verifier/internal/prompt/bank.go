package prompt

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bank is what prompts are made of.
type Bank struct {
	// Systems are system prompts, Tasks what is asked for, Sentences what texts are made
	// of. They name slots in braces; tasks may also name {sentence}.
	Systems   []string `json:"systems"`
	Tasks     []string `json:"tasks"`
	Sentences []string `json:"sentences"`
	// Slots are what may stand in a slot, by its name.
	Slots map[string][]string `json:"slots"`
	// Words are those of canaries: 256 different ones of letters a to z.
	Words []string `json:"words"`
	// Canary asks for the words of a canary, which stand in {words}.
	Canary string `json:"canary"`
	// Recall is the wording of needles.
	Recall Wording `json:"recall"`
}

// Wording is how recall prompts say things. A name stands in {name}, and six digits in
// {code}.
type Wording struct {
	// Fact is the sentence of a needle, and Distractor one that looks like it.
	Fact       string `json:"fact"`
	Distractor string `json:"distractor"`
	// Ask asks for the code of one needle, and Form says what the answer should look like.
	Ask  string `json:"ask"`
	Form string `json:"form"`
	// Names are those of needles: one to four words of letters a to z each. None contains
	// another, nor does the wording contain one, because the code behind "mill" would else
	// be taken from the line of the red mill.
	Names []string `json:"names"`
}

// sentenceSlot is the slot of tasks that a sentence fills.
const sentenceSlot = "sentence"

const (
	// maxBank bounds a bank in bytes, and maxTemplate one of its texts.
	maxBank     = 4 << 20
	maxTemplate = 4_096
	// leastTemplates is how many tasks and sentences a bank has at least. With fewer,
	// prompts would look alike.
	leastTemplates = 8
	canaryAlphabet = 256
	// minNames and maxNames bound the names of needles. A prompt takes at most 32, half
	// of them for distractors.
	minNames = 64
	maxNames = 1_024
)

// The slots of the texts that are not templates.
const (
	wordsSlot = "{words}"
	nameSlot  = "{name}"
	codeSlot  = "{code}"
)

var needleName = regexp.MustCompile(`^[a-z]{1,20}( [a-z]{1,20}){0,3}$`)

// ErrBank is the error for a bank that no prompts can be made of.
var ErrBank = errors.New("malformed bank of prompts")

//go:embed bank.json
var demo []byte

// Demo returns the bank that everybody can read. It hides nothing from a provider who
// knows it.
func Demo() Bank {
	b, err := ReadBank(demo)
	if err != nil {
		panic(err) // a test reads it
	}
	return b
}

// ReadBank reads a bank from JSON. Its errors are ErrBank and name what is wrong.
func ReadBank(text []byte) (Bank, error) {
	if len(text) > maxBank {
		return Bank{}, fmt.Errorf("%w: more than %d bytes", ErrBank, maxBank)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var b Bank
	if err := d.Decode(&b); err != nil {
		return Bank{}, fmt.Errorf("%w: %w", ErrBank, err)
	}
	if d.More() {
		return Bank{}, fmt.Errorf("%w: more than one value", ErrBank)
	}
	return b, b.check()
}

func (b Bank) check() error {
	if len(b.Systems) == 0 || len(b.Tasks) < leastTemplates || len(b.Sentences) < leastTemplates {
		return fmt.Errorf("%w: it needs a system prompt, and %d tasks and sentences", ErrBank, leastTemplates)
	}
	for name, fillings := range b.Slots {
		if name == "" || name == sentenceSlot || len(fillings) == 0 {
			return fmt.Errorf("%w: the slot %q is not possible or empty", ErrBank, name)
		}
		for _, text := range fillings {
			if err := b.checkTemplate(text, false, true); err != nil {
				return err
			}
		}
	}
	for _, texts := range [][]string{b.Systems, b.Sentences} {
		for _, text := range texts {
			if err := b.checkTemplate(text, false, false); err != nil {
				return err
			}
		}
	}
	for _, text := range b.Tasks {
		if err := b.checkTemplate(text, true, false); err != nil {
			return err
		}
	}
	if err := checkText(b.Canary, wordsSlot); err != nil {
		return err
	}
	if err := b.Recall.check(); err != nil {
		return err
	}
	return b.checkWords()
}

// checkText checks a text that has each of the slots once, and no other braces.
func checkText(text string, slots ...string) error {
	rest := text
	for _, slot := range slots {
		if strings.Count(text, slot) != 1 {
			return fmt.Errorf("%w: the text %q must have %s once", ErrBank, text, slot)
		}
		rest = strings.Replace(rest, slot, "", 1)
	}
	if rest == "" || len(text) > maxTemplate || !utf8.ValidString(text) || strings.ContainsAny(rest, "{}") {
		return fmt.Errorf("%w: the text %.80q is empty, too long, no UTF-8 or has braces out of place", ErrBank, text)
	}
	return nil
}

func (w Wording) check() error {
	for _, text := range []string{w.Fact, w.Distractor} {
		if err := checkText(text, nameSlot, codeSlot); err != nil {
			return err
		}
	}
	if err := checkText(w.Ask, nameSlot); err != nil {
		return err
	}
	if err := checkText(w.Form); err != nil {
		return err
	}
	if len(w.Names) < minNames || len(w.Names) > maxNames {
		return fmt.Errorf("%w: %d names of needles, want %d to %d", ErrBank, len(w.Names), minNames, maxNames)
	}
	wording := strings.ToLower(strings.Join([]string{w.Fact, w.Distractor, w.Ask, w.Form}, "\n"))
	for i, name := range w.Names {
		if !needleName.MatchString(name) || strings.Contains(wording, name) {
			return fmt.Errorf("%w: the name %q is not possible", ErrBank, name)
		}
		for j, other := range w.Names {
			if i != j && strings.Contains(other, name) {
				return fmt.Errorf("%w: the name %q contains the name %q", ErrBank, other, name)
			}
		}
	}
	return nil
}

// checkTemplate checks a text and its slots. Fillings have none, so that filling ends.
func (b Bank) checkTemplate(text string, sentences, filling bool) error {
	if text == "" || len(text) > maxTemplate || !utf8.ValidString(text) {
		return fmt.Errorf("%w: a text is empty, longer than %d bytes or no UTF-8", ErrBank, maxTemplate)
	}
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "{")
		if strings.Contains(before, "}") || filling && found {
			return fmt.Errorf("%w: braces out of place in %q", ErrBank, text)
		}
		if !found {
			return nil
		}
		name, behind, closed := strings.Cut(after, "}")
		if _, known := b.Slots[name]; !closed || !known && (name != sentenceSlot || !sentences) {
			return fmt.Errorf("%w: there is no slot %q in %q", ErrBank, name, text)
		}
		rest = behind
	}
}

func (b Bank) checkWords() error {
	seen := map[string]bool{}
	for _, word := range b.Words {
		if word == "" || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" || len(word) > 32 || seen[word] {
			return fmt.Errorf("%w: the word %q is not possible or there twice", ErrBank, word)
		}
		seen[word] = true
	}
	if len(seen) != canaryAlphabet {
		return fmt.Errorf("%w: it has %d words for canaries, and needs %d", ErrBank, len(seen), canaryAlphabet)
	}
	return nil
}
