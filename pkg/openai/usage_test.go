package openai

import (
	"encoding/json"
	"testing"
)

func TestUsageIsJudged(t *testing.T) {
	for name, tc := range map[string]struct {
		raw    string
		state  UsageState
		reason UsageReason
	}{
		"null":            {`null`, UsageAbsent, ""},
		"empty":           {`{}`, UsageAbsent, ""},
		"unknown members": {`{"seconds":3,"type":"duration"}`, UsageAbsent, ""},
		"all null":        {`{"prompt_tokens":null,"completion_tokens":null}`, UsageAbsent, ""},
		"complete":        {`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`, UsageValid, ""},
		"details": {
			`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":10},` +
				`"completion_tokens_details":{"reasoning_tokens":5}}`, UsageValid, ""},
		"details null": {
			`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":null,` +
				`"completion_tokens_details":{"reasoning_tokens":null}}`, UsageValid, ""},
		"without total": {`{"prompt_tokens":1,"completion_tokens":2}`, UsageValid, ""},
		"embeddings":    {`{"prompt_tokens":8,"total_tokens":8}`, UsageValid, ""},
		"images": {
			`{"input_tokens":8,"output_tokens":1,"total_tokens":9,"input_tokens_details":{"text_tokens":8}}`, UsageValid, ""},
		"explicit zero":    {`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`, UsageValid, ""},
		"with cost":        {`{"prompt_tokens":1,"completion_tokens":1,"cost":1e-5,"x":[1]}`, UsageValid, ""},
		"2^53":             {`{"prompt_tokens":0,"completion_tokens":9007199254740992}`, UsageValid, ""},
		"same twice":       {`{"prompt_tokens":1,"prompt_tokens":1,"completion_tokens":1}`, UsageValid, ""},
		"2^53+1":           {`{"prompt_tokens":0,"completion_tokens":9007199254740993}`, UsageAbsurd, UsageTooLarge},
		"2^64":             {`{"prompt_tokens":1,"completion_tokens":18446744073709551616}`, UsageAbsurd, UsageTooLarge},
		"-2^64":            {`{"prompt_tokens":1,"completion_tokens":-18446744073709551616}`, UsageAbsurd, UsageNegative},
		"negative":         {`{"prompt_tokens":1,"completion_tokens":-1,"total_tokens":0}`, UsageAbsurd, UsageNegative},
		"minus zero":       {`{"prompt_tokens":-0,"completion_tokens":1}`, UsageAbsurd, UsageNegative},
		"fraction":         {`{"prompt_tokens":1,"completion_tokens":1.5}`, UsageAbsurd, UsageNotInteger},
		"written as float": {`{"prompt_tokens":1,"completion_tokens":12.0}`, UsageAbsurd, UsageNotInteger},
		"exponent":         {`{"prompt_tokens":1,"completion_tokens":1e999999}`, UsageAbsurd, UsageNotInteger},
		"string":           {`{"prompt_tokens":1,"completion_tokens":"12"}`, UsageAbsurd, UsageNotInteger},
		"NaN as string":    {`{"prompt_tokens":1,"completion_tokens":"NaN"}`, UsageAbsurd, UsageNotInteger},
		"boolean":          {`{"prompt_tokens":true,"completion_tokens":1}`, UsageAbsurd, UsageNotInteger},
		"NaN":              {`{"prompt_tokens":1,"completion_tokens":NaN}`, UsageAbsurd, UsageNotObject},
		"no prompt":        {`{"completion_tokens":1,"total_tokens":1}`, UsageAbsurd, UsageIncomplete},
		"total mismatch": {`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":4}`, UsageAbsurd,
			UsageTotalMismatch},
		"total alone mismatch": {`{"prompt_tokens":1,"total_tokens":4}`, UsageAbsurd, UsageTotalMismatch},
		"cached above prompt": {`{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":2}}`,
			UsageAbsurd, UsageDetailMismatch},
		"reasoning above": {
			`{"prompt_tokens":1,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":3}}`, UsageAbsurd,
			UsageDetailMismatch},
		"cached negative": {`{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":-2}}`,
			UsageAbsurd, UsageNegative},
		"twice": {`{"prompt_tokens":1,"completion_tokens":2,"completion_tokens":200}`, UsageAbsurd,
			UsageDuplicate},
		"array":   {`[1,2]`, UsageAbsurd, UsageNotObject},
		"number":  {`12`, UsageAbsurd, UsageNotObject},
		"text":    {`"12"`, UsageAbsurd, UsageNotObject},
		"broken":  {`{"prompt_tokens":1`, UsageAbsurd, UsageNotObject},
		"nothing": {``, UsageAbsurd, UsageNotObject},
	} {
		u := ParseUsage([]byte(tc.raw))
		if u.State != tc.state {
			t.Errorf("%s: u.State: got %v, want %v", name, u.State, tc.state)
		} else if u.Reason != tc.reason {
			t.Errorf("%s: u.Reason: got %q, want %q", name, u.Reason, tc.reason)
		}
	}
}

func TestUsageTellsZeroFromSilence(t *testing.T) {
	u := ParseUsage([]byte(`{"prompt_tokens":3,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}`))
	switch {
	case !u.HasPrompt:
		t.Error("u.HasPrompt: got false, want true")
	case !u.HasCompletion:
		t.Error("u.HasCompletion: got false, want true")
	case u.HasTotal:
		t.Error("u.HasTotal: got true, want false")
	case !u.HasCached:
		t.Error("u.HasCached: got false, want true")
	case u.HasReasoning:
		t.Error("u.HasReasoning: got true, want false")
	case u.TotalTokens != 3:
		t.Errorf("u.TotalTokens: got %d, want 3", u.TotalTokens)
	}
}

// TestUsageTwiceInOneAnswer is hostile test 34's "twice with different values".
func TestUsageTwiceInOneAnswer(t *testing.T) {
	c := mustScan(t,
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2},`+
			`"usage":{"prompt_tokens":1,"completion_tokens":900}}`)
	if c.Usage.State != UsageAbsurd {
		t.Errorf("c.Usage.State: got %v, want %v", c.Usage.State, UsageAbsurd)
	} else if c.Usage.Reason != UsageDuplicate {
		t.Errorf("c.Usage.Reason: got %q, want %q", c.Usage.Reason, UsageDuplicate)
	}
	c = mustScan(t, `{"choices":[],"usage":null,"usage":{"prompt_tokens":1,"completion_tokens":2}}`)
	if c.Usage.State != UsageAbsurd {
		t.Errorf("c.Usage.State: got %v, want %v", c.Usage.State, UsageAbsurd)
	}
}

func FuzzParseUsage(f *testing.F) {
	for _, raw := range []string{`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`, `{"prompt_tokens":-1}`,
		`null`, `{"input_tokens":1e5,"output_tokens":"x"}`,
		`{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":1}}`} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		u := ParseUsage(raw)
		if (u.State == UsageAbsurd) != (u.Reason != "") {
			t.Fatalf("u.State == UsageAbsurd: got %t, want %t", u.State == UsageAbsurd, u.Reason != "")
		}
		if u.State != UsageValid {
			return
		}
		switch {
		case !json.Valid(raw):
			t.Fatalf("json.Valid(raw): got false, want true, with %q", raw)
		case u.PromptTokens < 0:
			t.Fatalf("u.PromptTokens: got %d, want at least 0, with %q", u.PromptTokens, raw)
		case u.CompletionTokens < 0:
			t.Fatalf("u.CompletionTokens: got %d, want at least 0, with %q", u.CompletionTokens, raw)
		case u.TotalTokens != u.PromptTokens+u.CompletionTokens:
			t.Fatalf("u.TotalTokens: got %d, want %d, with %q", u.TotalTokens, u.PromptTokens+u.CompletionTokens, raw)
		case u.CachedTokens > u.PromptTokens:
			t.Fatalf("u.CachedTokens: got %d, want at most %d, with %q", u.CachedTokens, u.PromptTokens, raw)
		case u.ReasoningTokens > u.CompletionTokens:
			t.Fatalf("u.ReasoningTokens: got %d, want at most %d, with %q", u.ReasoningTokens, u.CompletionTokens, raw)
		case u.TotalTokens > 2*maxTokens:
			t.Fatalf("u.TotalTokens: got %d, want at most %d, with %q", u.TotalTokens, 2*maxTokens, raw)
		}
	})
}
