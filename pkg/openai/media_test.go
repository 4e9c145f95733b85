package openai

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestEmbeddingsCountOnlyVectors(t *testing.T) {
	for doc, want := range map[string]struct {
		items, all int
		bytes      int64
	}{
		`{"data":[{"embedding":[0.1,-2e-3]},{"embedding":"AACAPw=="}]}`: {2, 2, 11 + 8},
		`{"data":[{"embedding":[]},{"embedding":""},{"embedding":null},{"embedding":["1"]},{"embedding":[[1]]},` +
			`{"index":3},7,null]}`: {0, 8, 0},
		`{"data":[{"embedding":[1,null]},{"embedding":[1]}]}`: {1, 2, 3},
		`{"data":{"embedding":[1]}}`:                          {},
		`{"data":null}`:                                       {},
		`{"url":"x","b64_json":"y","text":"z"}`:               {},
		`{"data":[{"url":"x"}]}`:                              {0, 1, 0},
		`{"data":[{"embe\u0064ding":[1]}]}`:                   {1, 1, 3},
	} {
		c, err := ScanEmbeddings([]byte(doc))
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", doc, err)
		case c.Items != want.items:
			t.Errorf("%s: c.Items: got %d, want %d", doc, c.Items, want.items)
		case c.DataItems != want.all:
			t.Errorf("%s: c.DataItems: got %d, want %d", doc, c.DataItems, want.all)
		case c.ContentBytes != want.bytes:
			t.Errorf("%s: c.ContentBytes: got %d, want %d", doc, c.ContentBytes, want.bytes)
		case c.HasContent != (want.items > 0):
			t.Errorf("%s: c.HasContent: got %t, want %t", doc, c.HasContent, want.items > 0)
		}
	}
}

func TestVectorsThatNoClientCanReadAreNone(t *testing.T) {
	for vector, reads := range map[string]bool{
		`"AACAPw=="`:                             true,
		`"AACAPwAAgD8AAIA\/"`:                    true,
		`"AACAPwAA\ngD8="`:                       true,
		`"AACAPw"`:                               false, // without padding
		`"AAAA"`:                                 false, // 3 bytes
		`"AACA_w=="`:                             false, // the alphabet of URLs
		`"x"`:                                    false,
		`"===="`:                                 false,
		`"not a vector"`:                         false,
		`[1,-0.5,3.4e38]`:                        true,
		`[1e-999]`:                               true,
		`[1e999]`:                                false,
		`[1,-1E39]`:                              false,
		`[` + strings.Repeat("9", 38) + `]`:      true,
		`[` + strings.Repeat("9", 39) + `]`:      false,
		`[0.` + strings.Repeat("3", 60) + `,-1]`: true,
	} {
		c, err := ScanEmbeddings([]byte(`{"data":[{"embedding":` + vector + `}]}`))
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", vector, err)
		case c.DataItems != 1:
			t.Errorf("%s: c.DataItems: got %d, want 1", vector, c.DataItems)
		case (c.Items == 1) != reads:
			t.Errorf("%s: c.Items == 1: got %t, want %t", vector, c.Items == 1, reads)
		}
	}
}

func TestImagesCountOnlyWhatHoldsOne(t *testing.T) {
	for doc, want := range map[string]struct {
		items, all int
		bytes      int64
	}{
		`{"created":1,"data":[{"url":"https://x"},{"b64_json":"QUJD"}]}`:               {2, 2, 13},
		`{"data":[{"url":"a","b64_json":"b"}]}`:                                        {1, 1, 2},
		`{"data":[{"url":null,"b64_json":"b"},{"url":""},{"url":7},{},[{"url":"x"}]]}`: {1, 5, 1},
		`{"data":[]}`:                  {},
		`{"data":[{"embedding":[1]}]}`: {0, 1, 0},
	} {
		c, err := ScanImages([]byte(doc))
		switch {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", doc, err)
		case c.Items != want.items:
			t.Errorf("%s: c.Items: got %d, want %d", doc, c.Items, want.items)
		case c.DataItems != want.all:
			t.Errorf("%s: c.DataItems: got %d, want %d", doc, c.DataItems, want.all)
		case c.ContentBytes != want.bytes:
			t.Errorf("%s: c.ContentBytes: got %d, want %d", doc, c.ContentBytes, want.bytes)
		}
	}
}

func TestWhatIsDeliveredStandsOnce(t *testing.T) {
	for doc, scan := range map[string]func([]byte) (Chunk, error){
		`{"data":[],"data":[{"url":"x"}]}`:                 ScanImages,
		`{"data":[{"url":"x","url":"y"}]}`:                 ScanImages,
		`{"data":[{"b64_json":"x","b64_json":"y"}]}`:       ScanImages,
		`{"data":[{"embedding":[1],"embedding":[2]}]}`:     ScanEmbeddings,
		`{"text":"a","text":"b"}`:                          ScanTranscription,
		`{"type":"a","type":"b"}`:                          ScanEvent,
		`{"delta":"a","delta":"b"}`:                        ScanEvent,
		`{"b64_json":"a","b64\u005fjson":"b"}`:             ScanEvent,
		`{"url":"a","url":"b"}`:                            ScanEvent,
		`{"error":null,"error":{"message":"x"},"text":""}`: ScanTranscription,
	} {
		if _, err := scan([]byte(doc)); !errors.Is(err, ErrDuplicateKey) {
			t.Errorf("%s: got the error %v, want %v", doc, err, ErrDuplicateKey)
		}
	}
}

func TestEventsTellTheirTypeAndContent(t *testing.T) {
	for doc, want := range map[string]struct {
		kind, text string
		items      int
		bytes      int64
	}{
		`{"type":"transcript.text.delta","delta":"gr\u00fc\u00df"}`:           {`"transcript.text.delta"`, "", 0, 6},
		`{"text":"good","type":"transcript.text.done","usage":{"seconds":1}}`: {`"transcript.text.done"`, `"good"`, 0, 4},
		`{"type":"transcript.text.done", "text" : ""}`:                        {`"transcript.text.done"`, `""`, 0, 0},
		`{"type":"image_generation.completed","b64_json":"QUJD","text":null}`: {`"image_generation.completed"`, "", 1, 4},
		`{"type":7,"delta":{"text":"x"},"data":[{"url":"x"}],"url":""}`:       {"", "", 0, 0},
	} {
		c, err := ScanEvent([]byte(doc))
		if err != nil {
			t.Errorf("%s: got the error %v, want none", doc, err)
		} else if found := string(c.Type.Of([]byte(doc))); found != want.kind {
			t.Errorf("%s: c.Type.Of([]byte(doc)): got %q, want %q", doc, found, want.kind)
		} else if found := string(c.Text.Of([]byte(doc))); found != want.text {
			t.Errorf("%s: c.Text.Of([]byte(doc)): got %q, want %q", doc, found, want.text)
		} else if c.Items != want.items {
			t.Errorf("%s: c.Items: got %d, want %d", doc, c.Items, want.items)
		} else if c.ContentBytes != want.bytes {
			t.Errorf("%s: c.ContentBytes: got %d, want %d", doc, c.ContentBytes, want.bytes)
		} else if c.HasContent != (want.bytes > 0) {
			t.Errorf("%s: c.HasContent: got %t, want %t", doc, c.HasContent, want.bytes > 0)
		}
	}
}

func TestAnswersOfOtherKindsAreRestored(t *testing.T) {
	r := NewRewrite("acme/x", false)
	for _, c := range []struct {
		scan      func([]byte) (Chunk, error)
		doc, want string
	}{
		{ScanEmbeddings, `{"data":[{}]}`, `{"model":"acme/x","data":[{}]}`},
		{ScanEmbeddings, `{}`, `{}`},
		{ScanEmbeddings, `{"model":"local","usage":{"prompt_tokens":1},"data":[]}`,
			`{"model":"acme/x","usage":{"prompt_tokens":1},"data":[]}`},
		{ScanImages, `{"data":[{"model":"local"}]}`, `{"data":[{"model":"local"}]}`},
		{ScanImages, `{"model":"local","data":[]}`, `{"model":"acme/x","data":[]}`},
		{ScanTranscription, `{"text":"x","usage":{"seconds":1}}`, `{"text":"x","usage":{"seconds":1}}`},
		{ScanEvent, `{"type":"x","model":"local"}`, `{"type":"x","model":"acme/x"}`},
	} {
		chunk, err := c.scan([]byte(c.doc))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.Append(nil, []byte(c.doc), &chunk)); got != c.want {
			t.Errorf("%s: r.Append(nil, []byte(c.doc), &chunk): got %q, want %q", c.doc, got, c.want)
		} else if r.Leaves(&chunk) != (c.doc == c.want) {
			t.Errorf("%s: r.Leaves(&chunk): got %t, want %t", c.doc, r.Leaves(&chunk), c.doc == c.want)
		}
	}
}

func FuzzScanMedia(f *testing.F) {
	for _, doc := range []string{
		`{"model":"m","data":[{"embedding":[0.1,1e-7]},{"embedding":"AACAPw=="}],` +
			`"usage":{"prompt_tokens":9,"total_tokens":9}}`,
		`{"data":[{"url":"x","b64_json":null},{"b64_json":"QUJD"},[],7],"created":1}`,
		`{"text":"\ud83d","segments":[{"text":"x"}]}`,
		`{"type":"image_generation.completed","b64_json":"QQ==","partial_image_index":0}`,
		`{"t\u0079pe":"transcript.text.done","text":"","delta":{}}`, `{"error":{"message":"x"},"data":[{"embedding":[`, `[]`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		for name, scan := range map[string]func([]byte) (Chunk, error){
			"embeddings": ScanEmbeddings, "images": ScanImages, "transcription": ScanTranscription, "event": ScanEvent,
		} {
			c, err := scan(doc)
			if err != nil {
				continue
			}
			if !json.Valid(doc) {
				t.Fatalf("%s: accepted what is not JSON", name)
			}
			switch {
			case c.Items < 0:
				t.Fatalf("%s: c.Items: got %d, want at least 0", name, c.Items)
			case name != "event" && c.Items > c.DataItems:
				t.Fatalf(`%s: c.Items: got %d, want at most %d, where name != "event"`, name, c.Items, c.DataItems)
			case c.ContentBytes < 0 || c.ContentBytes > 3*int64(len(doc)):
				t.Fatalf("%s: c.ContentBytes: got %d, want 0 to %d", name, c.ContentBytes, 3*int64(len(doc)))
			case c.Items > 0 && c.ContentBytes == 0:
				t.Fatalf("%s: c.ContentBytes: got 0, want any but 0, where c.Items > 0", name)
			}
			if n := reference(doc, name); n >= 0 && n != c.Items {
				t.Fatalf("%s: %d items, a parser sees %d", name, c.Items, n)
			}
			r := NewRewrite("new/model", false)
			out := r.Append(nil, doc, &c)
			if !json.Valid(out) {
				t.Fatalf("%s: json.Valid(out): got false, want true, with %s", name, out)
			}
			if r.Leaves(&c) != (string(out) == string(doc)) && !strings.Contains(string(doc), "new") {
				t.Fatalf(`%s: doc: got %q, want "new" in it, with %s`, name, string(doc), out)
			}
		}
	})
}

// reference counts items as encoding/json sees them; -1 when it cannot be
// compared, because it folds the case of keys.
func reference(doc []byte, name string) int {
	if name != "images" && name != "embeddings" || strings.ContainsAny(string(doc), "\\KS\u017f\u212a") ||
		string(doc) != strings.ToLower(string(doc)) {
		return -1
	}
	var top map[string]json.RawMessage
	var data []json.RawMessage
	if json.Unmarshal(doc, &top) != nil || json.Unmarshal(top["data"], &data) != nil {
		return 0
	}
	n := 0
	for _, raw := range data {
		var item map[string]any
		if json.Unmarshal(raw, &item) != nil {
			continue
		}
		if name == "embeddings" {
			if holdsVector(item["embedding"]) {
				n++
			}
			continue
		}
		url, _ := item["url"].(string)
		b64, _ := item["b64_json"].(string)
		if url != "" || b64 != "" {
			n++
		}
	}
	return n
}

func holdsVector(v any) bool {
	if text, ok := v.(string); ok {
		data, err := base64.StdEncoding.DecodeString(text)
		return err == nil && len(data) > 0 && len(data)%4 == 0
	}
	list, _ := v.([]any)
	for _, e := range list {
		if n, ok := e.(float64); !ok || math.IsInf(float64(float32(n)), 0) {
			return false
		}
	}
	return len(list) > 0
}
