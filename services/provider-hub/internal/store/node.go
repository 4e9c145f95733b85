package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/presence"
	"svc.internal/services/provider-hub/internal/provider"
)

// nodeRow is a row of provider_node as JSON for the database.
type nodeRow struct {
	ProviderID   string    `json:"provider_id"`
	NodeID       string    `json:"node_id"`
	Name         string    `json:"node_name"`
	AgentVersion string    `json:"agent_version"`
	Dialect      string    `json:"dialect"`
	GPUType      string    `json:"gpu_type"`
	GPUModel     string    `json:"gpu_model"`
	GPUCount     int       `json:"gpu_count"`
	VRAMGB       int       `json:"vram_gb"`
	MemoryMB     int64     `json:"memory_mb"`
	Capability   string    `json:"compute_capability"`
	Engine       string    `json:"engine"`
	Eligible     bool      `json:"gpu_eligible"`
	Shortfall    string    `json:"gpu_shortfall"`
	LastSeen     time.Time `json:"last_seen_at"`
	Cut          string    `json:"cut_claims"`
}

func rowOf(n presence.Seen) nodeRow {
	hardware := n.Hardware
	if hardware == nil {
		hardware = &gpu.Report{}
	}
	shortfall := n.Hardware.Shortfall()
	return nodeRow{
		ProviderID: n.Provider.String(), NodeID: n.Node, Name: n.Name, AgentVersion: n.AgentVersion, Dialect: n.Dialect,
		GPUType: hardware.Type, GPUModel: hardware.Model, GPUCount: hardware.Count, VRAMGB: hardware.VRAMGB,
		MemoryMB:   hardware.MemoryMB,
		Capability: hardware.ComputeCapability, Engine: hardware.Engine, Eligible: shortfall == "", Shortfall: shortfall,
		LastSeen: n.LastSeen, Cut: n.Cut,
	}
}

// recordNodes writes what was seen of machines. The machines are sorted, so that two hubs
// do not wait for each other's locks.
func recordNodes(ctx context.Context, tx pgx.Tx, page presence.Page) error {
	b := &pgx.Batch{}
	if len(page.Nodes) > 0 {
		if err := queueNodes(b, page.Nodes); err != nil {
			return err
		}
	}
	for _, r := range page.Replaced {
		b.Queue(`
			UPDATE provider_node SET
				replaced = CASE WHEN replaced_since > $3 THEN least(replaced + $5, 1000000) ELSE $5 END,
				replaced_since = CASE WHEN replaced_since > $3 THEN replaced_since ELSE $4 END, replaced_at = $4
			WHERE provider_id = $1 AND node_id = $2`,
			r.Provider, r.Node, page.At.Add(-provider.ReplacedWithin), page.At, r.Times)
	}
	for _, w := range page.Warmed {
		b.Queue(`UPDATE provider_node SET warmup_error = $3 WHERE provider_id = $1 AND node_id = $2`, w.Provider, w.Node,
			w.Error)
	}
	if b.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, b).Close()
}

// queueNodes queues two statements however many machines there are, because a hub that
// was without its database has thousands to write. Beyond the bound, connected machines
// are kept before machines that were only seen lately.
func queueNodes(b *pgx.Batch, all []presence.Seen) error {
	rows, providers := make([]nodeRow, len(all)), make([]ids.ProviderID, len(all))
	for i, n := range all {
		rows[i], providers[i] = rowOf(n), n.Provider
	}
	data, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	b.Queue(`
		INSERT INTO provider_node AS n (provider_id, node_id, node_name, agent_version, dialect, gpu_type,
			gpu_model, gpu_count,
			vram_gb, memory_mb, compute_capability, engine, gpu_eligible, gpu_shortfall, last_seen_at, cut_claims)
		SELECT t.* FROM jsonb_to_recordset($1::jsonb) AS t (provider_id uuid, node_id text,
			node_name text, agent_version text,
			dialect text, gpu_type text, gpu_model text, gpu_count int, vram_gb int, memory_mb bigint, compute_capability text,
			engine text, gpu_eligible boolean, gpu_shortfall text, last_seen_at timestamptz, cut_claims text)
		ON CONFLICT (provider_id, node_id) DO UPDATE SET
			node_name = excluded.node_name, agent_version = excluded.agent_version, dialect = excluded.dialect,
			gpu_type = excluded.gpu_type, gpu_model = excluded.gpu_model, gpu_count = excluded.gpu_count,
			vram_gb = excluded.vram_gb, memory_mb = excluded.memory_mb, compute_capability = excluded.compute_capability,
			engine = excluded.engine, gpu_eligible = excluded.gpu_eligible, gpu_shortfall = excluded.gpu_shortfall,
			cut_claims = excluded.cut_claims, last_seen_at = greatest(n.last_seen_at, excluded.last_seen_at)`, string(data))
	b.Queue(`
		DELETE FROM provider_node n USING (
			SELECT provider_id, node_id, row_number() OVER (PARTITION BY provider_id ORDER BY EXISTS (
				SELECT FROM presence_interval i WHERE i.provider_id = m.provider_id AND i.node_id = m.node_id AND i.ended IS NULL
			) DESC, last_seen_at DESC, node_id) AS place
			FROM provider_node m WHERE provider_id = ANY($1::uuid[])
		) old
		WHERE n.provider_id = old.provider_id AND n.node_id = old.node_id AND old.place > $2`, idTexts(providers), maxNodes)
	return nil
}

// EndpointsOnly implements provider.Store. A node id that begins with external- is that of an endpoint's
// session. An agent that takes such an id changes only what its own owner reads.
func (s *Store) EndpointsOnly(ctx context.Context, id ids.ProviderID, since time.Time) (only bool, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM external_endpoint WHERE provider_id = $1) AND NOT EXISTS (
			SELECT FROM provider_node n
			WHERE n.provider_id = $1 AND n.last_seen_at >= $2 AND n.node_id NOT LIKE 'external-%')`, id, since).Scan(&only)
	if err != nil {
		return false, fmt.Errorf("look for the agents of a provider: %w", err)
	}
	return only, nil
}

// Nodes implements provider.Store.
func (s *Store) Nodes(
	ctx context.Context, id ids.ProviderID, since, now time.Time, limit int,
) ([]provider.Node, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT n.node_id, n.node_name, n.agent_version, n.dialect, n.gpu_type, n.gpu_model,
			n.gpu_count, n.vram_gb, n.memory_mb,
			n.compute_capability, n.engine, n.gpu_eligible, n.replaced, n.replaced_at, n.warmup_error, n.cut_claims,
			CASE WHEN o.online THEN $3 ELSE n.last_seen_at END AS seen, o.online
		FROM provider_node n
		CROSS JOIN LATERAL (SELECT EXISTS (
			SELECT FROM presence_interval i JOIN hub_run r USING (hub_id, incarnation)
			WHERE i.provider_id = n.provider_id AND i.node_id = n.node_id AND i.ended IS NULL
				AND r.ended IS NULL AND r.heard >= now() - $4::interval
		) AS online) o
		WHERE n.provider_id = $1 AND (n.last_seen_at >= $2 OR o.online)
		ORDER BY seen DESC, n.node_id LIMIT $5`, id, since, now, provider.HubSilence, limit)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (provider.Node, error) {
		var n provider.Node
		var replaced *time.Time
		err := row.Scan(&n.ID, &n.Name, &n.AgentVersion, &n.Dialect, &n.GPU.Type, &n.GPU.Model, &n.GPU.Count, &n.GPU.VRAMGB,
			&n.GPU.MemoryMB, &n.GPU.ComputeCapability, &n.GPU.Engine, &n.Eligible, &n.Replaced, &replaced, &n.WarmUpError,
			&n.Cut,
			&n.LastSeen, &n.Online)
		n.ReplacedAt = zero(replaced)
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list, nil
}
