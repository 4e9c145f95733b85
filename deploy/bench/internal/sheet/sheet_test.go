package sheet

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestAVerdictFollowsFromValueAndGate(t *testing.T) {
	for _, c := range []struct {
		value, gate *float64
		strict      bool
		want        string
	}{
		{new(5.0), new(5.0), false, Pass},
		{new(5.0), new(5.0), true, Missed},
		{new(4.99), new(5.0), true, Pass},
		{new(5.01), new(5.0), false, Missed},
		{nil, new(5.0), false, NotMeasured},
		{new(5.0), nil, false, ""},
	} {
		var s Sheet
		s.Add(Row{Value: c.value, Gate: c.gate, Strict: c.strict})
		if got := s.Rows[0].Verdict; got != c.want {
			t.Errorf("%+v: got %q, want %q", c, got, c.want)
		}
	}
}

func TestTheTableIsAlignedAndNamesAPartOnce(t *testing.T) {
	s := Sheet{}
	s.Add(Row{Part: "memory", Figure: "hub", Unit: "KiB", Value: new(27.25), Gate: new(100.0), Aim: new(30.0)})
	s.Add(Row{Part: "memory", Figure: "sockets “bare”", Unit: "KiB", Value: new(9.0), Note: "a note"})
	s.Add(Row{Part: "cut", Figure: "all back", Unit: "s", Gate: new(60.0)})
	var b bytes.Buffer
	if err := s.Text(&b); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"          figure          measured  gate",
		"  memory  hub             27.2 KiB  ≤ 100, aim 30  pass",
		"          sockets “bare”     9 KiB                               a note",
		"  cut     all back               –  ≤ 60           not measured", "",
	}, "\n")
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestJSONSaysThatAFigureIsMissing(t *testing.T) {
	s := Sheet{Machine: map[string]string{"cpu": "2 cores"}}
	s.Add(Row{Figure: "a", Gate: new(1.0)})
	var b bytes.Buffer
	if err := s.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Figures []map[string]any `json:"figures"`
	}
	if err := json.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	switch f := back.Figures[0]; {
	case f["value"] != nil:
		t.Errorf(`f["value"]: got %v, want nil`, f["value"])
	case f["verdict"] != NotMeasured:
		t.Errorf(`f["verdict"]: got %v, want %v`, f["verdict"], NotMeasured)
	case f["gate"] != 1.0:
		t.Errorf(`f["gate"]: got %v, want 1.0`, f["gate"])
	}
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", -0.001: "0", 0.004: "0", 1.5: "1.5", 9.996: "10", 27.25: "27.2",
		99.96: "100", 12345.6: "12346", -3.25: "-3.25"} {
		if got := Number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}
