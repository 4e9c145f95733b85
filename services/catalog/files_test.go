package catalog

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
)

const source = "https://weights.example/"

func weightsOf(id string, names ...string) *catalogv1.PutModelFilesRequest {
	req := &catalogv1.PutModelFilesRequest{ModelId: id, WeightSourceUrl: source}
	for _, name := range names {
		req.Files = append(req.Files, &catalogv1.ModelFile{Filename: name, Hash: strings.Repeat("0a", 32), SizeBytes: 1 << 40,
			Url: source + name})
	}
	return req
}

func (r *replica) putFiles(t *testing.T, req *catalogv1.PutModelFilesRequest) *catalogv1.PutModelFilesResponse {
	t.Helper()
	resp, err := r.admin.PutModelFiles(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// rest is the public catalog over HTTP, by the routes of its description.
func (r *replica) rest(t *testing.T) http.Handler {
	t.Helper()
	mux := runtime.NewServeMux(runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{
		MarshalOptions: protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true},
	}))
	if err := catalogv1.RegisterPublicCatalogServiceHandlerClient(t.Context(), mux, r.public); err != nil {
		t.Fatal(err)
	}
	return mux
}

func get(t *testing.T, h http.Handler, path string) (int, map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	var body struct {
		Code *int           `json:"code"`
		Msg  string         `json:"msg"`
		Data map[string]any `json:"data"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	switch {
	case w.Code == http.StatusOK && body.Code == nil:
		t.Errorf("the envelope of %s: body.Code: got nil, want a value, where w.Code == http.StatusOK", path)
	case w.Code == http.StatusOK && *body.Code != 0:
		t.Errorf("the envelope of %s: *body.Code: got %d, want 0, where w.Code == http.StatusOK", path, *body.Code)
	case w.Code == http.StatusOK && body.Msg != "success":
		t.Errorf(`the envelope of %s: body.Msg: got %q, want "success", where w.Code == http.StatusOK`, path, body.Msg)
	}
	return w.Code, body.Data
}

func TestTheCatalogNamesWhatCanBeFetchedAndServed(t *testing.T) {
	b := setup(t)
	w := b.watch(t)
	for id, change := range map[string]func(*catalogv1.PutModelRequest){
		"test/plain":   func(r *catalogv1.PutModelRequest) { r.Category = "multimodal" },
		"test/retired": func(r *catalogv1.PutModelRequest) { r.Inactive = true },
		"vendor/model": func(r *catalogv1.PutModelRequest) { r.Kind = "gateway" },
		"test/bare":    func(*catalogv1.PutModelRequest) {},
	} {
		req := wish(id)
		change(req)
		b.put(t, req)
		if id != "test/bare" {
			b.putFiles(t, weightsOf(id, "model.safetensors", "config.json"))
		}
		w.until(t, id, "the model arrives", func(*catalogv1.Model) bool { return true })
	}
	code, data := get(t, b.rest(t), "/api/v1/models/catalog")
	got, _ := json.Marshal(data)
	const want = `{"models":[{"category":"multimodal",` +
		`"composite_hash":"653240bec5ed8a63f0686aee25a2c66c8f5bc9f3b9be645f94980d3e99b8af20",` +
		`"file_count":2,"model_id":"test/plain","name":"A model","total_size_bytes":2199023255552,` +
		`"weight_source_url":"https://weights.example/"}],"total":1}`
	if code != http.StatusOK {
		t.Errorf("the catalog: got %d, want 200", code)
	} else if string(got) != want {
		t.Errorf("got %q, want %q", string(got), want)
	}
	b.putFiles(t, weightsOf("test/plain"))
	if _, data = get(t, b.rest(t), "/api/v1/models/catalog"); data["total"] != 0.0 {
		t.Errorf("after the files were taken away: got %v, want 0.0", data["total"])
	}
}

func TestFilesAreFoundByIdsWithSlashes(t *testing.T) {
	b := setup(t)
	b.watch(t)
	rest := b.rest(t)
	for _, id := range []string{"Qwen/Qwen3-8B", "plain", "a/b/c:q4", "catalog/x", "files/x"} {
		b.put(t, wish(id))
		b.putFiles(t, weightsOf(id, "a"))
		for _, path := range []string{id, strings.ReplaceAll(id, "/", "%2F"), strings.ReplaceAll(id, "/", "%2f")} {
			code, data := get(t, rest, "/api/v1/models/"+path+"/files")
			files, _ := data["files"].([]any)
			switch {
			case code != http.StatusOK:
				t.Fatalf("files of %s: code: got %d, want 200", path, code)
			case data["model_id"] != id:
				t.Fatalf(`files of %s: data["model_id"]: got %v, want %v`, path, data["model_id"], id)
			case data["file_count"] != 1.0:
				t.Fatalf(`files of %s: data["file_count"]: got %v, want 1.0`, path, data["file_count"])
			case data["total_size_bytes"] != float64(1<<40):
				t.Fatalf(`files of %s: data["total_size_bytes"]: got %v, want %v`, path, data["total_size_bytes"], float64(1<<40))
			case len(files) != 1:
				t.Fatalf("files of %s: len(files): got %d, want 1", path, len(files))
			}
			file, _ := json.Marshal(files[0])
			if want := `{"algorithm":"sha256","filename":"a","hash":"` + strings.Repeat("0a", 32) +
				`","size_bytes":1099511627776,"url":"https://weights.example/a"}`; string(file) != want {
				t.Errorf("a file is %s, want %s", file, want)
			}
		}
		if code, _ := get(t, rest, "/api/v1/models/"+id+"/providers"); code != http.StatusOK {
			t.Errorf("providers of %s: got %d, want 200", id, code)
		}
	}
	b.put(t, wish("test/bare"))
	switch code, data := get(t, rest, "/api/v1/models/test/bare/files"); {
	case code != http.StatusOK:
		t.Errorf("a model without known weights: code: got %d, want 200", code)
	case data["file_count"] != 0.0:
		t.Errorf(`a model without known weights: data["file_count"]: got %v, want 0.0`, data["file_count"])
	case data["files"] == nil:
		t.Error(`a model without known weights: data["files"]: got nil, want a value`)
	}
	for _, id := range []string{"no/such", "catalog", ""} {
		if _, err := b.public.ListModelFiles(t.Context(), &catalogv1.ListModelFilesRequest{ModelId: id}); !fault.Is(err,
			fault.ModelNotFound) {
			t.Errorf("files of %q: got the error %v, want the reason %v", id, err, fault.ModelNotFound)
		}
	}
}

func TestTheSameFilesTwiceChangeNothingAndEveryReplicaHearsOfNewOnes(t *testing.T) {
	b := setup(t)
	other := b.start(t)
	b.watch(t)
	there := other.watch(t)
	b.put(t, wish("test/plain"))
	there.until(t, "test/plain", "the model arrives", func(*catalogv1.Model) bool { return true })
	first := b.putFiles(t, weightsOf("test/plain", "b", "a"))
	before := b.count(t, "SELECT weights_revision FROM revision")
	if second := b.putFiles(t, weightsOf("test/plain", "a", "b")); !proto.Equal(first, second) {
		t.Errorf("the second answer: got %v, want %v", second, first)
	}
	if after := b.count(t, "SELECT weights_revision FROM revision"); after != before {
		t.Errorf("the revision: got %d, want %d", after, before)
	}
	there.until(t, "test/plain", "the files arrive", func(*catalogv1.Model) bool {
		resp, err := other.public.ListModelFiles(t.Context(), &catalogv1.ListModelFilesRequest{ModelId: "test/plain"})
		return err == nil && proto.Equal(resp.GetData(), first.GetFiles())
	})
}

func TestFilesThatCannotStandAreRefused(t *testing.T) {
	b := setup(t)
	if _, err := b.admin.PutModelFiles(t.Context(), weightsOf("no/such", "a")); !fault.Is(err, fault.ModelNotFound) {
		t.Errorf("an unknown model: got the error %v, want the reason %v", err, fault.ModelNotFound)
	}
	b.put(t, wish("test/plain"))
	_, err := b.admin.PutModelFiles(t.Context(), weightsOf("test/plain", "a", "../b"))
	switch f, ok := fault.As(err); {
	case !ok:
		t.Errorf("a name that climbs out: got the error %v, want a fault", err)
	case f.Reason != fault.InvalidValue:
		t.Errorf("a name that climbs out: f.Reason: got %q, want %q", f.Reason, fault.InvalidValue)
	case f.Param != "files[1].filename":
		t.Errorf(`a name that climbs out: f.Param: got %q, want "files[1].filename"`, f.Param)
	}
	if n := b.count(t, "SELECT count(*) FROM weight_file"); n != 0 {
		t.Errorf("files stored: got %d, want 0", n)
	}
}
