package attack

// open names the attacks that still succeed, by hole and name, with what is
// missing. A name with @fleet or @standalone behind it is open on that form
// alone.
var open = map[string]string{
	"F23_parallel_sign_ins": "sign-ins are counted behind the workers",
	"F23_owner_locked_out":  "a hundred wrong ones from anywhere lock an e-mail for 15 minutes",
}
