package natsserver

import (
	"crypto/subtle"

	"github.com/nats-io/nats-server/v2/server"

	"svc.internal/pkg/bus"
)

// insideUser is the user of connections within the server's own process, which may do
// everything.
const insideUser = "inside"

// doorman decides who may connect to an embedded server and what they may do. A client
// proves its identity by a certificate where the server speaks TLS, and otherwise by the
// identity's password. A client with neither is refused.
type doorman struct{ inside, secret string }

// Check implements server.Authentication.
func (d doorman) Check(c server.ClientAuthentication) bool {
	given := c.GetOpts()
	if given.Username == insideUser {
		return equal(given.Password, d.inside)
	}
	id, known := d.identify(c)
	if !known {
		return false
	}
	publish, subscribe := id.Permissions()
	c.RegisterUser(&server.User{Username: id.Name(), Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: subscribe},
	}})
	return true
}

func (d doorman) identify(c server.ClientAuthentication) (bus.Identity, bool) {
	if state := c.GetTLSConnectionState(); state != nil {
		if len(state.VerifiedChains) == 0 {
			return bus.Identity{}, false
		}
		return certified(state.VerifiedChains[0][0].DNSNames)
	}
	given := c.GetOpts()
	if d.secret == "" || !equal(given.Password, bus.Password(d.secret, given.Username)) {
		return bus.Identity{}, false
	}
	return bus.ParseIdentity(given.Username)
}

// certified returns the identity that the names of a certificate make together. The name
// of the hubs' service alone makes none, because it does not say which hub it is.
func certified(names []string) (bus.Identity, bool) {
	var all bus.Identity
	for _, name := range names {
		one, ok := bus.ParseIdentity(name)
		if !ok {
			continue // a service that does not use the bus
		}
		if one.HubID != "" && all.HubID != "" {
			return bus.Identity{}, false
		}
		if one.HubID != "" {
			all.HubID = one.HubID
		}
		all.Services = append(all.Services, one.Services...)
	}
	return all, len(all.Services) > 0
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
