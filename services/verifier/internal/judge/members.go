package judge

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// maxMembers bounds the members of an object.
const maxMembers = 1_024

// members returns the members of a JSON object. It reports false for what is no object, and
// for one in which a name stands twice.
func members(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	out := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok || len(out) == maxMembers {
			return nil, false
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return nil, false
		}
		if _, twice := out[name]; twice {
			return nil, false
		}
		out[name] = value
	}
	return out, true
}

// present reports whether a member is there and not null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// list reads an array into out. No array, and null, are an empty one; it reports false for
// another value.
func list(raw json.RawMessage, out *[]json.RawMessage) bool {
	return !present(raw) || json.Unmarshal(raw, out) == nil
}

// count reads a whole number from 0 to maxCount.
func count(raw json.RawMessage) (int64, bool) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil && n >= 0 && n <= maxCount
}
