// Package console has the built pages of the web console. Their sources are the TypeScript files beside
// it. `make console` builds the folder dist from them, and dist is committed, so that a gateway is built
// without node.
package console

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var built embed.FS

// Files returns the built pages: index.html, and below assets what it loads.
func Files() fs.FS {
	files, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the name is a valid one
	}
	return files
}
