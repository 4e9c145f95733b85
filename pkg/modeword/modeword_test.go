package modeword

import (
	"testing"

	eventsv1 "svc.internal/proto/svc/events/v1"
)

func TestEveryModeButTheWebSocketIsExternal(t *testing.T) {
	t.Parallel()
	for mode, want := range map[eventsv1.ConnectionMode]string{
		eventsv1.ConnectionMode_CONNECTION_MODE_UNSPECIFIED: "",
		eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET:   WebSocket,
		eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL:    External,
		9: External, // of a later release
	} {
		if got := Of(mode); got != want {
			t.Errorf("mode %d: got %q, want %q", mode, got, want)
		}
	}
}
