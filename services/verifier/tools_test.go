package verifier

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"google.golang.org/protobuf/encoding/protojson"

	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

// replays replays a verdict from the database and from exported evidence, and finds one
// flipped bit.
func (b *bundle) replays(verdict string) {
	t, ctx := b.t, b.t.Context()
	tools := &Tools{store: b.service.store, keeper: b.service.keeper}
	var table bytes.Buffer
	if err := tools.Replay(ctx, verdict, &table); err != nil {
		t.Errorf("from the database: got the error %v, want none\n%s", err, table.String())
	}
	var export bytes.Buffer
	for cursor := ""; ; {
		page, err := b.admin.GetEvidence(ctx, &verifierv1.GetEvidenceRequest{VerdictId: verdict, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		text, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(page)
		if err != nil {
			t.Fatal(err)
		}
		export.Write(text)
		if cursor = page.GetNextCursor(); cursor == "" {
			break
		}
	}
	table.Reset()
	if err := ReplayExported(verdict, bytes.NewReader(export.Bytes()), &table); err != nil {
		t.Errorf("from the export: got the error %v, want none\n%s", err, table.String())
	}
	b.flipped(verdict, export.Bytes())
}

// flipped flips one bit of the last piece.
func (b *bundle) flipped(verdict string, export []byte) {
	var page struct {
		Pieces []map[string]any `json:"pieces"`
	}
	if err := json.NewDecoder(bytes.NewReader(export)).Decode(&page); err != nil {
		b.t.Fatal(err)
	}
	last := page.Pieces[len(page.Pieces)-1]
	text, _ := last["json"].(string)
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		b.t.Fatal(err)
	}
	plain[len(plain)/2] ^= 1
	last["json"] = plain
	altered, err := json.Marshal(page)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := ReplayExported(verdict, bytes.NewReader(altered), &bytes.Buffer{}); !Differs(err) {
		b.t.Errorf("a flipped bit: got the error %v, want a difference", err)
	}
}
