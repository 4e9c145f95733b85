package score

import (
	"math"
	"testing"
	"testing/quick"
	"time"
)

func TestEachFactorMovesTheScoreItsWay(t *testing.T) {
	base := Input{Success: 0.9, FirstContent: time.Second, Load: 2, Limit: 10}
	for name, worse := range map[string]func(*Input){
		"success": func(in *Input) { in.Success = 0.8 },
		"latency": func(in *Input) { in.FirstContent = 2 * time.Second },
		"load":    func(in *Input) { in.Load = 5 },
		"trust":   func(in *Input) { in.Trust = 99 },
		"age":     func(in *Input) { in.Trust = Probation },
		"uptime":  func(in *Input) { in.Uptime, in.UptimeKnown = 0.9, true },
	} {
		in := base
		worse(&in)
		if Of(in) >= Of(base) {
			t.Errorf("a worse %s does not lower the score", name)
		}
	}
}

func TestWhatIsNotKnownOfUptimeOrIsStillJudgedIsNotHeldAgainstAnybody(t *testing.T) {
	base := Input{Success: 1, Limit: 10}
	perfect, fresh := base, base
	perfect.Uptime, perfect.UptimeKnown = 1, true
	if Of(base) != Of(perfect) {
		t.Error("an unknown uptime costs something")
	}
	fresh.Trust = Probation
	bad := fresh
	bad.UptimeKnown = true
	if Of(fresh) != Of(bad) {
		t.Error("uptime counts while the probation judges it")
	}
	never := base
	never.UptimeKnown = true
	if Of(never) != Of(base)/2 {
		t.Errorf("who was never there: got %v, want %v", Of(never), Of(base)/2)
	}
}

func TestAScoreIsAlwaysPositiveAndAtMostOne(t *testing.T) {
	check := func(success, up float64, known bool, first time.Duration, load, limit int16) bool {
		success = 0.01 + 0.99*math.Abs(math.Mod(success, 1))
		s := Of(Input{Success: success, FirstContent: first % time.Hour, Load: int(load) & 0x7fff, Limit: int(limit),
			Uptime: math.Abs(math.Mod(up, 1)), UptimeKnown: known})
		return s > 0 && s <= 1
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}
