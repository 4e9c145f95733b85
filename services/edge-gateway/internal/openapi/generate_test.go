package openapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	billingv1 "svc.internal/proto/svc/billing/v1"
	_ "svc.internal/proto/svc/catalog/v1" // its routes
	_ "svc.internal/proto/svc/health/v1"  // its routes
	hubv1 "svc.internal/proto/svc/hub/v1"
	_ "svc.internal/proto/svc/router/v1"     // its routes
	_ "svc.internal/proto/svc/settlement/v1" // its routes
	_ "svc.internal/proto/svc/verifier/v1"   // its routes

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/operator"
)

var update = flag.Bool("update", false, "write the description into openapi.json")

func TestTheDescriptionIsUpToDate(t *testing.T) {
	g := newGenerator(t)
	want := g.document()
	if *update {
		if err := os.WriteFile("openapi.json", want, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(Document(), want) {
		t.Error("openapi.json is behind v1.json or the .proto files: run go test ./internal/openapi -update")
	}
}

// object is a JSON object, whose members are written in order.
type object = map[string]any

// generator makes the description.
type generator struct {
	t        *testing.T
	schemas  object
	comments map[string]string // full name of a proto element → what is said of it
}

func newGenerator(t *testing.T) *generator {
	g := &generator{t: t, schemas: object{}, comments: map[string]string{}}
	files, err := filepath.Glob("../../../../proto/svc/*/*/*.proto")
	if err != nil {
		t.Fatalf("find the .proto files: got the error %v, want none", err)
	}
	if len(files) == 0 {
		t.Fatal("find the .proto files: len(files): got 0, want at least 1")
	}
	for _, file := range files {
		g.read(file)
	}
	return g
}

var (
	packageLine = regexp.MustCompile(`^package ([\w.]+);`)
	openLine    = regexp.MustCompile(`^(?:message|service|enum) (\w+) \{(\})?`)
	rpcLine     = regexp.MustCompile(`^rpc (\w+)\(`)
	fieldLine   = regexp.MustCompile(`^(?:optional |repeated )?[\w.<>, ]+ (\w+) = \d+[ ;]`)
)

// read takes the comments out of a file: descriptors that are linked in have
// none.
func (g *generator) read(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		g.t.Fatal(err)
	}
	var scope, comment []string
	for line := range strings.Lines(string(text)) {
		ends := strings.HasPrefix(line, "}") // of a message, and not of an option
		line = strings.TrimSpace(line)
		if said, ok := strings.CutPrefix(line, "//"); ok {
			comment = append(comment, strings.TrimSpace(said))
			continue
		}
		name := ""
		switch {
		case packageLine.MatchString(line):
			scope = []string{packageLine.FindStringSubmatch(line)[1]}
		case openLine.MatchString(line):
			m := openLine.FindStringSubmatch(line)
			scope = append(scope, m[1])
			g.note(scope, "", comment)
			if m[2] != "" {
				scope = scope[:len(scope)-1]
			}
		case rpcLine.MatchString(line):
			name = rpcLine.FindStringSubmatch(line)[1]
		case fieldLine.MatchString(line):
			name = fieldLine.FindStringSubmatch(line)[1]
		case ends && len(scope) == 2:
			scope = scope[:1]
		}
		if name != "" {
			g.note(scope, name, comment)
		}
		comment = nil
	}
}

func (g *generator) note(scope []string, name string, comment []string) {
	full := strings.Join(scope, ".")
	if name != "" {
		full += "." + name
	}
	g.comments[full] = strings.Join(comment, " ")
}

// document is the whole description.
func (g *generator) document() []byte {
	raw, err := os.ReadFile("v1.json")
	if err != nil {
		g.t.Fatal(err)
	}
	var doc object
	if err := json.Unmarshal(raw, &doc); err != nil {
		g.t.Fatal(err)
	}
	components := doc["components"].(object)
	headers := components["x-headers"].(object)
	delete(components, "x-headers")
	paths := doc["paths"].(object)
	for _, path := range paths {
		spread(path.(object), headers)
	}
	g.schemas = components["schemas"].(object)
	g.schemas["Error"].(object)["description"] = codes()
	g.message((&billingv1.Receipt{}).ProtoReflect().Descriptor(), answers)
	g.message((&hubv1.ProviderNode{}).ProtoReflect().Descriptor(), answers)
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			g.service(paths, file.Services().Get(i))
		}
		return true
	})
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(doc); err != nil {
		g.t.Fatal(err)
	}
	return out.Bytes()
}

// spread writes out the sets of headers that operations name.
func spread(path, sets object) {
	for _, operation := range path {
		for _, response := range operation.(object)["responses"].(object) {
			response := response.(object)
			named, _ := response["headers"].(object)
			if ref, ok := named["$ref"].(string); ok {
				response["headers"] = sets[ref[strings.LastIndex(ref, "/")+1:]]
			}
		}
	}
}

// codes lists the codes of errors by status.
func codes() string {
	byStatus := map[int][]string{}
	for reason, row := range apierror.Table {
		if row.Status != apierror.StatusClientClosed {
			byStatus[row.Status] = append(byStatus[row.Status], string(reason))
		}
	}
	out := "Every error has this form. The codes by status:"
	for _, status := range slices.Sorted(maps.Keys(byStatus)) {
		slices.Sort(byStatus[status])
		out += fmt.Sprintf(" %d %s.", status, strings.Join(byStatus[status], ", "))
	}
	return out + " An engine's refusal has its own code, or none."
}

// service adds the routes of a service.
func (g *generator) service(paths object, s protoreflect.ServiceDescriptor) {
	for i := range s.Methods().Len() {
		method := s.Methods().Get(i)
		method.Options().ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if field.FullName() == "google.api.http" {
				g.route(paths, method, v.Message())
			}
			return true
		})
	}
}

var variable = regexp.MustCompile(`\{(\w+)(=[^}]*)?\}`)

func (g *generator) route(paths object, method protoreflect.MethodDescriptor, rule protoreflect.Message) {
	text := func(name protoreflect.Name) string { return rule.Get(rule.Descriptor().Fields().ByName(name)).String() }
	for _, verb := range []protoreflect.Name{"get", "put", "post", "delete", "patch"} {
		template := text(verb)
		if template == "" {
			continue
		}
		path := variable.ReplaceAllString(template, "{$1}")
		item, ok := paths[path].(object)
		if !ok {
			item = object{}
			paths[path] = item
		}
		if item[string(verb)] != nil {
			g.t.Fatalf("%s %s is described twice: got %v, want nil", verb, path, item[string(verb)])
		}
		item[string(verb)] = g.operation(method, string(verb), template, text("body"))
	}
}

func (g *generator) operation(method protoreflect.MethodDescriptor, verb, template, body string) object {
	said := g.comments[string(method.FullName())]
	summary, _, _ := strings.Cut(said, ". ")
	op := object{
		"operationId": lowerFirst(strings.TrimSuffix(string(method.Parent().Name()), "Service")) + string(method.Name()),
		"tags":        []string{"models"},
		"security":    []object{{}},
		"summary":     strings.TrimSuffix(summary, ".") + ".",
		"description": said,
		"responses": object{
			"200": object{"description": "The answer.",
				"content": object{"application/json": object{"schema": g.message(method.Output(), answers)}}},
			"default": object{"$ref": "#/components/responses/Error"},
		},
	}
	if strings.HasPrefix(template, "/api/v1/admin/") {
		op["tags"], op["security"] = []string{"operators"}, []object{{"operatorToken": []string{}}}
		op["servers"] = []object{{"url": "http://127.0.0.1:8082",
			"description": "The operators' listener; operator_addr (SVC_OPERATOR_ADDR) says where it is."}}
		if operator.Open(strings.ToUpper(verb), template) {
			op["security"] = []object{{}}
		}
	}
	if strings.HasPrefix(template, "/api/v1/user/") || strings.HasPrefix(template, "/api/v1/consumer/") {
		op["tags"], op["security"] = []string{"users"}, []object{{"session": []string{}}}
	}
	var parameters []object
	inPath := map[string]bool{}
	for _, m := range variable.FindAllStringSubmatch(template, -1) {
		inPath[m[1]] = true
		parameters = append(parameters, g.parameter(method.Input(), m[1], "path"))
	}
	rest := object{}
	fields := method.Input().Fields()
	for i := range fields.Len() {
		name := string(fields.Get(i).Name())
		switch {
		case inPath[name]:
		case body == "":
			parameters = append(parameters, g.parameter(method.Input(), name, "query"))
		case body == "*":
			rest[name] = g.field(fields.Get(i), questions)
		case body == name:
			op["requestBody"] = jsonBody(g.field(fields.Get(i), questions))
		}
	}
	if body == "*" {
		op["requestBody"] = jsonBody(object{"type": "object", "additionalProperties": false, "properties": rest})
	}
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	return op
}

func jsonBody(schema any) object {
	return object{"content": object{"application/json": object{"schema": schema}}}
}

func (g *generator) parameter(input protoreflect.MessageDescriptor, name, in string) object {
	field := input.Fields().ByName(protoreflect.Name(name))
	p := object{"name": name, "in": in, "schema": g.scalar(field)}
	if in == "path" {
		p["required"] = true
	}
	if said := g.comments[string(field.FullName())]; said != "" {
		p["description"] = said
	}
	return p
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }
