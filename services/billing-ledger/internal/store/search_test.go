package store

// SearchOf shows tests the statements of searches, whose plans they look at.
var SearchOf = searchOf

// ActTable shows tests the table of what operators did.
var ActTable = actTable

// SearchEntries shows tests the statements of pages of entries.
var SearchEntries = searchEntries
