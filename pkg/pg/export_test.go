package pg

// CheckLogin is what Open asks of a login off loopback.
var CheckLogin = checkLogin
