// Package needle is the wording of recall prompts: facts that are hidden in a long
// prompt, the question that asks for them, and the answer.
//
// A needle gives a name a code of six digits:
//
//	The code of the blue harbour is 402913.
//
// A question asks for each name and shows the form of the answer, which is one line
// for each name:
//
//	What is the code of the blue harbour? What is the code of the red mill? Answer
//	with one line for each, in the form "name: code".
//
//	blue harbour: 402913
//	red mill: 117350
//
// A name is one to four words of lower-case ASCII letters, of MaxWord letters each. A
// sentence of any other wording is no needle, so that distractors such as "The number
// of the blue harbour is 555123." stand beside needles. Find and Asked read these
// forms exactly; Code is lenient, because models write the answer in their own way.
// All functions take time linear in the text and fail on no input.
package needle

import (
	"regexp"
	"strings"
)

// MaxWord is the largest number of letters in a word of a name.
const MaxWord = 20

// CodeDigits is the number of digits of a code.
const CodeDigits = 6

const namePattern = `[a-z]{1,20}(?: [a-z]{1,20}){0,3}`

var (
	wholeName = regexp.MustCompile(`^` + namePattern + `$`)
	wholeCode = regexp.MustCompile(`^[0-9]{6}$`)
	sentence  = regexp.MustCompile(`The code of the (` + namePattern + `) is ([0-9]{6})\.`)
	question  = regexp.MustCompile(`What is the code of the (` + namePattern + `)\?`)
	digits    = regexp.MustCompile(`[0-9]+`)
)

// Needle is one fact.
type Needle struct {
	Name string
	Code string
}

// Found is a needle in a text.
type Found struct {
	Needle
	// Offset is where its sentence begins, in bytes.
	Offset int
}

// Valid reports whether name and code have the form that the package doc describes.
func (n Needle) Valid() bool { return wholeName.MatchString(n.Name) && wholeCode.MatchString(n.Code) }

// Sentence states the fact.
func (n Needle) Sentence() string { return "The code of the " + n.Name + " is " + n.Code + "." }

// Line is the line of an answer that gives the code.
func (n Needle) Line() string { return n.Name + ": " + n.Code }

// Question asks for the codes of the names.
func Question(names []string) string {
	var out strings.Builder
	for _, name := range names {
		out.WriteString("What is the code of the " + name + "? ")
	}
	out.WriteString(`Answer with one line for each, in the form "name: code".`)
	return out.String()
}

// Find returns the needles in a text in their order.
func Find(text string) []Found {
	var out []Found
	for _, at := range sentence.FindAllStringSubmatchIndex(text, -1) {
		out = append(out, Found{Needle{text[at[2]:at[3]], text[at[4]:at[5]]}, at[0]})
	}
	return out
}

// Asked returns the names that a text asks for, in their order.
func Asked(text string) []string {
	var out []string
	for _, match := range question.FindAllStringSubmatch(text, -1) {
		out = append(out, match[1])
	}
	return out
}

// Code returns the code that an answer gives the name: the first number of six digits
// behind the name on the same line, whatever the case of the name. A line on which
// another number comes first gives no code. Of several lines the first one counts. Names of
// one prompt must not contain each other: the code of "mill" would be that of "red mill".
func Code(answer, name string) (code string, ok bool) {
	if name == "" {
		return "", false
	}
	name = strings.ToLower(name)
	for line := range strings.Lines(answer) {
		_, rest, found := strings.Cut(strings.ToLower(line), name)
		if !found {
			continue
		}
		if number := digits.FindString(rest); len(number) == CodeDigits {
			return number, true
		}
	}
	return "", false
}
