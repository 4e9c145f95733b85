package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/totp"
	"svc.internal/services/standalone/localdata"
)

// OperatorName is the name of the demo's operator, who is an admin.
const OperatorName = "demo.admin"

// addOperator makes the first operator, as whoever holds a bootstrap token does. Where an admin is active already, it
// is the one of an earlier start, or one whom somebody else made: then the demo has none. The secret is remembered
// before its first code is shown, because a start may break off between.
func addOperator(ctx context.Context, url, bootstrap string, dir *localdata.Dir, known *Credentials) error {
	if bootstrap == "" {
		return nil
	}
	routes := url + "/api/v1/admin/operators/"
	var made struct {
		Invitation   string `json:"invitation"`
		Secret       string `json:"totp_secret"`
		Confirmation string `json:"confirmation"`
	}
	err := call(ctx, routes+"first", bootstrap, map[string]string{"name": OperatorName}, &made)
	if errors.Is(err, errExists) {
		return nil
	}
	if err != nil {
		return err
	}
	if known.OperatorPassword, err = dir.OperatorPassword(); err != nil {
		return err
	}
	if err := call(ctx, routes+"accept", "", map[string]string{
		"invitation": made.Invitation, "password": known.OperatorPassword}, &made); err != nil {
		return err
	}
	known.OperatorSecret = made.Secret
	if err := remember(dir, *known); err != nil {
		return err
	}
	return confirm(ctx, routes+"confirm", made.Confirmation, made.Secret)
}

// confirm shows a first code. A code counts once, so it is the code of the step before, which is still good: a person
// can sign in with the present one at once. Where the step changes meanwhile, the present one is shown.
func confirm(ctx context.Context, route, confirmation, secret string) (err error) {
	raw, err := totp.Encoding.DecodeString(secret)
	if err != nil {
		return fmt.Errorf("read the secret of codes: %w", err)
	}
	for _, ago := range []time.Duration{totp.Period, 0} {
		var answer struct{}
		err = call(ctx, route, "", map[string]string{"confirmation": confirmation,
			"code": totp.Code(raw, totp.Step(time.Now().Add(-ago)))}, &answer)
		if err == nil {
			return nil
		}
	}
	return err
}

// Code is the code that a secret has at a moment, and how long an authenticator shows it.
func Code(secret string, now time.Time) (code string, left time.Duration, err error) {
	raw, err := totp.Encoding.DecodeString(secret)
	if err != nil {
		return "", 0, fmt.Errorf("read the secret of codes: %w", err)
	}
	step := totp.Step(now)
	return totp.Code(raw, step), time.Unix((step+1)*int64(totp.Period.Seconds()), 0).Sub(now), nil
}
