package billingledger_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	billingledger "svc.internal/services/billing-ledger"
)

// letterTo waits for a letter in a folder and returns its token.
func letterTo(t *testing.T, folder, kind string) string {
	t.Helper()
	var text []byte
	until(t, func() bool {
		found, err := filepath.Glob(filepath.Join(folder, "*-"+kind+"-*.txt"))
		if err != nil || len(found) == 0 {
			return false
		}
		text, err = os.ReadFile(found[0])
		return err == nil
	})
	_, rest, _ := strings.Cut(string(text), "#token=")
	token, _, _ := strings.Cut(rest, "\n")
	return token
}

// The calls of a gateway, one after the other: a user signs up in a browser, refreshes the
// session, confirms the e-mail, forgets the password, and is signed out by the reset.
func TestAUserOfABrowserStaysSignedInUntilThePasswordIsReset(t *testing.T) {
	folder := t.TempDir()
	f := start(t, func(c *billingledger.Config) {
		c.Mail.Sender, c.Mail.Folder = billingledger.LettersAsFiles, folder
	})
	up, err := f.users.SignUpUser(t.Context(), &billingv1.SignUpUserRequest{Email: "ada@example.com", Password: password,
		NetworkShown: "192.0.2.0/24", Remember: true})
	if err != nil {
		t.Fatal(err)
	}
	next, err := f.users.RefreshSession(t.Context(), &billingv1.RefreshSessionRequest{RefreshToken: up.GetRefreshToken()})
	if err != nil {
		t.Fatal(err)
	}
	in, err := f.users.GetUser(t.Context(), &billingv1.GetUserRequest{TokenDigest: digestOf(next.GetToken())})
	if err != nil {
		t.Fatal(err)
	}
	as := metadata.NewOutgoingContext(t.Context(), serve.UserMetadata(serve.Caller{User: in.GetUser().GetUserId(),
		Account: in.GetUser().GetAccountId(), Session: in.GetSessionId(), Network: "home"}))
	sessions, err := f.self.ListSessions(as, &billingv1.ListSessionsRequest{})
	if err != nil || len(sessions.GetSessions()) != 1 {
		t.Fatalf("sessions: got %v and %v, want one", sessions, err)
	}
	if s := sessions.GetSessions()[0]; !s.GetCurrent() || !s.GetRemembered() {
		t.Errorf("the session: got %v, want the current one, remembered", s)
	}
	if _, err := f.self.ListSessions(context.Background(), &billingv1.ListSessionsRequest{}); !fault.Is(err,
		fault.InvalidSession) {
		t.Errorf("for nobody: got the error %v, want %s", err, fault.InvalidSession)
	}
	if _, err := f.users.ConfirmEmail(t.Context(), &billingv1.ConfirmEmailRequest{
		Token: letterTo(t, folder, "confirm")}); err != nil {
		t.Errorf("confirmed: got the error %v, want none", err)
	}
	if me, err := f.self.GetMe(as, &billingv1.GetMeRequest{}); err != nil || !me.GetUser().GetEmailConfirmed() {
		t.Errorf("me: got %v and %v, want a confirmed e-mail", me, err)
	}
	if _, err := f.users.AskPasswordReset(t.Context(), &billingv1.AskPasswordResetRequest{
		Email: "ada@example.com"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.users.ResetPassword(t.Context(), &billingv1.ResetPasswordRequest{Token: letterTo(t, folder, "reset"),
		NewPassword: "battery staple", Network: "home"}); err != nil {
		t.Errorf("reset: got the error %v, want none", err)
	}
	_, err = f.users.RefreshSession(t.Context(), &billingv1.RefreshSessionRequest{RefreshToken: next.GetRefreshToken()})
	if !fault.Is(err, fault.SessionExpired) {
		t.Errorf("refreshed after the reset: got the error %v, want %s", err, fault.SessionExpired)
	}
	f.sound(t)
}
