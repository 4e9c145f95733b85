package verification

import (
	"os"
	"testing"
	"time"

	"svc.internal/services/proving/internal/trial"
)

// EnvCalibrate asks for a whole calibration, whose samples replace those in testdata.
const EnvCalibrate = "SVC_E2E_CALIBRATE"

// calibrationPatience bounds a whole calibration, also on a machine with other work.
const calibrationPatience = time.Hour

// stalled is after how long the verifier goes on with the run that it finds under way.
const stalled = 15 * time.Minute

func TestAWholeCalibrationReachesPenalties(t *testing.T) {
	if os.Getenv(EnvCalibrate) == "" {
		t.Skipf("it takes minutes of computing: set %s=1", EnvCalibrate)
	}
	const model = "lab/calibrated"
	l := start(t, model)
	l.pass(t, stalled)
	began, next := time.Now(), time.Now()
	trial.UntilWithin(t, calibrationPatience, "the model is calibrated", func() bool {
		if time.Now().After(next) {
			next = time.Now().Add(15 * time.Second)
			t.Logf("%v: %d samples of %d families, strata %d, runs %d", time.Since(began).Round(time.Second),
				count(t, l.db, `SELECT count(*) FROM verifier.calibration_sample`),
				count(t, l.db, `SELECT count(DISTINCT family) FROM verifier.calibration_sample`),
				count(t, l.db, `SELECT count(*) FROM verifier.stratum`),
				count(t, l.db, `SELECT count(*) FROM verifier.calibration_run`))
		}
		return count(t, l.db, `SELECT count(*) FROM verifier.calibration`) > 0
	})
	t.Logf("calibrated after %v, with %d samples", time.Since(began), count(t, l.db,
		`SELECT count(*) FROM verifier.calibration_sample`))
	got := count(t, l.db, `SELECT count(*) FROM verifier.calibration WHERE penal`)
	if want := 4; got < want {
		t.Errorf("families that reach penalties: got %d, want at least %d", got, want)
	}
	l.keepSamples(t, model)
}
