package cyclonedx

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestADocumentNamesEveryModuleWithItsHash(t *testing.T) {
	info := &debug.BuildInfo{
		GoVersion: "go1.26.8", Path: "svc.internal/services/router/cmd/router",
		Main: debug.Module{Path: "svc.internal/services/router", Version: "(devel)"},
		Deps: []*debug.Module{
			{Path: "svc.internal/pkg", Version: "v0.0.0", Replace: &debug.Module{Path: "../../pkg"}},
			{Path: "example.com/b", Version: "v1.2.3", Sum: "h1:b"},
			{Path: "example.com/a", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.0.1",
				Sum: "h1:fork"}},
		},
		Settings: []debug.BuildSetting{{Key: "GOARCH", Value: "amd64"}, {Key: "-ldflags", Value: "-X secret=1"}},
	}
	got := describe("router", info)
	var refs []string
	for _, c := range got.Components {
		refs = append(refs, c.Ref)
	}
	want := "module:svc.internal/pkg pkg:golang/example.com/b@v1.2.3 pkg:golang/example.com/fork@v1.0.1 " +
		"pkg:golang/std@go1.26.8"
	if text := strings.Join(refs, " "); text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"bomFormat":"CycloneDX"`, `"specVersion":"1.6"`, `{"name":"go:sum","value":"h1:fork"}`,
		`"dependsOn":["module:svc.internal/pkg"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("got %s, want %s in it", text, part)
		}
	}
	if strings.Contains(string(text), "secret") {
		t.Errorf(`the linker's flags in the document: got %q, want it without "secret"`, string(text))
	}
}

// The shape is that of CycloneDX: every component has a type, a name and a reference
// of its own, and every dependency is a component.
func TestTheDocumentOfAProgramHasTheShapeOfCycloneDX(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := Of(self)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	switch {
	case doc["bomFormat"] != "CycloneDX":
		t.Errorf(`doc["bomFormat"]: got %v, want "CycloneDX"`, doc["bomFormat"])
	case doc["specVersion"] != "1.6":
		t.Errorf(`doc["specVersion"]: got %v, want "1.6"`, doc["specVersion"])
	case doc["version"] != 1.0:
		t.Errorf(`doc["version"]: got %v, want 1.0`, doc["version"])
	}
	refs := map[any]bool{}
	for _, c := range doc["components"].([]any) {
		c := c.(map[string]any)
		switch {
		case c["type"] != "library":
			t.Errorf(`the component: c["type"]: got %v, want "library"`, c["type"])
		case c["name"] == "":
			t.Error(`the component: c["name"]: got "", want some text`)
		case c["bom-ref"] == "":
			t.Error(`the component: c["bom-ref"]: got "", want some text`)
		case refs[c["bom-ref"]]:
			t.Error(`the component: refs[c["bom-ref"]]: got true, want false`)
		}
		refs[c["bom-ref"]] = true
	}
	for _, d := range doc["dependencies"].([]any) {
		for _, on := range d.(map[string]any)["dependsOn"].([]any) {
			if !refs[on] {
				t.Errorf("got a dependency on %v, which is no component", on)
			}
		}
	}
	if len(refs) == 0 {
		t.Error("got no components, want at least the standard library")
	}
	if _, err := Of(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("got no error for a program that is not there")
	}
}
