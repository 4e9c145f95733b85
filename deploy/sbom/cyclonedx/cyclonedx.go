// Package cyclonedx describes what a Go program is made of, from what the linker put into
// it, as a document of CycloneDX 1.6.
//
// A module of this tree has no version and no hash of its own. Every other module has the
// hash that go.sum holds it to, as the property go:sum. The same program gives the same
// bytes.
package cyclonedx

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// Extension is the end of a document's file name, by which scanners of images find it.
const Extension = ".cdx.json"

// Of returns the document of the program in a file, which bears the file's name.
func Of(program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", program, err)
	}
	text, err := json.MarshalIndent(describe(filepath.Base(program), info), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", program, err)
	}
	return append(text, '\n'), nil
}

// document is the part of CycloneDX 1.6 that is used.
type document struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// describe makes the document of a program.
func describe(name string, info *debug.BuildInfo) document {
	main := component{
		Type: "application", Ref: "program:" + name, Name: name, Version: info.Main.Version,
		Properties: []property{{"go:package", info.Path}, {"go:version", info.GoVersion}},
	}
	for _, setting := range info.Settings {
		if strings.HasPrefix(setting.Key, "vcs.") || setting.Key == "GOOS" || setting.Key == "GOARCH" ||
			setting.Key == "CGO_ENABLED" || setting.Key == "-tags" {
			main.Properties = append(main.Properties, property{"go:" + setting.Key, setting.Value})
		}
	}
	doc := document{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{main}, Components: []component{
		{Type: "library", Ref: "pkg:golang/std@" + info.GoVersion, Name: "std", Version: strings.TrimPrefix(info.GoVersion,
			"go"),
			PURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")},
	}}
	for _, module := range info.Deps {
		doc.Components = append(doc.Components, library(module))
	}
	slices.SortFunc(doc.Components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	on := dependency{Ref: main.Ref}
	for _, c := range doc.Components {
		on.DependsOn = append(on.DependsOn, c.Ref)
	}
	doc.Dependencies = []dependency{on}
	return doc
}

// library describes a module, as what it was replaced by where it was.
func library(module *debug.Module) component {
	used := module
	for used.Replace != nil {
		used = used.Replace
	}
	c := component{Type: "library", Name: module.Path, Version: module.Version}
	switch {
	case used.Sum != "":
		c.Name, c.Version = used.Path, used.Version
		c.PURL = "pkg:golang/" + used.Path + "@" + used.Version
		c.Ref = c.PURL
		c.Properties = []property{{"go:sum", used.Sum}}
	default:
		c.Ref = "module:" + module.Path
		c.Properties = []property{{"go:local", "true"}}
	}
	return c
}
