package pg

import (
	"testing"
	"time"
)

// CheckLogin is what Open asks of a login off loopback.
var CheckLogin = checkLogin

// IsQuiet is what decides whether an idle connection is asked for an answer.
var IsQuiet = isQuiet

// ConnectTimeout returns the bound of a connection's making.
func ConnectTimeout(t *testing.T, url string) time.Duration {
	t.Helper()
	pc, err := Config{URL: url, Schema: "x"}.poolConfig()
	if err != nil {
		t.Fatal(err)
	}
	return pc.ConnConfig.ConnectTimeout
}
