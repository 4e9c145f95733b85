package bus

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// ServerName is the name in the certificate of a NATS server. Clients refuse a server
// without it, so that no service can pass for the bus.
const ServerName = "nats"

// Password returns the password of an identity, by its name, at a server that knows
// secret (see natsserver.Config.Secret). It is for connections on loopback without TLS.
func Password(secret, identity string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("nats:" + identity))
	return hex.EncodeToString(mac.Sum(nil))
}

// Authorization returns the part of nats-server's configuration file that gives each
// identity its Permissions. With verify_and_map in the file's tls block, a client is the
// identity that its certificate names first, and a client without a certificate of the CA
// is nobody. A process of several services is known by its first service, or as its hub
// when it runs one.
func Authorization(identities ...Identity) []byte {
	var b strings.Builder
	b.WriteString("authorization {\n  users: [\n")
	for _, id := range identities {
		user := id.Services[0]
		if id.HubID != "" {
			user = HubName(id.HubID)
		}
		publish, subscribe := id.Permissions()
		fmt.Fprintf(&b,
			"    {user: %q, permissions: {\n      publish: {allow: [%s]}\n      subscribe: {allow: [%s]}\n    }}\n",
			user, quoted(publish), quoted(subscribe))
	}
	b.WriteString("  ]\n}\n")
	return []byte(b.String())
}

func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(out, ", ")
}
