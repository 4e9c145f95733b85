package quant_test

import (
	"slices"
	"strings"
	"testing"

	"svc.internal/services/verifier/internal/quant"
)

func TestStatementsNameTheirClass(t *testing.T) {
	t.Parallel()
	for want, statements := range map[quant.Class][]string{
		quant.Bits16: {"none", "fp16", "bf16", "fp32", "F16", "float16", "bfloat16", "BF16", "16-bit"},
		quant.Bits8:  {"fp8", "int8", "q8_0", "w8a8", "Q8", "w8a16", "fp8-e4m3", "8bit", "8 bits", "mxfp8", "gptq-int8"},
		quant.Bits6:  {"q6_k", "Q6", "fp6"},
		quant.Bits5:  {"q5_k_m", "Q5_0"},
		quant.Bits4: {"awq", "gptq", "int4", "nvfp4", "mxfp4", "q4_k_m", "q4_0", "w4a16", "iq4_xs", "AWQ-INT4", "nf4",
			"fp16 q4_0", "4-bit", "w4a8"},
		quant.Bits3: {"q3_k_s", "iq3_xxs"},
		quant.Bits2: {"q2_k", "iq2_m"},
		quant.Unknown: {"", "unknown", "best", "q7", "iq1_s", "1.58bit", "fp", "w", "a16", "\xff", "q4294967300",
			"fp16" + strings.Repeat(" ", 61)},
	} {
		for _, s := range statements {
			if got := quant.Parse(s); got != want {
				t.Errorf("%q: got %v, want %v", s, got, want)
			}
		}
	}
}

func TestNoStatementIsJudgedByTheLowestReference(t *testing.T) {
	t.Parallel()
	all := []quant.Class{quant.Bits16, quant.Bits4, quant.Bits8}
	for _, c := range []struct {
		stated quant.Class
		have   []quant.Class
		want   quant.Class
		ok     bool
	}{
		{quant.Unknown, all, quant.Bits4, true}, {quant.Bits8, all, quant.Bits8, true},
		{quant.Bits2, all, quant.Bits2, false}, {quant.Unknown, nil, quant.Unknown, false},
		{quant.Unknown, []quant.Class{quant.Unknown, 7}, quant.Unknown, false},
	} {
		if got, ok := quant.Judged(c.stated, c.have); got != c.want {
			t.Errorf("%+v: got %v, %v, want %v, %v", c, got, ok, c.want, c.ok)
		} else if ok != c.ok {
			t.Errorf("%+v: got %v, %v, want %v, %v", c, got, ok, c.want, c.ok)
		}
	}
}

func TestTheNextCheaperClassIsTheNextLower(t *testing.T) {
	t.Parallel()
	all := quant.Classes()
	for i, c := range all {
		got, ok := quant.Cheaper(c, all)
		if i == len(all)-1 {
			if ok {
				t.Errorf("below %v: got %v, want none", c, got)
			}
		} else if got != all[i+1] {
			t.Errorf("below %v: got %v, want %v", c, got, all[i+1])
		}
	}
	if got, _ := quant.Cheaper(quant.Bits16, []quant.Class{quant.Bits2, quant.Bits4}); got != quant.Bits4 {
		t.Errorf("got %v, want %v", got, quant.Bits4)
	}
}

// A longer statement is judged no more strictly: whatever is added, the class that was
// named bounds the class from above.
func FuzzParse(f *testing.F) {
	f.Add("q4_k_m")
	f.Fuzz(func(t *testing.T, s string) {
		got := quant.Parse(s)
		if got != quant.Unknown && !slices.Contains(quant.Classes(), got) {
			t.Errorf("%q: got %d, want a class", s, got)
		}
		more := quant.Parse("q4 " + s)
		if len(s) < 60 && more == quant.Unknown {
			t.Errorf("%q behind q4: got %v, want a class", s, more)
		}
		if len(s) < 60 && more > quant.Bits4 {
			t.Errorf("%q behind q4: got %v, want 4 bits at most", s, more)
		}
	})
}
