package bus

import "context"

// MaxAsync is the bound that PublishStreamAsync keeps.
const MaxAsync = maxAsync

// Listens is the choice of the stream that a message goes into.
func Listens(pattern, subject string) bool { return listens(pattern, subject) }

// SubscribeLimited is Subscribe with a small queue, to see it overflow.
func (c *Conn) SubscribeLimited(
	subject string, pending int, handler func(context.Context, Message),
) (*Subscription, error) {
	return c.subscribe(subject, "", pending, handler)
}
