package billingledger_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" // RFC 6238
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// by returns the context of an operator's call.
func by(ctx context.Context, call serve.OperatorCall) context.Context {
	return metadata.NewOutgoingContext(ctx, serve.OperatorCallMetadata(call))
}

// codeOf is the code of a secret in base32, as an authenticator makes it.
func codeOf(t *testing.T, secret string, at time.Time) string {
	t.Helper()
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha1.New, raw)
	_ = binary.Write(mac, binary.BigEndian, uint64(at.Unix()/30))
	sum := mac.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff%1_000_000)
}

// hired is an operator who has signed in.
type hired struct {
	operator *billingv1.Operator
	token    string
	call     serve.OperatorCall
}

// hire has the bearer of an invitation become an operator and sign in.
func (f *fleet) hire(t *testing.T, invitation string) hired {
	t.Helper()
	nobody := by(t.Context(), serve.OperatorCall{Network: "office"})
	accepted, err := f.staff.AcceptInvitation(nobody, &billingv1.AcceptInvitationRequest{Invitation: invitation,
		Password: password})
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(accepted.GetTotpUri())
	if err != nil {
		t.Fatal(err)
	}
	secret := at.Query().Get("secret")
	if secret != accepted.GetTotpSecret() {
		t.Errorf("the address: got %q, want the secret in it", accepted.GetTotpUri())
	}
	now := f.clock.Now()
	if _, err := f.staff.ConfirmOperator(nobody, &billingv1.ConfirmOperatorRequest{
		Confirmation: accepted.GetConfirmation(), Code: codeOf(t, secret, now)}); err != nil {
		t.Fatal(err)
	}
	in, err := f.staff.OpenOperatorSession(nobody, &billingv1.OpenOperatorSessionRequest{
		Name: accepted.GetOperator().GetName(), Password: password, Code: codeOf(t, secret, now.Add(30*time.Second))})
	if err != nil {
		t.Fatal(err)
	}
	whose, err := f.sessions.AuthenticateOperator(t.Context(),
		&billingv1.AuthenticateOperatorRequest{TokenSha256: digestOf(in.GetToken())})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := whose.GetExpiresAt().AsTime(), in.GetExpiresAt().AsTime(); !got.Equal(want) {
		t.Errorf("the session ends: got %v, want %v", got, want)
	}
	o := whose.GetOperator()
	return hired{o, in.GetToken(), serve.OperatorCall{Name: o.GetName() + "@" + o.GetOperatorId(),
		Session: whose.GetSessionId(), Network: "office"}}
}

// What operators do to operators, and that the audit log says who did it.
func TestOperatorsMakeAndEndOperatorsUnderTheirNames(t *testing.T) {
	f := start(t)
	first, err := f.staff.InviteFirstOperator(by(t.Context(), serve.OperatorCall{Name: "bootstrap.root"}),
		&billingv1.InviteFirstOperatorRequest{Name: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	alice := f.hire(t, first.GetInvitation())
	if alice.operator.GetRole() != "admin" {
		t.Errorf("the first operator: got the role %q, want admin", alice.operator.GetRole())
	}
	ctx := by(t.Context(), alice.call)
	invited, err := f.staff.InviteOperator(ctx, &billingv1.InviteOperatorRequest{Name: "bob", Role: "support"})
	if err != nil {
		t.Fatal(err)
	}
	bob := f.hire(t, invited.GetInvitation())
	id := bob.operator.GetOperatorId()
	if _, err := f.staff.SetOperatorRole(ctx, &billingv1.SetOperatorRoleRequest{OperatorId: id,
		Role: "viewer"}); err != nil {
		t.Fatal(err)
	}
	_, err = f.staff.ResetOperator(ctx, &billingv1.ResetOperatorRequest{OperatorId: alice.operator.GetOperatorId()})
	wantReason(t, "resetting oneself", err, fault.TransitionNotAllowed)
	if _, err := f.staff.ResetOperator(ctx, &billingv1.ResetOperatorRequest{OperatorId: id}); err != nil {
		t.Fatal(err)
	}
	whose := &billingv1.AuthenticateOperatorRequest{TokenSha256: digestOf(bob.token)}
	_, err = f.sessions.AuthenticateOperator(t.Context(), whose)
	wantReason(t, "the session of who was reset", err, fault.SessionExpired)
	for range 2 {
		if _, err := f.staff.EndOperator(ctx, &billingv1.EndOperatorRequest{OperatorId: id}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := f.staff.ListOperators(ctx, &billingv1.ListOperatorsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, o := range list.GetOperators() {
		shown = append(shown, fmt.Sprint(o.GetName(), " ", o.GetRole(), " ", o.GetState(), " ", o.GetLastSeenAt() != nil))
	}
	if want := []string{"alice admin active true", "bob viewer ended true"}; !slices.Equal(shown, want) {
		t.Errorf("listed: got %q, want %q", shown, want)
	}
	var did []string
	for _, k := range f.kept(t, 0) {
		did = append(did, k.actor+" "+k.action)
	}
	boss, other := "operator:"+alice.call.Name, "operator:"+bob.call.Name
	want := []string{"operator:bootstrap.root invite_operator", boss + " activate_operator", boss + " sign_in_operator",
		boss + " invite_operator", other + " activate_operator", other + " sign_in_operator",
		boss + " set_operator_role", boss + " reset_operator", boss + " end_operator"}
	if !slices.Equal(did, want) {
		t.Errorf("the audit log: got %q, want %q", did, want)
	}
	if _, err := f.staff.EndOperatorSession(ctx, &billingv1.EndOperatorSessionRequest{}); err != nil {
		t.Fatal(err)
	}
	_, err = f.sessions.AuthenticateOperator(t.Context(),
		&billingv1.AuthenticateOperatorRequest{TokenSha256: digestOf(alice.token)})
	wantReason(t, "signed out", err, fault.SessionExpired)
}

func TestCallsAboutOperatorsAreRefusedAsTheirDescriptionSays(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	for name, tc := range map[string]struct {
		call func() error
		want fault.Reason
	}{
		"a short digest": {func() error {
			_, err := f.sessions.AuthenticateOperator(ctx, &billingv1.AuthenticateOperatorRequest{TokenSha256: []byte("x")})
			return err
		}, fault.InvalidValue},
		"an odd name": {func() error {
			_, err := f.staff.InviteOperator(ctx, &billingv1.InviteOperatorRequest{Name: "Al@ops", Role: "admin"})
			return err
		}, fault.InvalidValue},
		"an odd role": {func() error {
			_, err := f.staff.InviteOperator(ctx, &billingv1.InviteOperatorRequest{Name: "al", Role: "first"})
			return err
		}, fault.InvalidValue},
		"no id": {func() error {
			_, err := f.staff.EndOperator(ctx, &billingv1.EndOperatorRequest{OperatorId: "x"})
			return err
		}, fault.OperatorNotFound},
		"nobody": {func() error {
			_, err := f.staff.SetOperatorRole(ctx, &billingv1.SetOperatorRoleRequest{OperatorId: newRequest(t), Role: "viewer"})
			return err
		}, fault.OperatorNotFound},
		"a machine signs out": {func() error {
			_, err := f.staff.EndOperatorSession(by(ctx, serve.OperatorCall{Name: "bot"}),
				&billingv1.EndOperatorSessionRequest{})
			return err
		}, fault.TransitionNotAllowed},
		"no such invitation": {func() error {
			_, err := f.staff.AcceptInvitation(ctx, &billingv1.AcceptInvitationRequest{Invitation: "opi_x", Password: password})
			return err
		}, fault.InvalidCredentials},
	} {
		wantReason(t, name, tc.call(), tc.want)
	}
}

func wantReason(t *testing.T, what string, err error, want fault.Reason) {
	t.Helper()
	if !fault.Is(err, want) {
		t.Errorf("%s: got %v, want %s", what, err, want)
	}
}
