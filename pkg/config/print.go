package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Print writes a configuration as the file that would produce it, each setting with the
// variable that overrides it. Secrets are hidden. cfg is a pointer to a struct.
func Print(w io.Writer, cfg any) error {
	var root yaml.Node
	if err := root.Encode(cfg); err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	variables := map[string]string{}
	nameVariables(variables, "", reflect.TypeOf(cfg).Elem())
	comment(variables, "", &root)
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return fmt.Errorf("print the configuration: %w", err)
	}
	return encoder.Close()
}

// nameVariables finds the variable of each setting by its path in the file.
func nameVariables(into map[string]string, path string, typ reflect.Type) {
	if typ.Kind() != reflect.Struct {
		return
	}
	for i := range typ.NumField() {
		field := typ.Field(i)
		key, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case !field.IsExported() || key == "-":
		case strings.Contains(options, "inline"):
			nameVariables(into, path, field.Type)
		default:
			here := path + "/" + key
			if variable, _, _ := strings.Cut(field.Tag.Get("env"), ","); variable != "" {
				into[here] = variable
			}
			nameVariables(into, here, field.Type)
		}
	}
}

func comment(variables map[string]string, path string, node *yaml.Node) {
	if node.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		here := path + "/" + key.Value
		if variable := variables[here]; variable != "" {
			if value.Kind == yaml.ScalarNode || len(value.Content) == 0 {
				value.LineComment = variable
			} else {
				key.HeadComment = variable
			}
		}
		comment(variables, here, value)
	}
}
