package jsonscan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// body is a chat request of about n bytes, with escapes as prompts have them.
func body(n int) []byte {
	var b bytes.Buffer
	b.WriteString(
		`{"model":"vendor/model","stream":true,"temperature":0.7,"messages":[{"role":"system","content":"be brief"}`)
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b,
			`,{"role":"user","content":"Question %d:\nexplain the \"quick\" path through this function, `+
				`and why the lock is held while the map is copied; 日本語も少し。"}`, i)
	}
	b.WriteString(`],"max_tokens":256,"n":1}`)
	return b.Bytes()
}

var sizes = map[string]int{"32KB": 32 << 10, "1MB": 1 << 20}

func BenchmarkMembers(b *testing.B) {
	for name, size := range sizes {
		b.Run(name, func(b *testing.B) {
			data := body(size)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range New(data, Options{RefuseInvalidUTF8: true}).Members() {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkEncodingJSONValid(b *testing.B) {
	for name, size := range sizes {
		b.Run(name, func(b *testing.B) {
			data := body(size)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if !json.Valid(data) {
					b.Fatal("not valid")
				}
			}
		})
	}
}

func BenchmarkEncodingJSONRawMessages(b *testing.B) {
	for name, size := range sizes {
		b.Run(name, func(b *testing.B) {
			data := body(size)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				var members map[string]json.RawMessage
				if err := json.Unmarshal(data, &members); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRatio reports how many times faster the scan is than encoding/json, which
// decodes the same members.
func BenchmarkRatio(b *testing.B) {
	for name, size := range sizes {
		b.Run(name, func(b *testing.B) {
			data := body(size)
			var scan, std time.Duration
			for b.Loop() {
				start := time.Now()
				for _, err := range New(data, Options{RefuseInvalidUTF8: true}).Members() {
					if err != nil {
						b.Fatal(err)
					}
				}
				middle := time.Now()
				var members map[string]json.RawMessage
				if err := json.Unmarshal(data, &members); err != nil {
					b.Fatal(err)
				}
				scan, std = scan+middle.Sub(start), std+time.Since(middle)
			}
			b.ReportMetric(float64(std)/float64(scan), "times_faster")
		})
	}
}
