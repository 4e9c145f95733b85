package attack

// open names the attacks that still succeed, by hole and name, with what is missing. A
// name with @fleet or @standalone behind it is open on that form only.
var open = map[string]string{}
