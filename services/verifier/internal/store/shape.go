package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/verifier/internal/cover"
)

// shapeCode is how the database keeps a shape: four bits, then the length.
func shapeCode(s cover.Shape) int16 {
	code := int16(min(s.Length, cover.MaxLength)) << 4
	for i, set := range []bool{s.Streamed, s.Greedy, s.Logprobs, s.Tools} {
		if set {
			code |= 1 << i
		}
	}
	return code
}

func shapeOf(code int16) cover.Shape {
	return cover.Shape{
		Streamed: code&1 != 0, Greedy: code&2 != 0, Logprobs: code&4 != 0, Tools: code&8 != 0, Length: uint8(code >> 4),
	}
}

// ShapeCount is how often a shape was in an hour.
type ShapeCount struct {
	Hour  time.Time
	Shape cover.Shape
	Count int64
}

// KeepShapes keeps what a replica has heard of the requests of an hour. Every replica hears
// every report or misses it, so that the largest count is the nearest to the truth.
func (s *Store) KeepShapes(ctx context.Context, hour time.Time, counts map[cover.Shape]int64) error {
	codes, sums := make([]int16, 0, len(counts)), make([]int64, 0, len(counts))
	for shape, n := range counts {
		codes, sums = append(codes, shapeCode(shape)), append(sums, n)
	}
	_, err := s.pool.Exec(ctx, `
		INSERT INTO shape_hour AS h (hour, shape, requests) SELECT $1, c, n FROM unnest($2::smallint[], $3::bigint[])
			AS u (c, n)
		ORDER BY c ON CONFLICT (hour, shape) DO UPDATE SET requests = greatest(h.requests, excluded.requests)`,
		hour.UTC().Truncate(time.Hour), codes, sums)
	if err != nil {
		return fmt.Errorf("keep the shapes of an hour: %w", err)
	}
	return nil
}

// Shapes returns the requests of the last week by hour, from which a replica begins.
func (s *Store) Shapes(ctx context.Context) ([]ShapeCount, error) {
	list, err := collect(ctx, s.pool, scanShape, `SELECT hour, shape, requests FROM shape_hour
		WHERE hour > clock_timestamp() - interval '7 days' ORDER BY hour, shape`)
	if err != nil {
		return nil, fmt.Errorf("read the shapes of a week: %w", err)
	}
	return list, nil
}

// ProbedShapes returns the hidden probes of the last week, and those that are planned, by
// hour. Void ones are left out.
func (s *Store) ProbedShapes(ctx context.Context) ([]ShapeCount, error) {
	list, err := collect(ctx, s.pool, scanShape, `SELECT date_trunc('hour', due_at, 'UTC') AS hour, shape, count(*)
		FROM probe
		WHERE due_at > clock_timestamp() - interval '7 days' AND shape IS NOT NULL AND state <> 'void'
		GROUP BY hour, shape ORDER BY hour, shape`)
	if err != nil {
		return nil, fmt.Errorf("read the shapes of probes: %w", err)
	}
	return list, nil
}

func scanShape(row pgx.CollectableRow) (c ShapeCount, err error) {
	var code int16
	err = row.Scan(&c.Hour, &code, &c.Count)
	c.Hour, c.Shape = c.Hour.UTC(), shapeOf(code)
	return c, err
}

// forgetShapes removes the hours that no week holds any more.
const forgetShapes = `DELETE FROM shape_hour WHERE hour < clock_timestamp() - interval '8 days'`

// jsonInto scans a column of JSON bytes.
type jsonInto struct{ to any }

// ScanBytes implements pgtype.BytesScanner.
func (j jsonInto) ScanBytes(text []byte) error { return json.Unmarshal(text, j.to) }
