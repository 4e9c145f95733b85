package gate

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	"svc.internal/pkg/fakeagent"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

func TestRegistrationWaitsForItsAnswerOffTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		e.desk.Wait = make(chan struct{})
		began := time.Now()
		_, err := e.dial(t, fakeagent.Options{})
		var refused *fakeagent.Refused
		if !errors.As(err, &refused) {
			t.Errorf("a look-up that hangs: got the error %v, want a %T", err, refused)
		} else if refused.Frame.GetCode() != agentwire.CodeTryLater {
			t.Errorf("a look-up that hangs: refused.Frame.GetCode(): got %q, want %q", refused.Frame.GetCode(),
				agentwire.CodeTryLater)
		}
		if took := time.Since(began); took < 5*time.Second {
			t.Errorf("a look-up that hangs is given up after: got %v, want at least %v", took, 5*time.Second)
		}
	})
}

func TestOldAgentIsNotForgottenWhileKeysCannotBeLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		e.desk.Failing = 12
		began := time.Now()
		m := e.oldAgent(t).register("good", "node-0001")
		if took := time.Since(began); m.Payload["success"] != true {
			t.Errorf(`m.Payload["success"]: got %v, want true`, m.Payload["success"])
		} else if took < 30*time.Second {
			t.Errorf("took: got %v, want at least %v", took, 30*time.Second)
		}
		a := e.oldAgent(t)
		began = time.Now()
		m = a.register("down", "node-0002")
		if m.Type != "error" {
			t.Errorf(`heard: m.Type: got %q, want "error"`, m.Type)
		} else if m.Payload["code"] != 503.0 {
			t.Errorf(`heard: m.Payload["code"]: got %v, want 503.0`, m.Payload["code"])
		}
		if took := time.Since(began); took < 4*time.Minute || took > 6*time.Minute {
			t.Errorf("refused: got %v, want %v to %v", took, 4*time.Minute, 6*time.Minute)
		}
		a.ends()
	})
}

func TestRefusedRegistrationIsHeldTwoSeconds(t *testing.T) {
	for key, want := range map[string]string{"bad": agentwire.CodeInvalidKey, "down": agentwire.CodeTryLater} {
		synctest.Test(t, func(t *testing.T) {
			e := serve(t, Config{})
			began := time.Now()
			_, err := e.dial(t, fakeagent.Options{Key: key})
			var refused *fakeagent.Refused
			switch {
			case !errors.As(err, &refused):
				t.Errorf("key %q: got the error %v, want a %T", key, err, refused)
			case refused.Frame.GetCode() != want:
				t.Errorf("key %q: refused.Frame.GetCode(): got %q, want %q", key, refused.Frame.GetCode(), want)
			case refused.Frame.GetReconnectAfterMs() < 2000:
				t.Errorf("key %q: refused.Frame.GetReconnectAfterMs(): got %d, want at least 2000", key,
					refused.Frame.GetReconnectAfterMs())
			}
			if held := time.Since(began); held < 2*time.Second || held > 4*time.Second {
				t.Errorf("held for: got %v, want %v to %v", held, 2*time.Second, 4*time.Second)
			}
		})
	}
}

func TestOldAgentThatIsRefusedIsHeldThirtySeconds(t *testing.T) {
	for key, want := range map[string]float64{"bad": 401, "": 401} {
		synctest.Test(t, func(t *testing.T) {
			e := serve(t, Config{})
			began := time.Now()
			a := e.oldAgent(t)
			if m := a.register(key, "node-0001"); m.Type != "error" {
				t.Errorf(`key %q: m.Type: got %q, want "error"`, key, m.Type)
			} else if m.Payload["code"] != want {
				t.Errorf(`key %q: m.Payload["code"]: got %v, want %v`, key, m.Payload["code"], want)
			}
			if status := a.ends(); status != 1008 {
				t.Errorf("closed: got %d, want 1008", status)
			} else if time.Since(began) < 30*time.Second {
				t.Errorf("time.Since(began): got %v, want at least %v", time.Since(began), 30*time.Second)
			}
		})
	}
}

func TestOldAgentThatIsNotRegisteredHearsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		e.desk.Wait = make(chan struct{})
		a := e.oldAgent(t)
		a.send(`{"type":"heartbeat","request_id":"early","payload":{}}`)
		a.send(`{"type":"model_health_update","payload":{"model_health":{"m":"unhealthy"}}}`)
		a.send(sessiontest.RegisterText("good", "node-0001"))
		a.send(`{"type":"heartbeat","request_id":"early","payload":{}}`)
		a.send(strings.ReplaceAll(sessiontest.RegisterText("good", "node-0001", "other"), "r-1", "r-2"))
		if !a.silent(3 * time.Second) {
			t.Fatal("the hub says something before the key is looked up")
		}
		close(e.desk.Wait)
		if m := a.hears(); m.RequestID != "r-2" {
			t.Errorf(`heard: m.RequestID: got %q, want "r-2"`, m.RequestID)
		} else if m.Payload["success"] != true {
			t.Errorf(`heard: m.Payload["success"]: got %v, want true`, m.Payload["success"])
		}
		if !a.silent(3 * time.Second) {
			t.Error("the hub says it twice")
		}
		if v, _ := e.desk.Session(t).View(); len(v.Offers) != 1 {
			t.Errorf("len(v.Offers): got %d, want 1, in %+v", len(v.Offers), v.Offers)
		} else if v.Offers[0].Model != "other" {
			t.Errorf(`v.Offers[0].Model: got %q, want "other"`, v.Offers[0].Model)
		}
	})
}

func TestRegistrationThatCannotBeReadIsRefusedAsAnyOther(t *testing.T) {
	padded := func(n int) string {
		hint := `"signature_hint":"` + strings.Repeat("x", n) + `","token"`
		return strings.Replace(sessiontest.RegisterText("good", "node-0001"), `"token"`, hint, 1)
	}
	noList := strings.Replace(sessiontest.RegisterText("good", "node-0001"), `["m"]`, `"m"`, 1)
	for name, c := range map[string]struct {
		text, says string
		status     int
	}{
		"models that are no list": {noList, "models", 1008},
		"without a payload":       {`{"type":"register","request_id":"r-1"}`, "registration", 1008},
		"no object":               {`["register"]`, "cannot be read", 1008},
		"cut off":                 {sessiontest.RegisterText("good", "node-0001")[:50], "cannot be read", 1008},
		"too large":               {padded(128 << 10), "131072 bytes", 1009},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := serve(t, Config{})
			began := time.Now()
			a := e.oldAgent(t)
			go func() { _, _ = a.ws.NetConn().Write(masked(finBit|opText, []byte(c.text))) }()
			m := a.hears()
			text, _ := m.Payload["message"].(string)
			switch {
			case m.Type != "error":
				t.Errorf(`%s: heard: m.Type: got %q, want "error"`, name, m.Type)
			case m.Payload["code"] != 400.0:
				t.Errorf(`%s: heard: m.Payload["code"]: got %v, want 400.0`, name, m.Payload["code"])
			case !strings.Contains(text, c.says):
				t.Errorf("%s: text: got %q, want %q in it", name, text, c.says)
			}
			if status := a.ends(); status != c.status {
				t.Errorf("%s: closed: got %d, want %d", name, status, c.status)
			} else if time.Since(began) < 30*time.Second {
				t.Errorf("%s: time.Since(began): got %v, want at least %v", name, time.Since(began), 30*time.Second)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		a := e.oldAgent(t)
		a.send(padded(100 << 10))
		if m := a.hears(); m.Payload["success"] != true {
			t.Errorf("one of 100 KiB: got %v, want true", m.Payload["success"])
		}
		synctest.Wait()
		if left := e.gate.large.Left(); left != e.gate.cfg.LargeBudget {
			t.Errorf("bytes left: got %d, want %d", left, e.gate.cfg.LargeBudget)
		}
		// On the live connection too.
		a.send(`{"type":"register","request_id":"r-2","payload":{"models":{}}}`)
		if m := a.hears(); m.Type != "error" {
			t.Errorf(`heard: m.Type: got %q, want "error"`, m.Type)
		} else if m.RequestID != "r-2" {
			t.Errorf(`heard: m.RequestID: got %q, want "r-2"`, m.RequestID)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{LargeBudget: 1 << 10})
		a := e.oldAgent(t)
		a.send(padded(100 << 10))
		if m := a.hears(); m.Payload["code"] != 503.0 {
			t.Errorf("without room: got %v, want 503.0", m.Payload["code"])
		}
	})
}

func TestStraysCountFromTheRegistrationOnAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		e.desk.Wait = make(chan struct{}) // keys cannot be looked up for a while
		a := e.oldAgent(t)
		a.send(sessiontest.RegisterText("good", "node-0001"))
		for range 300 { // three times what an agent may say without having been asked
			a.send(sessiontest.Chunk("r-99", `{"choices":[]}`, false))
		}
		close(e.desk.Wait)
		if m := a.hears(); m.Type != "ack" {
			t.Errorf(`heard: m.Type: got %q, want "ack"`, m.Type)
		} else if m.Payload["success"] != true {
			t.Errorf(`heard: m.Payload["success"]: got %v, want true`, m.Payload["success"])
		}
	})
}

func TestWarningsAndWalletsOfOldAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		e.desk.Warning = "this connection took the place of another"
		a := e.oldAgent(t)
		a.send(`{"type":"register","request_id":"w","payload":{"node_id":"node-0001","owner_addr":"0xabc",` +
			`"signature":"0x0102ff","auth_nonce":"n-1","models":[],"hardware":{"gpu_model":"A\u001b[31m",` +
			`"vram_gb":"many","gpu_count":-3,"compute_capability":"8.9\n\n10.0"}}}`)
		if m := a.hears(); !strings.Contains(fmt.Sprint(m.Payload["message"]), e.desk.Warning) {
			t.Errorf("heard: got %q, want %q in it", fmt.Sprint(m.Payload["message"]), e.desk.Warning)
		}
		shown := e.desk.Heard().Shown[0]
		want := session.Credential{Owner: "0xabc", Signature: []byte{1, 2, 255}, Nonce: "n-1"}
		if !reflect.DeepEqual(shown, want) {
			t.Errorf("showed: got %+v, want %+v", shown, want)
		}
		v, _ := e.desk.Session(t).View()
		if h := v.Hardware; h == nil {
			t.Error("hardware: got nil, want a value")
		} else if *h != (gpu.Report{Model: "A[31m", ComputeCapability: "8.9\n10.0"}) {
			t.Errorf("hardware: *h: got %+v, want %+v", *h, gpu.Report{Model: "A[31m", ComputeCapability: "8.9\n10.0"})
		}
	})
}

func TestRegistrationThatWaitsWhenTheHubDrainsIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := hold(t, Config{})
		a := e.oldAgent(t)
		a.send(sessiontest.RegisterText("good", "node-0001"))
		v2 := make(chan error, 1)
		go func() {
			_, err := e.dial(t, fakeagent.Options{})
			v2 <- err
		}()
		time.Sleep(3 * time.Second) //nolint:forbidigo // of a synctest bubble
		e.gate.Drain()
		if err := <-v2; err == nil {
			t.Error("an agent of v2 that waits hears: got no error, want one")
		} else if !strings.Contains(err.Error(), agentwire.CodeShuttingDown) {
			t.Errorf("an agent of v2 that waits hears: got the error %q, want %q in it", err, agentwire.CodeShuttingDown)
		}
		e.gate.Accept()
		if !a.silent(time.Minute) {
			t.Error("a hub that drains registers")
		}
		if err := e.gate.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if status := a.ends(); status != 1012 {
			t.Errorf("closed: got %d, want 1012", status)
		} else if e.desk.Heard().Epoch != 0 {
			t.Errorf("e.desk.Heard().Epoch: got %d, want 0", e.desk.Heard().Epoch)
		}
	})
}

func TestRegistrationThatIsLookedUpWhileTheHubDrainsIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		e.desk.Wait = make(chan struct{})
		a := e.oldAgent(t)
		a.send(sessiontest.RegisterText("good", "node-0001"))
		synctest.Wait()
		e.gate.Drain()
		close(e.desk.Wait)
		if !a.silent(time.Minute) {
			t.Error("registering with a hub that drains: a.silent(time.Minute): got false, want true")
		} else if got := len(e.desk.Heard().Joined); got > 0 {
			t.Errorf("registering with a hub that drains: len(e.desk.Heard().Joined): got %d, want 0", got)
		}
	})
}
