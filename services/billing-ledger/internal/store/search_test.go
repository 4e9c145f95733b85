package store

// SearchOf shows tests the statements of searches, whose plans they look at.
var SearchOf = searchOf
