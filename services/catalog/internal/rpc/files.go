package rpc

import (
	"context"
	"sync"

	catalogv1 "svc.internal/proto/svc/catalog/v1"
	"svc.internal/services/catalog/internal/entry"
	"svc.internal/services/catalog/internal/snapshot"
	"svc.internal/services/catalog/internal/weights"
)

// listing is the answer to ListCatalog of one snapshot. Its data is made once for all who ask,
// and never changed.
type listing struct {
	mu       sync.Mutex
	revision uint64
	resp     *catalogv1.ListCatalogResponse
}

func (l *listing) of(current *snapshot.Snapshot) *catalogv1.ListCatalogResponse {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resp == nil || l.revision < current.Revision {
		l.revision, l.resp = current.Revision, catalogToProto(current)
	}
	return &catalogv1.ListCatalogResponse{Msg: l.resp.GetMsg(), Data: l.resp.GetData()}
}

// ListCatalog names the models that a provider can fetch and serve, from
// memory.
func (s *Public) ListCatalog(context.Context, *catalogv1.ListCatalogRequest) (*catalogv1.ListCatalogResponse, error) {
	current, _, err := s.keeper.Current()
	if err != nil {
		return nil, err
	}
	return s.listing.of(current), nil
}

// ListModelFiles names the files of a model's weights, from memory.
func (s *Public) ListModelFiles(
	_ context.Context, req *catalogv1.ListModelFilesRequest,
) (*catalogv1.ListModelFilesResponse, error) {
	current, _, err := s.keeper.Current()
	if err != nil {
		return nil, err
	}
	model, err := find(current, req.GetModelId())
	if err != nil {
		return nil, err
	}
	return &catalogv1.ListModelFilesResponse{Msg: success, Data: filesToProto(model.ID, current.Weights[model.ID])}, nil
}

func catalogToProto(current *snapshot.Snapshot) *catalogv1.ListCatalogResponse {
	data := &catalogv1.ListCatalogData{}
	for _, m := range current.Models {
		set := current.Weights[m.ID]
		if set.Empty() || !m.Active || m.Kind != entry.Open {
			continue
		}
		data.Models = append(data.Models, &catalogv1.CatalogModel{
			ModelId: m.ID, Name: m.Name, Category: string(m.Category),
			FileCount: int32(len(set.Files)), TotalSizeBytes: float64(set.Bytes),
			WeightSourceUrl: set.SourceURL, CompositeHash: set.Composite.String(),
		})
	}
	data.Total = int32(len(data.Models))
	return &catalogv1.ListCatalogResponse{Msg: success, Data: data}
}

func filesToProto(modelID string, set weights.Set) *catalogv1.ModelFiles {
	files := make([]*catalogv1.ModelFile, len(set.Files))
	for i, f := range set.Files {
		files[i] = &catalogv1.ModelFile{
			Filename: f.Name, Hash: f.Hash.String(), Algorithm: weights.Algorithm, SizeBytes: float64(f.Size), Url: f.URL,
		}
	}
	return &catalogv1.ModelFiles{ModelId: modelID, Files: files, TotalSizeBytes: float64(set.Bytes),
		FileCount: int32(len(files))}
}

// PutModelFiles replaces the files of a model's weights. Readers of this process see
// the files once the call has returned, and readers of other processes a moment later.
func (s *Admin) PutModelFiles(
	ctx context.Context, req *catalogv1.PutModelFilesRequest,
) (*catalogv1.PutModelFilesResponse, error) {
	listings := make([]weights.Listing, len(req.GetFiles()))
	for i, f := range req.GetFiles() {
		listings[i] = weights.Listing{
			Name: f.GetFilename(), Hash: f.GetHash(), Algorithm: f.GetAlgorithm(), Bytes: f.GetSizeBytes(), URL: f.GetUrl(),
		}
	}
	set, err := s.shelf.Put(byOperator(ctx), req.GetModelId(), req.GetWeightSourceUrl(), listings)
	if err != nil {
		return nil, err
	}
	s.refresh(ctx)
	resp := &catalogv1.PutModelFilesResponse{Files: filesToProto(req.GetModelId(), set)}
	if !set.Empty() {
		resp.CompositeHash = set.Composite.String()
	}
	return resp, nil
}
