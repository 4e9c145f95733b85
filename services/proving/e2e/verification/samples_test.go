package verification

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/proving/internal/trial"
)

// samplesFile has the samples of one whole calibration of the laboratory's model: a line for
// each, with family, number, host (0 or 1) and the sample in hexadecimal digits.
const samplesFile = "testdata/samples.gz"

// sample is what one challenge of a calibration measured.
type sample struct {
	family string
	number int
	host   int
	body   []byte
}

// hosts are the references of a model, as the verifier names them, in the order of their
// names.
func (l *laboratory) hosts(t testing.TB, model string) []string {
	t.Helper()
	rows, err := l.db.Query(context.Background(), `SELECT host FROM verifier.reference WHERE model_id = $1 ORDER BY host`,
		model)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// keepSamples writes the samples of a model's calibration into samplesFile.
func (l *laboratory) keepSamples(t testing.TB, model string) {
	t.Helper()
	hosts := l.hosts(t, model)
	rows, err := l.db.Query(context.Background(), `SELECT s.family, s.number, s.host, s.body
		FROM verifier.calibration_sample s JOIN verifier.calibration_run r USING (run_id)
		JOIN verifier.stratum t USING (stratum)
		WHERE t.model_id = $1 AND NOT s.cheaper ORDER BY s.family, s.number`, model)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s sample, err error) {
		var host string
		err = row.Scan(&s.family, &s.number, &host, &s.body)
		s.host = slices.Index(hosts, host)
		return s, err
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(samplesFile)
	if err != nil {
		t.Fatal(err)
	}
	out, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if _, err := fmt.Fprintf(out, "%s %d %d %x\n", s.family, s.number, s.host, s.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// readSamples reads samplesFile.
func readSamples(t testing.TB) []sample {
	t.Helper()
	file, err := os.Open(samplesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	in, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var list []sample
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var s sample
		var body string
		if _, err := fmt.Sscan(lines.Text(), &s.family, &s.number, &s.host, &body); err != nil {
			t.Fatalf("a line of %s: %v", samplesFile, err)
		}
		if s.body, err = hex.DecodeString(body); err != nil {
			t.Fatalf("a line of %s: %v", samplesFile, err)
		}
		list = append(list, s)
	}
	return list
}

// beginRun puts the run of a replica that has died into the database: whoever connects
// references finds it, and goes on with it once it has stood still for long enough.
func (l *laboratory) beginRun(t testing.TB, model string) {
	t.Helper()
	l.beginRunOf(t, model, make([]byte, 32))
}

// beginRunOf is beginRun for a model whose files have a composite hash.
func (l *laboratory) beginRunOf(t testing.TB, model string, files []byte) {
	t.Helper()
	exec(t, l.db, `WITH t AS (SELECT $1::text AS model, $2::bytea AS files,
			16 AS class, ''::text AS engine, ''::text AS gpu),
		key AS (SELECT sha256('svc stratum v1 '::bytea || int4send(octet_length(model)) || convert_to(model, 'UTF8')
			|| int4send(32) || files || int4send(1) || '\x10'::bytea || int4send(octet_length(engine))
			|| convert_to(engine, 'UTF8') || int4send(0)) AS stratum, t.* FROM t),
		made AS (INSERT INTO verifier.stratum (stratum, model_id, files, class, engine, gpu)
			SELECT stratum, model, files, class, engine, gpu FROM key RETURNING stratum)
		INSERT INTO verifier.calibration_run (run_id, stratum) SELECT gen_random_uuid(), stratum FROM made`, model, files)
}

// calibrate gives the verifier what an earlier calibration of every model measured, and
// waits until it has made calibrations of it.
func (l *laboratory) calibrate(t testing.TB) {
	t.Helper()
	list := readSamples(t)
	for _, model := range l.models {
		trial.Until(t, "the references of "+model+" are known", func() bool { return len(l.hosts(t, model)) == 2 })
		hosts := l.hosts(t, model)
		var run [16]byte
		err := l.db.QueryRow(context.Background(), `SELECT run_id FROM verifier.calibration_run
			JOIN verifier.stratum USING (stratum) WHERE model_id = $1`, model).Scan(&run)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.db.CopyFrom(context.Background(), pgx.Identifier{"verifier", "calibration_sample"},
			[]string{"run_id", "family", "number", "host", "cheaper", "body"},
			pgx.CopyFromSlice(len(list), func(i int) ([]any, error) {
				s := list[i]
				return []any{run, s.family, s.number, hosts[s.host], false, s.body}, nil
			}))
		if err != nil {
			t.Fatal(err)
		}
	}
	l.until(t, "all models are calibrated", func() bool {
		return count(t, l.db, `SELECT count(DISTINCT model_id) FROM verifier.calibration
			JOIN verifier.stratum USING (stratum)`) == len(l.models)
	})
}
