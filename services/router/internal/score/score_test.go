package score

import (
	"math"
	"testing"
	"testing/quick"
	"time"
)

func TestEachFactorMovesTheScoreItsWay(t *testing.T) {
	base := Input{Trust: 1, Success: 0.9, FirstContent: time.Second, Load: 2, Limit: 10}
	for name, worse := range map[string]func(*Input){
		"success": func(in *Input) { in.Success = 0.8 },
		"latency": func(in *Input) { in.FirstContent = 2 * time.Second },
		"load":    func(in *Input) { in.Load = 5 },
		"trust":   func(in *Input) { in.Trust = 0.9 },
		"age":     func(in *Input) { in.Probation = true },
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
	base := Input{Trust: 1, Success: 1, Limit: 10}
	perfect, fresh := base, base
	perfect.Uptime, perfect.UptimeKnown = 1, true
	if Of(base) != Of(perfect) {
		t.Error("an unknown uptime costs something")
	}
	fresh.Probation = true
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
	check := func(trust, success, up float64, known bool, first time.Duration, load, limit int16) bool {
		success = 0.01 + 0.99*math.Abs(math.Mod(success, 1))
		trust = 0.01 + 0.99*math.Abs(math.Mod(trust, 1))
		s := Of(Input{Trust: trust, Success: success, FirstContent: first % time.Hour,
			Load: int(load) & 0x7fff, Limit: int(limit),
			Uptime: math.Abs(math.Mod(up, 1)), UptimeKnown: known})
		return s > 0 && s <= 1
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}

func TestTrustIsAFactorAndAtMostFourFifthsInProbation(t *testing.T) {
	t.Parallel()
	base := Input{Trust: 1, Success: 1, Limit: 10}
	half := base
	half.Trust = 0.5
	if got, want := Of(half), Of(base)/2; got != want {
		t.Errorf("half the trust: got %v, want %v", got, want)
	}
	for _, c := range []struct{ trust, want float64 }{{1, 0.8}, {0.8, 0.8}, {0.5, 0.5}} {
		fresh := base
		fresh.Trust, fresh.Probation = c.trust, true
		if got, want := Of(fresh), Of(base)*c.want; got != want {
			t.Errorf("trust %v in probation: got %v, want %v", c.trust, got, want)
		}
	}
}

func TestGraceTakesUptimeForOneAndSuccessForFourFifths(t *testing.T) {
	t.Parallel()
	base := Input{Trust: 1, Success: 1, Limit: 10}
	spared := Input{Trust: 1, Success: 0.1, Limit: 10, UptimeKnown: true, Grace: true}
	if got, want := Of(spared), Of(base)*0.8*0.8; math.Abs(got-want) > 1e-12 {
		t.Errorf("little success and no uptime: got %v, want %v", got, want)
	}
	better := spared
	better.Success = 0.9
	if got, want := Of(better), Of(base)*0.9*0.9; math.Abs(got-want) > 1e-12 {
		t.Errorf("more success than it spares: got %v, want %v", got, want)
	}
	over := spared
	over.Grace = false
	if got, want := Of(over), Of(base)*0.1*0.1*0.5; math.Abs(got-want) > 1e-12 {
		t.Errorf("after the time: got %v, want %v", got, want)
	}
}
