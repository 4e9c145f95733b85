package check

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestThePageOfTheChartFollowsFromItsValues makes charts/svc/README.md of charts/svc/about.md
// and of the comments in values.yaml.
func TestThePageOfTheChartFollowsFromItsValues(t *testing.T) {
	var values yaml.Node
	if err := yaml.Unmarshal(read(t, chart+"/values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString("<!-- Written by charts/check of about.md and values.yaml: make chart-update -->\n\n")
	page.Write(read(t, chart+"/about.md"))
	page.WriteString(connections(t))
	page.WriteString("\n## Values\n\n| value | default | |\n|---|---|---|\n")
	for _, row := range rows("", values.Content[0]) {
		if row.text == "" {
			t.Errorf("values.yaml: %s: got no comment, want one", row.path)
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", row.path, row.standard, row.text)
	}
	hold(t, chart+"/README.md", []byte(page.String()))
}

type row struct{ path, standard, text string }

// rows are the values under a mapping. The comment of a mapping stands in its own row.
func rows(prefix string, mapping *yaml.Node) []row {
	var all []row
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		path := prefix + key.Value
		text := comment(key.HeadComment)
		deep := value.Kind == yaml.MappingNode && len(value.Content) > 0 && value.Style&yaml.FlowStyle == 0
		switch {
		case prefix == "services." && key.Value != "catalog":
			all = append(all, row{path, "", "as `services.catalog`: see values.yaml for its numbers"})
			continue
		case deep && hasEachService(value):
			all = append(all, row{path, "one for each service", text})
		case deep:
			if text != "" {
				all = append(all, row{path, "", text})
			}
			all = append(all, rows(path+".", value)...)
		default:
			all = append(all, row{path, standard(value), text})
		}
	}
	return all
}

// hasEachService reports whether a mapping has a key for each service, other than services
// itself.
func hasEachService(mapping *yaml.Node) bool {
	keys := map[string]*yaml.Node{}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		keys[mapping.Content[i].Value] = mapping.Content[i+1]
	}
	for _, service := range services() {
		if keys[service] == nil || keys[service].Kind == yaml.MappingNode && len(keys[service].Content) > 0 {
			return false
		}
	}
	return true
}

// standard shows a default: a list of mappings by the number of its entries.
func standard(value *yaml.Node) string {
	if value.Kind == yaml.SequenceNode && value.Style&yaml.FlowStyle == 0 && len(value.Content) > 0 {
		return fmt.Sprintf("%d entries", len(value.Content))
	}
	shown := *value
	shown.HeadComment, shown.LineComment, shown.FootComment = "", "", ""
	text, err := yaml.Marshal(&shown)
	if err != nil {
		return ""
	}
	return "`" + strings.TrimSpace(string(text)) + "`"
}

// comment is the last paragraph of a comment, on one line: an earlier one is about the file.
func comment(text string) string {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	lines := strings.Split(paragraphs[len(paragraphs)-1], "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "#"))
	}
	return strings.ReplaceAll(strings.Join(lines, " "), "|", "\\|")
}
