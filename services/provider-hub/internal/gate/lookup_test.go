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
		if !errors.As(err, &refused) || refused.Frame.GetCode() != agentwire.CodeTryLater {
			t.Errorf("a look-up that hangs: %v", err)
		}
		if took := time.Since(began); took < 5*time.Second {
			t.Errorf("a look-up that hangs is given up after %v", took)
		}
	})
}

func TestOldAgentIsNotForgottenWhileKeysCannotBeLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		e.desk.Failing = 12
		began := time.Now()
		m := e.oldAgent(t).register("good", "node-0001")
		if took := time.Since(began); m.Payload["success"] != true || took < 30*time.Second {
			t.Errorf("%v after %v", m, took)
		}
		a := e.oldAgent(t)
		began = time.Now()
		m = a.register("down", "node-0002")
		if m.Type != "error" || m.Payload["code"] != 503.0 {
			t.Errorf("heard %v", m)
		}
		if took := time.Since(began); took < 4*time.Minute || took > 6*time.Minute {
			t.Errorf("refused after %v", took)
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
			if !errors.As(err, &refused) || refused.Frame.GetCode() != want || refused.Frame.GetReconnectAfterMs() < 2000 {
				t.Errorf("key %q: %v", key, err)
			}
			if held := time.Since(began); held < 2*time.Second || held > 4*time.Second {
				t.Errorf("held for %v", held)
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
			if m := a.register(key, "node-0001"); m.Type != "error" || m.Payload["code"] != want {
				t.Errorf("key %q: %v", key, m)
			}
			if status := a.ends(); status != 1008 || time.Since(began) < 30*time.Second {
				t.Errorf("closed with %d after %v", status, time.Since(began))
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
		if m := a.hears(); m.RequestID != "r-2" || m.Payload["success"] != true {
			t.Errorf("heard %v", m)
		}
		if !a.silent(3 * time.Second) {
			t.Error("the hub says it twice")
		}
		if v, _ := e.desk.Session(t).View(); len(v.Offers) != 1 || v.Offers[0].Model != "other" {
			t.Errorf("offers %+v", v.Offers)
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
			if m.Type != "error" || m.Payload["code"] != 400.0 || !strings.Contains(text, c.says) {
				t.Errorf("%s: heard %v", name, m)
			}
			if status := a.ends(); status != c.status || time.Since(began) < 30*time.Second {
				t.Errorf("%s: closed with %d after %v", name, status, time.Since(began))
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{})
		a := e.oldAgent(t)
		a.send(padded(100 << 10))
		if m := a.hears(); m.Payload["success"] != true {
			t.Errorf("one of 100 KiB: %v", m)
		}
		synctest.Wait()
		if left := e.gate.large.Left(); left != e.gate.cfg.LargeBudget {
			t.Errorf("%d bytes are left", left)
		}
		// On the live connection too.
		a.send(`{"type":"register","request_id":"r-2","payload":{"models":{}}}`)
		if m := a.hears(); m.Type != "error" || m.RequestID != "r-2" {
			t.Errorf("heard %v", m)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := serve(t, Config{LargeBudget: 1 << 10})
		a := e.oldAgent(t)
		a.send(padded(100 << 10))
		if m := a.hears(); m.Payload["code"] != 503.0 {
			t.Errorf("without room for it: %v", m)
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
		if m := a.hears(); m.Type != "ack" || m.Payload["success"] != true {
			t.Errorf("heard %v", m)
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
			t.Errorf("heard %v", m)
		}
		shown := e.desk.Heard().Shown[0]
		want := session.Credential{Owner: "0xabc", Signature: []byte{1, 2, 255}, Nonce: "n-1"}
		if !reflect.DeepEqual(shown, want) {
			t.Errorf("showed %+v, want %+v", shown, want)
		}
		v, _ := e.desk.Session(t).View()
		if h := v.Hardware; h == nil || *h != (gpu.Report{Model: "A[31m", ComputeCapability: "8.9\n10.0"}) {
			t.Errorf("hardware %+v", h)
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
		if err := <-v2; err == nil || !strings.Contains(err.Error(), agentwire.CodeShuttingDown) {
			t.Errorf("an agent of v2 that waits hears %v", err)
		}
		e.gate.Accept()
		if !a.silent(time.Minute) {
			t.Error("a hub that drains registers")
		}
		if err := e.gate.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if status := a.ends(); status != 1012 || e.desk.Heard().Epoch != 0 {
			t.Errorf("closed with %d, %d registered", status, e.desk.Heard().Epoch)
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
		if !a.silent(time.Minute) || len(e.desk.Heard().Joined) > 0 {
			t.Error("a hub that drains registers")
		}
	})
}
