// Package wsconn makes messages out of the bytes of a WebSocket, and bytes out of
// messages (RFC 6455). It knows nothing of what messages say.
package wsconn

// Kind is the kind of the messages on a connection: the opcode of their first frame.
type Kind byte

// The kinds of messages.
const (
	Text   Kind = 0x1
	Binary Kind = 0x2
)
