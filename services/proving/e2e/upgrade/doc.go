// Package upgrade holds a day's work that an earlier version of the marketplace left
// behind, and proves that the present version reads it: the four services' tables, the
// journals of two hubs that were killed, and messages on NATS.
//
// The day is in testdata, and is never made anew; its README says how it was made. Names
// that have changed since then are in testdata/rename.sed. The earlier version's account
// of the day is in testdata/want.json and in testdata/published, and the present version
// must say the same to the nano-dollar and to the byte.
package upgrade
