package offer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"svc.internal/pkg/config"
	"svc.internal/pkg/jsonscan"
)

// maxFile bounds models.json, in bytes.
const maxFile = 1 << 20

// maxFaults bounds the faults of a file that are reported.
const maxFaults = 50

// Load reads models.json. A relative api_key_file or weights_dir is taken from the file's
// own folder.
func Load(path string) ([]Model, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the models: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the models: %w", err)
	}
	models, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s:\n%w", path, err)
	}
	for i := range models {
		for _, name := range []*string{&models[i].APIKeyFile, &models[i].WeightsDir} {
			if *name != "" && !filepath.IsAbs(*name) {
				*name = filepath.Join(filepath.Dir(path), *name)
			}
		}
	}
	return models, nil
}

// Parse reads the text of models.json.
func Parse(text []byte) ([]Model, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("the file is larger than %d bytes", maxFile)
	}
	p := newParser(text)
	if err := p.doc.Valid(); err != nil {
		var at *jsonscan.Error
		if errors.As(err, &at) {
			p.fault(at.Offset, "%s", at.Reason)
		} else {
			p.faults = append(p.faults, err)
		}
		return nil, errors.Join(p.faults...)
	}
	models := p.file()
	if len(p.faults) > 0 {
		return nil, errors.Join(p.faults...)
	}
	return models, nil
}

// parser walks a document that is valid JSON.
type parser struct {
	text   []byte
	doc    jsonscan.Doc
	faults []error
}

func newParser(text []byte) *parser {
	return &parser{text: text, doc: jsonscan.New(text, jsonscan.Options{MaxDepth: 8, RefuseInvalidUTF8: true})}
}

// fault adds a fault at a byte offset.
func (p *parser) fault(offset int, format string, args ...any) {
	if len(p.faults) >= maxFaults {
		return
	}
	before := p.text[:min(offset, len(p.text))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	p.faults = append(p.faults, fmt.Errorf("line %d, column %d: %s", line, column, fmt.Sprintf(format, args...)))
}

// file reads either form. A file whose key models holds a list has the form of a list; any
// other has the form of a map.
func (p *parser) file() []Model {
	cursor := p.doc.Cursor()
	if kind := cursor.Kind(); kind != jsonscan.Object {
		p.fault(0, "the file must hold an object: the models by their ids, or a list of them with the key models")
		return nil
	}
	whole := cursor.Skip()
	var under *jsonscan.Member
	for key, value := range newParser(p.text).members(whole, "") { // faults are told below
		if key == "models" {
			under = &value
		}
	}
	if under == nil {
		return p.byID(whole)
	}
	for key, value := range p.members(whole, "") {
		if key != "models" {
			p.fault(value.Value.Start, "unknown key %q beside models", key)
		}
	}
	switch under.Kind {
	case jsonscan.Array:
		return p.list(under.Value)
	case jsonscan.Object:
		return p.byID(under.Value)
	default:
		p.fault(under.Value.Start, "models must be a list, or a map by model id")
		return nil
	}
}

// byID reads a map by model id.
func (p *parser) byID(span jsonscan.Span) []Model {
	var models []Model
	n := 0
	for id, value := range p.members(span, "") {
		n++
		where := strconv.Quote(id)
		if checkModelID(id) != nil {
			where = fmt.Sprintf("entry %d", n) // the malformed id may be a secret
		}
		switch {
		case n > MaxModels:
		case value.Kind != jsonscan.Object:
			p.fault(value.Value.Start, "%s must be an object", where)
		default:
			models = append(models, p.model(value.Value, where, Model{ModelID: id}, entryFields))
		}
	}
	if err := checkCount(n); err != nil {
		p.fault(span.Start, "%v", err)
	}
	return models
}

func (p *parser) list(span jsonscan.Span) []Model {
	var models []Model
	seen := map[string]bool{}
	n := 0
	for element, err := range p.doc.Array(span) {
		where := fmt.Sprintf("models[%d]", n)
		if err != nil {
			p.fault(span.Start, "%s: %v", where, err)
			break
		}
		if n++; n > MaxModels {
			continue
		}
		if element.Kind != jsonscan.Object {
			p.fault(element.Value.Start, "%s must be an object", where)
			continue
		}
		m := p.model(element.Value, where, Model{}, listFields)
		if seen[m.ModelID] {
			p.fault(element.Value.Start, "%s.model_id: %v", where, errTwice)
		}
		seen[m.ModelID] = m.ModelID != ""
		models = append(models, m)
	}
	if err := checkCount(n); err != nil {
		p.fault(span.Start, "%v", err)
	}
	return models
}

// fields are the keys of an entry, with the functions that store their values.
type fields map[string]func(raw []byte) error

// commonFields are the keys of an entry in both forms.
func commonFields(m *Model) fields {
	return fields{
		"local_model": text(&m.LocalModel), "quantization": text(&m.Quantization), "api_key_file": text(&m.APIKeyFile),
		"revision": text(&m.Revision),
		"weights_dir": func(raw []byte) error {
			err := text(&m.WeightsDir)(raw)
			m.WithoutFiles = err == nil && m.WeightsDir == ""
			return err
		},
		"context_length": func(raw []byte) (err error) {
			m.ContextLength, err = integer(raw, maxContext)
			return err
		},
		"capacity": func(raw []byte) error {
			n, err := integer(raw, MaxCapacity)
			m.Capacity = int(n)
			return err
		},
	}
}

// listFields are the keys of an entry of a list.
func listFields(m *Model) fields {
	all := commonFields(m)
	all["model_id"], all["engine_url"] = text(&m.ModelID), text(&m.EngineURL)
	return all
}

// entryFields are the keys of an entry of a map. Agents for dialect v1 also keep gpu_memory,
// category, format, weight_hash and hash_algo there, which this agent ignores.
func entryFields(m *Model) fields {
	all := commonFields(m)
	all["endpoint"] = text(&m.EngineURL)
	all["api_key"] = func(raw []byte) error {
		var key string
		if err := text(&key)(raw); err != nil {
			return err
		}
		m.APIKey = config.NewSecret(key)
		return nil
	}
	for _, key := range []string{"category", "format", "weight_hash", "hash_algo"} {
		all[key] = text(new(string))
	}
	all["gpu_memory"] = func(raw []byte) error {
		if n, err := strconv.ParseFloat(string(raw), 64); err != nil || n < 0 {
			return errors.New("must be a number")
		}
		return nil
	}
	return all
}

// text stores a string.
func text(to *string) func([]byte) error {
	return func(raw []byte) (err error) {
		if len(raw) == 0 || raw[0] != '"' {
			return errors.New("must be a string")
		}
		*to, err = jsonscan.DecodeString(raw)
		return err
	}
}

func integer(raw []byte, maxValue int64) (int64, error) {
	n, err := jsonscan.Int(raw)
	if err != nil {
		return 0, errors.New("must be a whole number")
	}
	return n, checkRange(n, 0, maxValue)
}

// model reads an entry. m has what is known of the model from elsewhere.
func (p *parser) model(span jsonscan.Span, where string, m Model, keys func(*Model) fields) Model {
	known := keys(&m)
	at := map[string]int{}
	for key, value := range p.members(span, where+".") {
		set, ok := known[key]
		if !ok {
			p.fault(value.Value.Start, "%s: unknown key %q", where, key)
			continue
		}
		at[key] = value.Value.Start
		if err := set(value.Value.Of(p.text)); err != nil {
			p.fault(value.Value.Start, "%s.%s: %v", where, key, err)
			at[key] = -1
		}
	}
	for _, f := range m.faults() {
		key := f.key
		if _, ok := known[key]; !ok && key == "engine_url" {
			key = "endpoint"
		}
		offset, there := at[key]
		switch {
		case !there:
			p.fault(span.Start, "%s.%s: %v", where, key, f.err)
		case offset >= 0: // else it was reported already
			p.fault(offset, "%s.%s: %v", where, key, f.err)
		}
	}
	return m.WithDefaults()
}

// members yields the members of an object by decoded key, each key once.
func (p *parser) members(span jsonscan.Span, where string) func(yield func(string, jsonscan.Member) bool) {
	return func(yield func(string, jsonscan.Member) bool) {
		seen := map[string]bool{}
		for member, err := range p.doc.Object(span) {
			if err != nil {
				p.fault(span.Start, "%s%v", where, err)
				return
			}
			key := string(member.Key.Name(p.text))
			if seen[key] {
				p.fault(member.Value.Start, "%s%q is given twice", where, key)
				continue
			}
			seen[key] = true
			if !yield(key, member) {
				return
			}
		}
	}
}
