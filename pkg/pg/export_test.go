package pg

// CheckLogin is what Open asks of a login off loopback.
var CheckLogin = checkLogin

// IsQuiet is what decides whether an idle connection is asked for an answer.
var IsQuiet = isQuiet
