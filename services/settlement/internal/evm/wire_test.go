package evm

import (
	"encoding/json"
	"testing"
)

func FuzzNoAnswerOfAnRPCIsBelievedInAnotherForm(f *testing.F) {
	for _, seed := range []string{`{"number":"0x1","hash":"0x00","parentHash":"0x","transactions":[{}]}`, `null`, `[]`,
		`{"status":"0x1","logs":[{"topics":["0x1"]}]}`, `"0x"`, `"0xfffffffffffffffffffffffff"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var w *wireBlock
		if json.Unmarshal([]byte(text), &w) == nil {
			if b, err := w.block(true); err == nil && len(b.Transactions) != len(w.Transactions) {
				t.Errorf("%s: got %d transactions, want %d", text, len(b.Transactions), len(w.Transactions))
			}
		}
		var r wireReceipt
		if json.Unmarshal([]byte(text), &r) == nil {
			if got, err := r.receipt(); err == nil && len(got.Logs) != len(r.Logs) {
				t.Errorf("%s: got %d logs, want %d", text, len(got.Logs), len(r.Logs))
			}
		}
		var a amount
		if json.Unmarshal([]byte(text), &a) == nil && len(text) > 2 {
			var again amount
			if err := again.UnmarshalText([]byte(hexAmount(a.Amount))); err != nil {
				t.Errorf("%s: got the error %v, want none", text, err)
			} else if again != a {
				t.Errorf("%s: got %s again, want %s", text, again.Amount, a.Amount)
			}
		}
	})
}
