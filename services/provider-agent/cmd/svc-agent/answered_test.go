package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"svc.internal/services/provider-agent/internal/service"
)

// A provider whose engine calls a model otherwise reads it as sentences, whole and
// without what a terminal would act on.
func TestHostile35_TheStatusTellsWhatTheEngineCallsItself(t *testing.T) {
	sentence := "For acme/m, the engine's answers name another model: 3 since 2026-11-21T20:00:00Z," +
		" the last at 2026-11-21T20:01:00Z as \"cheap\". " +
		strings.Repeat("Correct it. ", 20) + "Done."
	body := strings.Replace(answer, `"traffic"`,
		`"answered_as":[{"model_id":"acme/m","answered_as":"cheap","first_at":"2026-11-21T20:00:00Z",`+
			`"last_at":"2026-11-21T20:01:00Z","answers":3,"meaning":`+
			strings.ReplaceAll(`"`+strings.ReplaceAll(sentence, `"`, `\"`)+`\u001b[31m"`, "\n", "")+`}],"traffic"`, 1)
	told, err := service.ParseStatus([]byte(body))
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case len(told.AnsweredAs) != 1:
		t.Fatalf("len(told.AnsweredAs): got %d, want 1, in %+v", len(told.AnsweredAs), told.AnsweredAs)
	case told.AnsweredAs[0].AnsweredAs != "cheap":
		t.Fatalf(`told.AnsweredAs[0].AnsweredAs: got %q, want "cheap"`, told.AnsweredAs[0].AnsweredAs)
	case told.AnsweredAs[0].Answers != 3:
		t.Fatalf("told.AnsweredAs[0].Answers: got %d, want 3", told.AnsweredAs[0].Answers)
	}
	var out bytes.Buffer
	if err := command(t.Context(), []string{"status", "-service", serving(t, 200, body)},
		[]string{"SVC_PROVIDER_KEY=sk-prov-x"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "\nModels that engines call by another name\n"+sentence) {
		t.Errorf("text: got %q, want %q in it", text, "\nModels that engines call by another name\n"+sentence)
	} else if strings.Contains(text, "\x1b") {
		t.Errorf("text: got %q, want it without %q", text, "\x1b")
	}
	out.Reset()
	if err := command(t.Context(), []string{"status", "-service", serving(t, 200, answer)},
		[]string{"SVC_PROVIDER_KEY=sk-prov-x"}, &out, io.Discard); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if strings.Contains(out.String(), "otherwise") {
		t.Errorf(`out: got %q, want it without "otherwise"`, out.String())
	}
}
