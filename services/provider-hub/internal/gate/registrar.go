package gate

import (
	"context"

	"svc.internal/services/provider-hub/internal/session"
)

// Registrar decides who may register and keeps the sessions that stand.
type Registrar interface {
	session.Registrar
	// Check refuses, without a look-up, a credential of the wrong form. It fails as
	// Admit.
	Check(c session.Credential) error
	// Admit checks a credential. A fault's reason becomes the code of the refusal;
	// any other error asks the agent to come back later.
	Admit(ctx context.Context, c session.Credential) (session.Grant, error)
	// Leave removes a session, if it is there. It is called for every session, joined or
	// not, and changes nothing when it is called again.
	Leave(s *session.Session)
}
