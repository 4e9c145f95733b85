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
			`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":10},"completion_tokens_details":{"reasoning_tokens":5}}`, UsageValid, ""},
		"details null": {
			`{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}}`, UsageValid, ""},
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
		if u.State != tc.state || u.Reason != tc.reason {
			t.Errorf("%s: %v %q, want %v %q", name, u.State, u.Reason, tc.state, tc.reason)
		}
	}
}

func TestUsageTellsZeroFromSilence(t *testing.T) {
	u := ParseUsage([]byte(`{"prompt_tokens":3,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}`))
	if !u.HasPrompt || !u.HasCompletion || u.HasTotal || !u.HasCached || u.HasReasoning || u.TotalTokens != 3 {
		t.Errorf("%+v", u)
	}
}

// TestUsageTwiceInOneAnswer is hostile test 34's "twice with different values".
func TestUsageTwiceInOneAnswer(t *testing.T) {
	c := mustScan(t,
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2},"usage":{"prompt_tokens":1,"completion_tokens":900}}`)
	if c.Usage.State != UsageAbsurd || c.Usage.Reason != UsageDuplicate {
		t.Errorf("%+v", c.Usage)
	}
	c = mustScan(t, `{"choices":[],"usage":null,"usage":{"prompt_tokens":1,"completion_tokens":2}}`)
	if c.Usage.State != UsageAbsurd {
		t.Errorf("%+v", c.Usage)
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
			t.Fatalf("%v with reason %q", u.State, u.Reason)
		}
		if u.State != UsageValid {
			return
		}
		if !json.Valid(raw) || u.PromptTokens < 0 || u.CompletionTokens < 0 ||
			u.TotalTokens != u.PromptTokens+u.CompletionTokens ||
			u.CachedTokens > u.PromptTokens || u.ReasoningTokens > u.CompletionTokens || u.TotalTokens > 2*maxTokens {
			t.Fatalf("%q is valid: %+v", raw, u)
		}
	})
}
