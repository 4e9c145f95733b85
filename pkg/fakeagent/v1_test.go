package fakeagent

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

func TestV1HandshakeIsAnonymousAndRegisterIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan V1Frame, 2)
		p := v1Hub(t, func(p *v1Peer) {
			h := p.request.Header
			switch {
			case p.request.URL.Path != "/ws":
				t.Errorf(`handshake: p.request.URL.Path: got %q, want "/ws"`, p.request.URL.Path)
			case p.request.URL.RawQuery != "":
				t.Errorf(`handshake: p.request.URL.RawQuery: got %q, want ""`, p.request.URL.RawQuery)
			case len(h["Authorization"])+len(h["Origin"])+len(h["Sec-Websocket-Protocol"])+
				len(h["Sec-Websocket-Extensions"]) > 0:
				t.Errorf("handshake: headers beyond the usual: got %d, want 0",
					len(h["Authorization"])+len(h["Origin"])+len(h["Sec-Websocket-Protocol"])+len(h["Sec-Websocket-Extensions"]))
			case h.Get("User-Agent") != "Go-http-client/1.1":
				t.Errorf(`h.Get("User-Agent"): got %q, want "Go-http-client/1.1"`, h.Get("User-Agent"))
			}
			f, _ := p.next()
			seen <- f
			p.ack(f)
			f, _ = p.next()
			seen <- f
			p.obey()
		})
		a := startV1(t, p, V1Options{Key: "sk-prov-x"})
		if err := a.AwaitRegistered(t.Context()); err != nil {
			t.Fatal(err)
		}
		if f := <-seen; f.Type != "register" {
			t.Errorf(`first: got %q, want "register"`, f.Type)
		} else if !strings.Contains(string(f.Payload), `"token":"sk-prov-x"`) {
			t.Errorf("f.Payload: got %q, want %q in it", string(f.Payload), `"token":"sk-prov-x"`)
		}
		if f := <-seen; f.Type != "model_health_update" {
			t.Errorf(`behind the ack: got %q, want "model_health_update"`, f.Type)
		}
		if len(a.NodeID()) != 130 {
			t.Errorf("len(a.NodeID()): got %d, want 130, in %s", len(a.NodeID()), a.NodeID())
		} else if got := len(V1HubNode(a.NodeID())); got != 35 {
			t.Errorf("len(V1HubNode(a.NodeID())): got %d, want 35", got)
		}
	})
}

func TestV1PermanentRefusalIsOnlyForJSON(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		body    string
		refused bool
	}{
		"503 in JSON":        {503, `{"error":{"message":"down"}}`, true},
		"500 in flat JSON":   {500, `{"api_key_valid":false}`, true},
		"401":                {401, `{"api_key_valid":false}`, true},
		"200 that forbids":   {200, `{"api_key_valid":true,"can_connect":false}`, true},
		"200":                {200, `{"api_key_valid":true,"can_connect":true}`, false},
		"503 in plain text":  {503, "down", false},
		"429 in plain text":  {429, "slow down", false},
		"an envelope":        {200, `{"code":0,"data":{"api_key_valid":true}}`, true},
		"404 in plain text":  {404, "404 page not found\n", false},
		"nothing whatsoever": {204, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := websocket.Upgrader{}
				p := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/api/v1/provider/status" {
						if r.Header.Get("Authorization") != "Bearer sk-prov-x" {
							t.Errorf(`status asked: got %q, want "Bearer sk-prov-x"`, r.Header.Get("Authorization"))
						}
						w.WriteHeader(c.status)
						_, _ = w.Write([]byte(c.body))
						return
					}
					ws, err := up.Upgrade(w, r, nil)
					if err != nil {
						t.Error(err)
						return
					}
					defer ws.NetConn().Close()
					(&v1Peer{t: t, ws: ws}).obey()
				})
				a := startV1(t, p, V1Options{Key: "sk-prov-x", ServiceURL: V1ServiceURL("ws://hub/ws")})
				err := a.AwaitRegistered(t.Context())
				if refused := err != nil; refused != c.refused || refused && !errors.Is(a.State().Dead, ErrV1Refused) {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

func TestV1ServiceURLIsDerived(t *testing.T) {
	for ws, want := range map[string]string{
		"wss://api-ws.example.org/ws": "https://api.example.org", "ws://h:1": "http://h:1", "ws://h:1/p/ws": "http://h:1/p",
	} {
		if got := V1ServiceURL(ws); got != want {
			t.Errorf("%s: got %s, want %s", ws, got, want)
		}
	}
}

func TestV1FirstDialRefusedIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := v1Hub(t, (*v1Peer).obey)
		p.refuse(true)
		a := startV1(t, p, V1Options{})
		await(t, a, func(s V1State) bool { return errors.Is(s.Dead, ErrV1FirstDial) })
		p.refuse(false)
		time.Sleep(time.Hour) //nolint:forbidigo // the bubble's hour: nobody dials in it
		if s := a.State(); s.Upgrades != 0 {
			t.Errorf("s.Upgrades: got %d, want 0", s.Upgrades)
		} else if s.Refusals != 1 {
			t.Errorf("s.Refusals: got %d, want 1", s.Refusals)
		}
	})
}

func TestV1ComesBackAtOnceAndBacksOffOnlyWhenRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closeNow := make(chan struct{})
		p := v1Hub(t, func(p *v1Peer) {
			p.welcome()
			<-closeNow
			p.close(websocket.CloseServiceRestart)
		})
		a := startV1(t, p, V1Options{})
		await(t, a, func(s V1State) bool { return s.Registrations == 1 })
		closeNow <- struct{}{}
		await(t, a, func(s V1State) bool { return s.Registrations == 2 })
		p.refuse(true)
		closeNow <- struct{}{}
		await(t, a, func(s V1State) bool { return s.Refusals == 8 })
		p.refuse(false)
		await(t, a, func(s V1State) bool { return s.Registrations == 3 })
		s := time.Second
		want := []time.Duration{time.Millisecond, time.Millisecond, s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 30 * s}
		if got := p.pauses(1); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("dialled: got %q, want %q", fmt.Sprint(got), fmt.Sprint(want))
		}
		switch lives := a.State().Lives; {
		case len(lives) != 2:
			t.Errorf("len(lives): got %d, want 2, in %+v", len(lives), lives)
		case lives[0].Code != websocket.CloseServiceRestart:
			t.Errorf("lives[0].Code: got %d, want %d", lives[0].Code, websocket.CloseServiceRestart)
		case !lives[0].Registered:
			t.Error("lives[0].Registered: got false, want true")
		}
		close(closeNow)
	})
}

func TestV1SpinsWhenClosedYoungAndIsDeadForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := v1Hub(t, func(p *v1Peer) {
			p.await("register")
			p.close(websocket.ClosePolicyViolation)
		})
		a := startV1(t, p, V1Options{})
		began := time.Now()
		await(t, a, func(s V1State) bool { return errors.Is(s.Dead, ErrV1Guard) })
		if s := a.State(); s.Upgrades != 93 {
			t.Errorf("s.Upgrades: got %d, want 93", s.Upgrades)
		} else if time.Since(began) > 100*time.Millisecond {
			t.Errorf("time.Since(began): got %v, want at most %v", time.Since(began), 100*time.Millisecond)
		}
		time.Sleep(time.Hour) //nolint:forbidigo // the bubble's hour: nobody dials in it
		if n := a.State().Upgrades; n != 93 {
			t.Errorf("upgrades: got %d, want 93", n)
		}
	})
}

func TestV1ClosedAfterASecondAlwaysComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := v1Hub(t, func(p *v1Peer) {
			p.await("register")
			select {
			case <-time.After(time.Second):
			case <-t.Context().Done():
			}
			p.close(websocket.ClosePolicyViolation)
		})
		a := startV1(t, p, V1Options{GuardAfter: 2})
		await(t, a, func(s V1State) bool { return s.Upgrades == 200 })
		if dead := a.State().Dead; dead != nil {
			t.Error(dead)
		}
	})
}

func TestV1LivesByPongsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := v1Hub(t, func(p *v1Peer) {
			p.ws.SetPingHandler(func(string) error { return nil })
			p.obey() // data goes both ways all the time
		})
		a := startV1(t, p, V1Options{})
		await(t, a, func(s V1State) bool { return len(s.Lives) == 1 })
		if age := a.State().Lives[0].Age(); age != time.Minute {
			t.Errorf("left after: got %v, want %v", age, time.Minute)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := v1Hub(t, (*v1Peer).obey)
		a := startV1(t, p, V1Options{})
		await(t, a, func(s V1State) bool { return s.Heartbeats == 20 })
		if n := len(a.State().Lives); n != 0 {
			t.Errorf("connections ended in ten minutes: got %d, want 0", n)
		}
	})
}

func TestV1LeavesAfterThreeHeartbeatsWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := v1Hub(t, func(p *v1Peer) {
			p.welcome()
			p.await("nothing")
		})
		a := startV1(t, p, V1Options{})
		await(t, a, func(s V1State) bool { return len(s.Lives) == 1 })
		if age := a.State().Lives[0].Age(); age != 90*time.Second {
			t.Errorf("left after: got %v, want %v", age, 90*time.Second)
		}
	})
}

func TestV1UnregisteredIsMuteForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frames := make(chan string, 64)
		p := v1Hub(t, func(p *v1Peer) {
			f := p.await("register")
			p.send("error", f.RequestID, map[string]any{"code": 401, "message": "invalid provider API key"})
			for {
				f, ok := p.next()
				if !ok {
					return
				}
				frames <- f.Type
			}
		})
		a := startV1(t, p, V1Options{})
		time.Sleep(time.Hour) //nolint:forbidigo // the bubble's hour: nothing is said in it
		switch s := a.State(); {
		case len(frames) != 0:
			t.Errorf("len(frames): got %d, want 0", len(frames))
		case !s.Connected:
			t.Error("s.Connected: got false, want true")
		case s.Registered:
			t.Error("s.Registered: got true, want false")
		case s.Upgrades != 1:
			t.Errorf("s.Upgrades: got %d, want 1", s.Upgrades)
		}
	})
}

func TestV1RefusesAMessageAboveOneMebibyte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		codes := make(chan error, 1)
		first := true
		p := v1Hub(t, func(p *v1Peer) {
			p.welcome()
			if !first {
				p.obey()
				return
			}
			first = false
			p.send("fits", "", strings.Repeat("x", v1Limit-100))
			go p.send("inference", "", strings.Repeat("x", v1Limit))
			_, _, err := p.ws.ReadMessage()
			codes <- err
		})
		a := startV1(t, p, V1Options{})
		if err := <-codes; !websocket.IsCloseError(err, websocket.CloseMessageTooBig) {
			t.Errorf("closed with %v", err)
		}
		await(t, a, func(s V1State) bool { return s.Registrations == 2 && s.Unknown == 1 })
	})
}

func TestV1AbortsAStreamThatNobodyReadsAndThenTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := v1Hub(t, func(p *v1Peer) {
			p.welcome()
			for i := range 3 {
				ask(p, fmt.Sprint(i), true)
			}
			<-t.Context().Done() // reads nothing more
		})
		timing := V1Observed()
		timing.Patience = time.Hour // the write itself does not give up first
		a := startV1(t, p, V1Options{Handler: V1Endless("on and on"), Timing: timing})
		await(t, a, func(s V1State) bool { return len(s.Lives) == 1 })
		if s := a.State(); s.Stalls != 3 {
			t.Errorf("s.Stalls: got %d, want 3", s.Stalls)
		} else if s.Lives[0].Age() != 5*time.Second {
			t.Errorf("s.Lives[0].Age(): got %v, want %v", s.Lives[0].Age(), 5*time.Second)
		}
	})
}
