package document

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"time"
)

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

// Policy is the Content-Security-Policy of a page: nothing but its own style, in no frame.
var Policy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
}()

// page is a document as it is printed. Its text is escaped, and it has no script.
var page = template.Must(template.New("document").Parse(pageText))

// HTML writes a document as a page to print.
func (d Document) HTML() ([]byte, error) {
	var out bytes.Buffer
	err := page.Execute(&out, struct {
		Document
		Number, Date string
		Style        template.CSS
	}{d, d.String(), d.At.UTC().Format(time.DateOnly), template.CSS(pageStyle)}) //nolint:gosec // its own style
	if err != nil {
		return nil, fmt.Errorf("write the page of %s: %w", d.Number, err)
	}
	return out.Bytes(), nil
}
