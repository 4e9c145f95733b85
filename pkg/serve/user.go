package serve

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// The metadata keys of the user for whom a call is made. Gateways set them once they have
// found the user of a session's token, and never pass them on from their own callers.
// Callers decides which service may make a user's call at all.
const (
	userKey    = "x-svc-user"
	accountKey = "x-svc-account"
	sessionKey = "x-svc-session"
	networkKey = "x-svc-network"
)

// maxCallerID bounds an id in bytes.
const maxCallerID = 64

// Caller is the user for whom a call is made.
type Caller struct {
	// User, Account and Session are ids: of the user, of its consumer account, and of the
	// user session that the call is made in. Session is empty in the sessions of an earlier
	// release.
	User, Account, Session string
	// Network is a digest of the network that the call comes from.
	Network string
}

// UserMetadata returns the metadata of a call that is made for a user.
func UserMetadata(c Caller) metadata.MD {
	return metadata.Pairs(userKey, c.User, accountKey, c.Account, sessionKey, c.Session, networkKey, c.Network)
}

// User returns the user for whom the call in ctx is made. ok is false when there is none.
func User(ctx context.Context) (c Caller, ok bool) {
	md, _ := metadata.FromIncomingContext(ctx)
	for key, into := range map[string]*string{
		userKey: &c.User, accountKey: &c.Account, sessionKey: &c.Session, networkKey: &c.Network,
	} {
		values := md.Get(key)
		if len(values) != 1 || len(values[0]) > maxCallerID {
			return Caller{}, false
		}
		*into = values[0]
	}
	return c, c.User != "" && c.Account != ""
}
