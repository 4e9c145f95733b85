package needle

import (
	"slices"
	"strings"
	"testing"
)

func TestSentencesAreFoundAmongDistractors(t *testing.T) {
	t.Parallel()
	one, two := Needle{"blue harbour", "402913"}, Needle{"mill", "000001"}
	text := "Rain. " + one.Sentence() + " The number of the blue harbour is 555123. the code of the inn is 123456.\n" +
		"The code of the inn is 12345. The code of the inn is 1234567. The code of the Inn is 123456. " +
		"The code of the a b c d e is 123456. " + two.Sentence()
	got := Find(text)
	want := []Found{{one, 6}, {two, len(text) - len(two.Sentence())}}
	if !slices.Equal(got, want) {
		t.Errorf("needles: got %v, want %v", got, want)
	}
}

func TestQuestionsAskForTheirNames(t *testing.T) {
	t.Parallel()
	names := []string{"blue harbour", "red mill", "gate"}
	if got := Asked("Hello. " + Question(names)); !slices.Equal(got, names) {
		t.Errorf("names asked for: got %v, want %v", got, names)
	}
	if got := Find(Question(names)); len(got) != 0 {
		t.Errorf("needles in a question: got %v, want none", got)
	}
}

func TestValidNeedlesAreThoseOfTheForm(t *testing.T) {
	t.Parallel()
	for n, want := range map[Needle]bool{
		{"blue harbour", "402913"}: true, {"a", "000000"}: true, {"a b c d", "123456"}: true,
		{"", "402913"}: false, {"Blue", "402913"}: false, {"a  b", "402913"}: false, {"a b c d e", "402913"}: false,
		{"mill", "40291"}: false, {"mill", "4029133"}: false, {"mill", "40291x"}: false,
		{strings.Repeat("a", MaxWord), "402913"}: true, {strings.Repeat("a", MaxWord+1), "402913"}: false,
	} {
		if got := n.Valid(); got != want {
			t.Errorf("%+v is valid: got %t, want %t", n, got, want)
		}
	}
}

func TestCodesAreReadFromAnswersInManyForms(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"blue harbour: 402913":                                  "402913",
		"red mill: 117350\nblue harbour: 402913\n":              "402913",
		"- **Blue Harbour**: `402913`":                          "402913",
		"The code of the blue harbour is 402913.":               "402913",
		"| blue harbour | 402913 |":                             "402913",
		"blue harbour: unknown\nred mill: 402913":               "",
		"blue harbour: unknown\nThe blue harbour: 402913":       "402913",
		"blue harbour: 4029131":                                 "",
		"blue harbour: 40 402913":                               "",
		"402913":                                                "",
		"I do not know the code of the blue harbour.\n402913\n": "",
		"": "",
	} {
		if got, _ := Code(answer, "blue harbour"); got != want {
			t.Errorf("code in %q: got %q, want %q", answer, got, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("The code of the blue harbour is 402913. What is the code of the red mill? red mill: 117350")
	f.Add("The code of the is is is 000000.")
	f.Fuzz(func(t *testing.T, text string) {
		for _, n := range Find(text) {
			if !n.Valid() {
				t.Errorf("needle found: got %+v, want a valid one", n)
			}
			if !strings.HasPrefix(text[n.Offset:], n.Sentence()) {
				t.Errorf("text at the offset: got %q, want %q", text[n.Offset:], n.Sentence())
			}
			if got, _ := Code(n.Line(), n.Name); got != n.Code {
				t.Errorf("code of the line %q: got %q, want %q", n.Line(), got, n.Code)
			}
		}
		for _, name := range Asked(text) {
			if !(Needle{name, "000000"}).Valid() {
				t.Errorf("name asked for: got %q, want a valid one", name)
			}
			if code, ok := Code(text, name); ok && len(code) != CodeDigits {
				t.Errorf("code: got %q, want six digits", code)
			}
		}
	})
}
