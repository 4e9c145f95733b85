package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pg"
	"svc.internal/services/catalog/internal/weights"
)

const selectWeightsRevision = `SELECT weights_revision FROM revision`

const selectFiles = `
SELECT f.model_id, w.source_url, f.filename, f.sha256, f.size_bytes, f.url
FROM weight_file f JOIN weights w ON w.model_id = f.model_id`

const insertWeights = `INSERT INTO weights (model_id, source_url) VALUES ($1, $2)`

// deleteWeights takes the files too.
const deleteWeights = `DELETE FROM weights WHERE model_id = $1`

// LoadWeights reads the weights of all models, by model id, as of one moment.
// When their revision is the known one, no weights are read and changed is
// false.
func (s *Store) LoadWeights(
	ctx context.Context, known int64,
) (revision int64, sets map[string]weights.Set, changed bool, err error) {
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pg.InTx(ctx, s.pool, opts, func(tx pgx.Tx) error {
		sets, changed = nil, false
		if err := tx.QueryRow(ctx, selectWeightsRevision).Scan(&revision); err != nil {
			return fmt.Errorf("read the revision of weights: %w", err)
		}
		if revision == known {
			return nil
		}
		changed = true
		sets, err = readWeights(ctx, tx, selectFiles)
		return err
	})
	return revision, sets, changed, err
}

// PutWeights implements weights.Store.
func (s *Store) PutWeights(ctx context.Context, modelID string, set weights.Set) error {
	err := pg.InTx(ctx, s.pool, pgx.TxOptions{}, func(tx pgx.Tx) error {
		model, err := lockModel(ctx, tx, modelID)
		if err != nil {
			return err
		}
		if model == nil {
			return fault.New(fault.NotFound, fault.ModelNotFound, "the model does not exist").On("model_id")
		}
		current, err := readWeights(ctx, tx, selectFiles+` WHERE f.model_id = $1`, modelID)
		if err != nil || current[modelID].Equal(set) {
			return err
		}
		if err := writeWeights(ctx, tx, modelID, set); err != nil {
			return err
		}
		return auditFiles(ctx, tx, modelID, set)
	})
	return mendable(err)
}

func readWeights(ctx context.Context, tx pgx.Tx, query string, args ...any) (map[string]weights.Set, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("read weights: %w", err)
	}
	var model, source string
	var hash []byte
	var f weights.File
	sources, files := map[string]string{}, map[string][]weights.File{}
	_, err = pgx.ForEachRow(rows, []any{&model, &source, &f.Name, &hash, &f.Size, &f.URL}, func() error {
		f.Hash = weights.Hash(hash)
		sources[model] = source
		files[model] = append(files[model], f)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read weights: %w", err)
	}
	sets := make(map[string]weights.Set, len(files))
	for model, of := range files {
		sets[model] = weights.NewSet(sources[model], of)
	}
	return sets, nil
}

func writeWeights(ctx context.Context, tx pgx.Tx, modelID string, set weights.Set) error {
	if _, err := tx.Exec(ctx, deleteWeights, modelID); err != nil {
		return fmt.Errorf("delete weights: %w", err)
	}
	if set.Empty() {
		return nil
	}
	if _, err := tx.Exec(ctx, insertWeights, modelID, set.SourceURL); err != nil {
		return fmt.Errorf("insert weights: %w", err)
	}
	columns := []string{"model_id", "filename", "sha256", "size_bytes", "url"}
	rows := pgx.CopyFromSlice(len(set.Files), func(i int) ([]any, error) {
		f := set.Files[i]
		return []any{modelID, f.Name, f.Hash[:], f.Size, f.URL}, nil
	})
	if _, err := tx.CopyFrom(ctx, pgx.Identifier{"weight_file"}, columns, rows); err != nil {
		return fmt.Errorf("insert files: %w", err)
	}
	return nil
}
