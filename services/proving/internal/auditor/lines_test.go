package auditor

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// malformed is a change of the inputs that makes them malformed, and the error that follows.
type malformed struct {
	change func(x *texts)
	want   string
}

// malformedFiles are faults of whole files, the setup included. export are the lines of the export.
func malformedFiles(export []string) map[string]malformed {
	end := export[len(export)-1]
	return map[string]malformed{
		"an export without its last line": {func(x *texts) { x.export = strings.TrimSuffix(x.export, end+"\n") },
			"export: the last line is missing"},
		"an export cut in a line": {func(x *texts) { x.export = x.export[:len(x.export)-5] },
			"the file is truncated"},
		"an export that lacks a row": {func(x *texts) { x.export = strings.Replace(x.export, export[3], "", 1) },
			"tells another number of rows"},
		"an export that goes on": {func(x *texts) { x.export += export[1] }, "stands after the last line"},
		"an export of another version": {func(x *texts) {
			x.export = strings.Replace(x.export, `"export":1`, `"export":2`, 1)
		}, "line 1: is not the first line"},
		"an empty export":      {func(x *texts) { x.export = "" }, "export: the first line"},
		"an export of nothing": {func(x *texts) { x.export = export[0] }, "the last line is missing"},
		"a line that is no object": {func(x *texts) { x.export = strings.Replace(x.export, export[2], "[]\n", 1) },
			"line 3: is not one JSON object"},
		"an empty line": {func(x *texts) { x.export = strings.Replace(x.export, export[2], "\n", 1) },
			"line 3: is not one JSON object"},
		"earnings without their last line": {func(x *texts) { x.earnings = export[0] },
			"earnings: the last line is missing"},
		"earnings with two first lines": {func(x *texts) { x.earnings = export[0] + export[0] },
			"earnings: line 2"},
		"a setup that is another file": {func(x *texts) { x.setup = "{}" }, "setup: is not one JSON object"},
		"a setup that is no JSON":      {func(x *texts) { x.setup = "{" }, "setup: decode"},
		"a setup of an account that is none": {func(x *texts) { x.setup = `{"setup":true,"accounts":[{"account_id":"x"}]}` },
			`account "x" is no UUID`},
		"a setup of a provider that is none": {func(x *texts) {
			x.setup = `{"setup":true,"providers":[{"provider_id":"x"}]}`
		}, `provider "x" is no UUID`},
	}
}

// malformedRows are faults of single rows.
func malformedRows() map[string]malformed {
	return map[string]malformed{
		"a member twice": {func(x *texts) { x.clients = strings.Replace(x.clients, `"left":`, `"left":true,"left":`, 1) },
			`clients: line 1: has a member twice: "left"`},
		"a member twice, written differently": {func(x *texts) {
			x.clients = strings.Replace(x.clients, `"left":`, `"l\u0065ft":true,"left":`, 1)
		}, "has a member twice"},
		"a column that is missing": {func(x *texts) { x.export = strings.ReplaceAll(x.export, `"payout":`, `"pay":`) },
			`table usage_settlement: "payout" is missing`},
		"a column that is null": {func(x *texts) {
			x.export = strings.Replace(x.export, `"posted":`, `"posted":null,"was":`, 1)
		}, `table wallet: "posted" is missing`},
		"an amount with a fraction": {func(x *texts) {
			x.export = strings.Replace(x.export, `"posted":`, `"posted":1.5,"was":`, 1)
		}, `"posted" is no integer`},
		"an amount beyond 64 bits": {func(x *texts) {
			x.export = strings.Replace(x.export, `"posted":`, `"posted":9223372036854775808,"was":`, 1)
		}, `"posted" is no integer`},
		"an amount that is text": {func(x *texts) {
			x.export = strings.Replace(x.export, `"posted":`, `"posted":"1","was":`, 1)
		}, `"posted" is no integer`},
		"an id that is none": {func(x *texts) {
			x.export = strings.Replace(x.export, accountID(payer), "g"+accountID(payer)[1:], 1)
		}, `table account: "id" is no UUID`},
		"a time that is none": {func(x *texts) {
			x.clients = strings.Replace(x.clients, `"sent_at":"2026`, `"sent_at":"26`, 1)
		}, `"sent_at" is no time`},
		"a day that is none": {func(x *texts) {
			x.earnings = strings.Replace(x.earnings, `"day":"2026-03-04`, `"day":"2026-13-04`, 1)
		}, `"day" is no date`},
		"a flag that is none": {func(x *texts) { x.clients = strings.Replace(x.clients, `"left":false`, `"left":0`, 1) },
			`"left" is neither true nor false`},
		"a text that is none": {func(x *texts) { x.clients = strings.Replace(x.clients, `"model":"priced"`, `"model":7`, 1) },
			`"model" is no string`},
		"tiers that are none": {func(x *texts) {
			x.export = strings.Replace(x.export, `"tiers":[1,2,3]`, `"tiers":"{1}"`, 1)
		}, `"tiers" is no array`},
		"a bytea that is none": {func(x *texts) { x.export = strings.Replace(x.export, `"proof":"\\x`, `"proof":"`, 1) },
			`"proof" is no bytea`},
		"a receipt twice": {doubleRow("work_receipt"), `"attempt" has a receipt already`},
		"a row that is none": {func(x *texts) { x.export = strings.Replace(x.export, `"row":{`, `"row":7,"was":{`, 1) },
			`"row" is not one JSON object`},
		"a negative count": {func(x *texts) {
			x.engines = strings.Replace(x.engines, `"prompt_tokens":7`, `"prompt_tokens":-7`, 1)
		}, `"prompt_tokens" is negative`},
		"more tokens than bytes": {func(x *texts) {
			x.clients = strings.Replace(x.clients, `"content_tokens":5`, `"content_tokens":26`, 1)
		}, "are more than the bytes"},
		"a call without a nonce": {func(x *texts) {
			x.clients = strings.Replace(x.clients, `"nonce":"nonce 0"`, `"nonce":""`, 1)
		}, `"nonce" is empty`},
		"an engine's call of nothing": {func(x *texts) {
			x.engines = `{"nonce":"","request_id":"","engine":"e","provider_id":"","model":"m","prompt_tokens":1,` +
				`"completion_tokens":1,"status":200,"complete":true,"cut":false,"at":"` + at(0) + "\"}\n"
		}, `"nonce" is empty, and so is the request id`},
		"a call twice": {func(x *texts) { x.clients = strings.Repeat(x.clients[:strings.Index(x.clients, "\n")+1], 2) },
			"line 2: has the key of an earlier row"},
		"a hold twice":           {doubleRow("hold"), "has the key of an earlier row"},
		"a report twice":         {doubleRow("request_report"), "has the key of an earlier row"},
		"an entry twice":         {doubleRow("entry"), "has the key of an earlier row"},
		"a wallet twice":         {doubleRow("wallet"), "has the key of an earlier row"},
		"clients that break off": {func(x *texts) { x.clients = x.clients[:len(x.clients)-1] }, "clients: line"},
		"a client's usage that is none": {func(x *texts) {
			x.clients = strings.Replace(x.clients, `"usage":{"completion_tokens":5`, `"usage":{"completion_tokens":-5`, 1)
		}, `"completion_tokens" is negative`},
	}
}

func TestAMalformedInputIsRefusedWithItsLine(t *testing.T) {
	full := newFixture().texts(t)
	exportLines := strings.SplitAfter(strings.TrimSuffix(full.export, "\n"), "\n")
	inputs := malformedFiles(exportLines)
	maps.Copy(inputs, malformedRows())
	for name, tc := range inputs {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			x := full
			tc.change(&x)
			if _, err := x.audit(Options{}); err == nil {
				t.Error("error: got no error, want one")
			} else if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error: got the error %q, want %q in it", err, tc.want)
			}
		})
	}
}

// doubleRow repeats the first row of a table.
func doubleRow(table string) func(x *texts) {
	return func(x *texts) {
		var lines []string
		done := false
		for line := range strings.Lines(x.export) {
			if strings.Contains(line, `"table":"`+table+`"`) && !done {
				lines, done = append(lines, line), true
			}
			lines = append(lines, line)
		}
		x.export = strings.Join(lines, "")
	}
}

func TestEveryBoundIsKept(t *testing.T) {
	full := newFixture().texts(t)
	if _, err := full.audit(Options{MaxRequests: 5}); !errors.Is(err, errTooMany) {
		t.Errorf("more requests than are kept: got the error %v, want %v", err, errTooMany)
	}
	if _, err := full.audit(Options{MaxRequests: len(stories()) + 1}); err != nil {
		t.Errorf("as many requests as are kept: %v", err)
	}
	long := full
	long.clients = `{"nonce":"` + strings.Repeat("x", maxLine) + "\"}\n"
	if _, err := long.audit(Options{}); !errors.Is(err, errTooLong) {
		t.Errorf("a line that is too long: got the error %v, want %v", err, errTooLong)
	}
	wide := full
	wide.clients = `{"a":1`
	for i := range maxMembers {
		wide.clients += `,"a` + strings.Repeat("b", i+1) + `":1`
	}
	wide.clients += "}\n"
	if _, err := wide.audit(Options{}); !errors.Is(err, errMembers) {
		t.Errorf("an object with too many members: got the error %v, want %v", err, errMembers)
	}
	setup := full
	setup.setup = strings.Repeat(" ", maxSetup+1)
	if _, err := setup.audit(Options{}); !errors.Is(err, errTooLong) {
		t.Errorf("a setup that is too long: got the error %v, want %v", err, errTooLong)
	}
	for _, table := range []string{"usage_settlement", "earning_line"} {
		f := newFixture()
		if table == "earning_line" {
			f.earnings[table] = slices.Repeat(f.earnings[table][:1], maxMembers+1)
		} else {
			f.tables[table] = slices.Repeat(f.tables[table][:1], maxMembers+1)
		}
		if _, err := f.texts(t).audit(Options{}); err == nil {
			t.Errorf("a request with %d rows of %s is kept", maxMembers+1, table)
		}
	}
	f := newFixture()
	for range maxMembers + 1 {
		f.add("posting", maps.Clone(f.legs(1)[0]))
	}
	if _, err := f.texts(t).audit(Options{}); err == nil {
		t.Error("an entry with too many postings is kept")
	}
}

func TestAnInputThatCannotBeReadIsNoVerdict(t *testing.T) {
	broken := errors.New("the disk is gone")
	none := func() io.Reader { return strings.NewReader("") }
	for name, in := range map[string]Inputs{
		"export":   {Export: iotest.ErrReader(broken), Earnings: none(), Clients: none(), Engines: none()},
		"setup":    {Setup: iotest.ErrReader(broken), Export: none(), Earnings: none(), Clients: none(), Engines: none()},
		"earnings": {Export: strings.NewReader(newFixture().texts(t).export), Clients: none(), Engines: none()},
	} {
		if _, err := Audit(in, Options{}); err == nil {
			t.Errorf("%s: got no error, want one", name)
		} else if !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got the error %q, want %q in it", name, err, name)
		}
	}
}

// The parser must split whatever encoding/json does, and refuse whatever it does.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1}`, ` { "a" : [1,{"b":"}"}] , "c":"\"" } `, `{"a":1,"a":2}`, `{"a":{"a":{}},"b":[],` +
			`"c":null}`, `{"a":-1e5,"b":true}`,
		`[]`, `{"a":1}{}`, `{"\u0061":1,"a":2}`, `{"a":"\\"}`, "", "{", `{"end":true,"rows":3}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rec, err := newLines(nil).parse(text, nil)
		var want map[string]json.RawMessage
		known := json.Unmarshal(text, &want)
		if err != nil {
			if known == nil && want != nil && !errors.Is(err, errTwice) && !errors.Is(err, errMembers) {
				t.Fatalf("%q is refused: %v", text, err)
			}
			return
		}
		if known != nil {
			t.Fatalf("%q is taken, and is no object: %v", text, known)
		}
		got := map[string]json.RawMessage{}
		for _, m := range rec.members {
			got[m.key] = m.value
		}
		if len(got) != len(want) {
			t.Fatalf("%q is %v, want %v", text, got, want)
		}
		for key, value := range want {
			var a, b any
			if found := json.Unmarshal(value, &a); found != nil {
				t.Fatalf("%q has %q as %q: json.Unmarshal(value, &a): got the error %v, want none", text, key, got[key], found)
			} else if found := json.Unmarshal(got[key], &b); found != nil {
				t.Fatalf("%q has %q as %q: json.Unmarshal(got[key], &b): got the error %v, want none", text, key, got[key], found)
			} else if !reflect.DeepEqual(a, b) {
				t.Fatalf("%q has %q as %q: a: got %v, want %v", text, key, got[key], a, b)
			}
		}
	})
}

// Whatever a row holds, reading it ends with a verdict or an error. The seeds have one
// row of each table.
func FuzzExport(f *testing.F) {
	world := newFixture()
	for table, rows := range world.tables {
		text, err := json.Marshal(row{"table": table, "row": rows[0]})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) > 4096 {
			return
		}
		x := texts{
			export:   `{"export":1,"at":"` + at(0) + "\"}\n" + string(line) + "\n" + `{"end":true,"rows":1}` + "\n",
			earnings: `{"end":true,"rows":0}` + "\n",
		}
		if r, err := x.audit(Options{MaxRequests: 1000}); err == nil && r.Requests > 1 {
			t.Fatalf("%d requests are kept of one row", r.Requests)
		}
	})
}
