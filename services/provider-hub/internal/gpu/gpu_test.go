package gpu

import (
	"strings"
	"testing"
)

func TestTheRuleByCases(t *testing.T) {
	nvidia := func(vram int, mb int64, capability string) *Report {
		return &Report{Type: "RTX", Model: "NVIDIA GeForce RTX", Count: 1, VRAMGB: vram, MemoryMB: mb,
			ComputeCapability: capability, Engine: "unknown"}
	}
	apple := func(kind string, gb int, mb int64, engine string) *Report {
		return &Report{Type: kind, Model: "Apple M", Count: 1, VRAMGB: gb, MemoryMB: mb, Engine: engine}
	}
	cases := map[string]struct {
		report *Report
		short  string // a part of the text; empty for eligible
	}{
		"a 4090":                          {nvidia(23, 24564, "8.9"), ""},
		"two of them":                     {nvidia(23, 0, "8.9\n8.9"), ""},
		"two of them, with a blank end":   {nvidia(23, 0, "8.9\r\n8.9\n"), ""},
		"8 GB, called 7":                  {nvidia(7, 0, "8.6"), ""},
		"8,188 MiB":                       {nvidia(7, 8188, "8.6"), ""},
		"8,000 MB":                        {nvidia(0, 8000, "8.0"), ""},
		"7,999 MB":                        {nvidia(0, 7999, "8.0"), "8 GB"},
		"6 GB":                            {nvidia(6, 0, "8.6"), "8 GB"},
		"7 GB exactly, called 7":          {nvidia(7, 7168, "8.6"), "8 GB"},
		"8.0":                             {nvidia(40, 0, "8.0"), ""},
		"7.5":                             {nvidia(16, 0, "7.5"), "7.5"},
		"9 without a minor number":        {nvidia(16, 0, "9"), ""},
		"10.0 is above 8.0":               {nvidia(32, 0, "10.0"), ""},
		"12.0":                            {nvidia(32, 0, "12.0"), ""},
		"the least of three":              {nvidia(24, 0, "8.9\n7.5\n10.0"), "7.5"},
		"a line that cannot be read":      {nvidia(24, 0, "8.9\nnone"), "cannot be read"},
		"a minus":                         {nvidia(24, 0, "-8.9"), "cannot be read"},
		"a dot too many":                  {nvidia(24, 0, "8.9.1"), "cannot be read"},
		"nothing behind the dot":          {nvidia(24, 0, "8."), "cannot be read"},
		"too many lines":                  {nvidia(24, 0, strings.Repeat("8.9\n", 65)), "cannot be read"},
		"no memory known":                 {nvidia(0, 0, "8.9"), "8 GB"},
		"no capability":                   {nvidia(24, 24564, ""), "no compute capability"},
		"an M3 Max with Ollama":           {apple("m3_max", 64, 0, "ollama"), ""},
		"an M1 with 16 GB":                {apple("m1", 16, 16384, "ollama"), ""},
		"an M1 with 16 GB, in MB only":    {apple("m1", 0, 16384, "Ollama"), ""},
		"an M1 with 8 GB":                 {apple("m1", 8, 8192, "ollama"), "16 GB"},
		"an M2 with another engine":       {apple("m2_pro", 32, 0, "vllm"), "Ollama"},
		"an M2 whose engine is unknown":   {apple("m2_pro", 32, 0, ""), "Ollama"},
		"an M10":                          {apple("M10_Ultra", 192, 0, "ollama"), ""},
		"something that begins with an m": {apple("mi300x", 192, 0, "ollama"), "no compute capability"},
		"m0":                              {apple("m0", 192, 0, "ollama"), "no compute capability"},
		"m3_mini":                         {apple("m3_mini", 192, 0, "ollama"), "no compute capability"},
		"nothing said":                    {&Report{Engine: "ollama"}, "no GPU"},
		"no report":                       {nil, "no GPU"},
	}
	for name, c := range cases {
		got := c.report.Shortfall()
		if c.short == "" && got != "" {
			t.Errorf(`%s: c.report.Shortfall(): got %q, want "", where c.short == ""`, name, got)
		} else if c.short != "" && !strings.Contains(got, c.short) {
			t.Errorf(`%s: c.report.Shortfall(): got %q, want %q in it, where c.short != ""`, name, got, c.short)
		}
	}
}

func TestTheLowestCapabilityIsShown(t *testing.T) {
	for text, want := range map[string]string{"8.9\n10.0\n8.6": "8.6", "9": "9.0", "": "", "x": "", " \n ": "",
		"12.0": "12.0"} {
		lowest, ok := LowestCapability(text)
		if ok != (want != "") {
			t.Errorf("%q: ok: got %t, want %t", text, ok, want != "")
		} else if ok && lowest.String() != want {
			t.Errorf("%q: lowest: got %q, want %q", text, lowest.String(), want)
		}
	}
}

func FuzzLowestCapability(f *testing.F) {
	for _, seed := range []string{"8.9\n8.9", "10.0", "7.5\n\n8.0", "8.", "٨.٩", "8.9\x00", strings.Repeat("1\n", 70)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lowest, ok := LowestCapability(text)
		if !ok {
			return
		}
		again, ok := LowestCapability(lowest.String())
		if !ok {
			t.Error("ok of LowestCapability(lowest.String()): got false, want true")
		} else if again != lowest {
			t.Errorf("again: got %v, want %v, with %q", again, lowest, text)
		}
		found := false
		for line := range strings.SplitSeq(text, "\n") {
			c, readable := parseCapability(strings.TrimSpace(line))
			if strings.TrimSpace(line) == "" {
				continue
			}
			if !readable {
				t.Errorf("%q: %q beside the lowest, %v: readable of parseCapability(…): got false, want true", text, line, lowest)
			} else if c.below(lowest) {
				t.Errorf("%q: %q beside the lowest, %v: c.below(lowest): got true, want false", text, line, lowest)
			}
			found = found || c == lowest
		}
		if !found {
			t.Errorf("%q: %v is none of them", text, lowest)
		}
	})
}
