package store

// SearchOf shows tests the statements of searches, whose plans they look at.
var SearchOf = searchOf

// Acted shows tests the table of what operators did.
var Acted = acted
