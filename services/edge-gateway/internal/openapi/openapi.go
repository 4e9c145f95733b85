// Package openapi is the description of the whole public surface, in OpenAPI 3.1.
//
// The routes under /v1 are OpenAI's and the calls of providers' agents are the agents',
// so both are written by hand, in v1.json. The other routes under /api/v1 are generated
// from the services' .proto files with their comments, and the codes of errors from the
// public table. The result, openapi.json, is served. A test fails when it is behind, and
// writes it when asked: go test ./internal/openapi -update. Other tests prove that the
// served routes are exactly the described routes.
package openapi

import _ "embed"

//go:embed openapi.json
var document []byte

// Document returns the description. It must not be changed.
func Document() []byte { return document }
