package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files of a world in which nothing has happened and one wallet exists.
const (
	sound = `{"export":1,"at":"2026-03-04T05:06:07Z","schema":"billing","seal":""}
{"table":"account","row":{"id":"00000000-0000-7000-8000-000000000001","name":"a"}}
{"table":"wallet","row":{"account_id":"00000000-0000-7000-8000-000000000001","posted":0,"held":0}}
{"end":true,"rows":2}
`
	open = `{"export":1,"at":"2026-03-04T05:06:07Z","schema":"billing","seal":""}
{"table":"quarantine","row":{"request_id":"00000000-0000-7000-8000-000000000002"}}
{"end":true,"rows":1}
`
	noEarnings = `{"end":true,"rows":0}` + "\n"
)

func TestTheExitCodeIsTheVerdict(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	earnings, empty := write("earnings", noEarnings), write("empty", "")
	exports := 0
	with := func(export string, more ...string) []string {
		exports++
		return append([]string{"-export", write(fmt.Sprint("export ", exports), export), "-earnings", earnings, "-clients",
			empty, "-engines", empty}, more...)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		out  string
		errs string
	}{
		"clean": {with(sound), clean, "drift                             0", ""},
		"wrong": {with(strings.Replace(sound, `"posted":0`, `"posted":1`, 1)), wrong, "1 are posted", ""},
		"open":  {with(open), unknown, "its usage is in quarantine", ""},
		"truncated": {with(strings.TrimSuffix(sound, `{"end":true,"rows":2}`+"\n")), unknown, "",
			"export: the last line is missing"},
		"malformed": {with(strings.Replace(sound, `"posted":0`, `"posted":x`, 1)), unknown, "",
			"export: line 3: is not one JSON object"},
		"setup":         {with(sound, "-setup", empty), unknown, "", "setup: decode"},
		"no file":       {with(sound, "-clients", filepath.Join(dir, "none")), unknown, "", "open the input"},
		"no argument":   {[]string{"-export", empty}, unknown, "", "-earnings is missing"},
		"another flag":  {with(sound, "-what"), unknown, "", "-what"},
		"asked of help": {[]string{"-h"}, clean, "", "-export"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := run(tc.args, &out, &errs); code != tc.code {
				t.Errorf("exit code: got %d, want %d: %s", code, tc.code, errs.String())
			}
			if !strings.Contains(out.String(), tc.out) {
				t.Errorf("printed: got %q, want %q in it", out.String(), tc.out)
			} else if !strings.Contains(errs.String(), tc.errs) {
				t.Errorf("errs: got %q, want %q in it", errs.String(), tc.errs)
			}
			if strings.Contains(out.String(), "\033") {
				t.Errorf("colours in a file: got %q, want it without %q", out.String(), "\033")
			}
		})
	}
	var out, errs bytes.Buffer
	if code := run(with(sound, "-json"), &out, &errs); code != clean {
		t.Errorf("exit code %d, JSON %s, %s: code: got %d, want %d", code, out.String(), errs.String(), code, clean)
	} else if !json.Valid(out.Bytes()) {
		t.Errorf("exit code %d, JSON %s, %s: json.Valid(out.Bytes()): got false, want true", code, out.String(),
			errs.String())
	}
}
