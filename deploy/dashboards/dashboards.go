// Command dashboards writes the dashboards of Grafana beside it: one of each service, by RED
// (rate, errors, duration of what it is asked) and USE (utilization, saturation and errors of
// what it has), and one of the business. go run . writes them; its test fails while a file is
// not what it would write.
//
// Uids are stable (svc-router), so links and a second import go on working. The data source
// is a variable. Thresholds are those of deploy/slo.md and deploy/alerts.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

type object = map[string]any

func main() {
	for _, d := range all() {
		text, err := d.render()
		if err == nil {
			err = os.WriteFile(d.file(), text, 0o600)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func (d dashboard) file() string { return d.name + ".json" }

// render returns the file's text.
func (d dashboard) render() ([]byte, error) {
	const width, height, columns = 8, 7, 3
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	y := 0
	for _, r := range d.rows {
		panels = append(panels, object{"id": len(panels) + 1, "type": "row", "title": r.title, "collapsed": false,
			"gridPos": object{"h": 1, "w": width * columns, "x": 0, "y": y}, "panels": []any{}})
		y++
		for i, p := range r.panels {
			at := object{"h": height, "w": width, "x": i % columns * width, "y": y + i/columns*height}
			panels = append(panels, p.object(len(panels)+1, at, source))
		}
		y += (len(r.panels) + columns - 1) / columns * height
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	err := encoder.Encode(object{
		"uid": "svc-" + d.name, "title": "svc / " + d.title, "tags": []string{"svc"}, "schemaVersion": 39, "version": 1,
		"editable": false, "refresh": "30s", "time": object{"from": "now-6h", "to": "now"}, "timezone": "utc",
		"templating": object{"list": []any{object{"name": "datasource", "label": "Data source", "type": "datasource",
			"query": "prometheus"}}},
		"panels": panels,
	})
	return out.Bytes(), err
}

func (p panel) object(id int, at, source object) object {
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.expr,
			"legendFormat": q.legend, "range": true, "exemplar": p.unit == "s"})
	}
	steps := []object{{"color": "green", "value": nil}}
	style := "off"
	if p.warn != 0 {
		steps, style = append(steps, object{"color": "red", "value": p.warn}), "line"
	}
	return object{
		"id": id, "type": "timeseries", "title": p.title, "description": p.note, "gridPos": at, "datasource": source,
		"targets": targets, "options": object{"legend": object{"displayMode": "list", "placement": "bottom"},
			"tooltip": object{"mode": "multi"}},
		"fieldConfig": object{"overrides": []any{}, "defaults": object{"unit": p.unit, "min": 0,
			"custom": object{"thresholdsStyle": object{"mode": style}}, "thresholds": object{"mode": "absolute",
				"steps": steps}}},
	}
}
