//go:build !crashpoints

package journal

// memory is nothing in ordinary builds.
type memory struct{}

func (memory) file(_ string, f diskFile) File { return f }
