// Package openapi is the description of the whole public surface, OpenAPI 3.1.
//
// What stands under /v1 is written by hand, in v1.json, for it is OpenAI's and
// not ours, and so are the calls of providers' agents, which are the agents'.
// What else stands under /api/v1 is generated from the services' .proto files,
// with their comments, and the codes of errors from their table; the
// result, openapi.json, is what is served. A test fails when it is behind, and
// writes it when asked: go test ./internal/openapi -update. Others prove that
// the routes that are served and those that are described are the same.
package openapi

import _ "embed"

//go:embed openapi.json
var document []byte

// Document is the description. It must not be changed.
func Document() []byte { return document }
