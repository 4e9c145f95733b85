package providerapi

import (
	"context"
	"net/http"
)

// openIDMethod is an OpenID provider at which users may sign in.
type openIDMethod struct {
	Name  string `json:"name"`
	Label string `json:"label"`
}

// SignInMethods answers GET /api/v1/user/sign-in-methods: by what else than a password users may sign in
// here, whether letters are sent, and whether there is a playground. It says what the installation is set
// up for and nothing of any user, so it needs no key. While billing-ledger does not answer, an answer that
// is not older than an hour is given.
func (a *API) SignInMethods(ctx context.Context, _ Call) (Answer, error) {
	resp, _, err := a.signInMethods.get(ctx)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	providers := make([]openIDMethod, 0, len(resp.GetOpenid()))
	for _, one := range resp.GetOpenid() {
		providers = append(providers, openIDMethod{one.GetName(), one.GetLabel()})
	}
	body, err := enveloped(struct {
		OpenID     []openIDMethod `json:"openid"`
		Wallet     bool           `json:"wallet"` // which signs for the pages of the configured origins alone
		Letters    bool           `json:"letters"`
		Playground bool           `json:"playground"`
	}{providers, len(a.cfg.Origins) > 0, resp.GetLetters(), a.cfg.Playground && resp.GetPlayground()})
	if err != nil {
		return Answer{}, err
	}
	out := ok(body)
	out.Header = http.Header{"Cache-Control": {publicCache}}
	return out, nil
}
