package store

// SelectUnbatched and ByIndex let a test examine how the lines of a period are read.
const (
	SelectUnbatched = selectUnbatched
	ByIndex         = byIndex
)
