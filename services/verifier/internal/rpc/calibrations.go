package rpc

import (
	"context"

	verifierv1 "svc.internal/proto/svc/verifier/v1"
	"svc.internal/services/verifier/internal/calibration"
	"svc.internal/services/verifier/internal/store"
)

const (
	// maxRuns bounds the runs beside the calibrations, and maxReferences the references.
	maxRuns       = 50
	maxReferences = 1_000
)

// StartCalibration begins a calibration of each stratum of a model that has references.
func (s *Admin) StartCalibration(
	ctx context.Context, req *verifierv1.StartCalibrationRequest,
) (*verifierv1.StartCalibrationResponse, error) {
	if err := checkText("model_id", req.GetModelId(), 1, maxModel); err != nil {
		return nil, err
	}
	runs, err := s.Actions.Calibrate(byOperator(ctx), req.GetModelId())
	if err != nil {
		return nil, shown(err)
	}
	return &verifierv1.StartCalibrationResponse{Runs: runsToProto(runs)}, nil
}

// ListCalibrations is one page of the calibrations that count now, by stratum. A page holds
// whole strata, so it may be a little longer or shorter than it was asked for.
func (s *Admin) ListCalibrations(
	ctx context.Context, req *verifierv1.ListCalibrationsRequest,
) (*verifierv1.ListCalibrationsResponse, error) {
	size, err := length(req.GetPageSize())
	if err != nil {
		return nil, err
	}
	if err := checkText("model_id", req.GetModelId(), 0, maxModel); err != nil {
		return nil, err
	}
	after, err := readCursor[store.StratumKey](req.GetCursor())
	if err != nil {
		return nil, err
	}
	strata, err := s.Store.Strata(ctx, req.GetModelId(), store.StratumKey{}, store.MaxBatch)
	if err != nil {
		return nil, err
	}
	of := map[store.StratumKey]calibration.Stratum{}
	for _, t := range strata {
		of[t.Key] = t.Stratum
	}
	size = max(size, len(calibrated)+1)
	list, err := s.Store.Calibrations(ctx, req.GetModelId(), after, size)
	if err != nil {
		return nil, err
	}
	resp := &verifierv1.ListCalibrationsResponse{}
	if len(list) == size {
		last := list[len(list)-1].Stratum
		for list[len(list)-1].Stratum == last {
			list = list[:len(list)-1]
		}
		resp.NextCursor = writeCursor(list[len(list)-1].Stratum)
	}
	for _, c := range list {
		resp.List = append(resp.List, &verifierv1.Calibration{
			Stratum: stratumToProto(of[c.Stratum]), Family: c.Calibration.Family.String(), Hash: c.Hash[:], Penal: c.Penal,
			MadeAt: moment(c.MadeAt),
		})
	}
	if req.GetCursor() == "" {
		runs, err := s.Store.CalibrationRuns(ctx, store.CalibrationRunID{}, maxRuns)
		if err != nil {
			return nil, err
		}
		resp.Runs = runsToProto(runs)
	}
	return resp, nil
}

// calibrated are the families that have calibrations; a stratum has at most one of each.
var calibrated = [...]string{"greedy", "sampled", "logprobs", "recall", "usage", "files"}

func stratumToProto(t calibration.Stratum) *verifierv1.Stratum {
	return &verifierv1.Stratum{ModelId: t.Model, Files: t.Files[:], QuantizationClass: int32(t.Class), Engine: t.Engine,
		GpuClass: t.GPU}
}

func runsToProto(runs []store.CalibrationRun) []*verifierv1.CalibrationRun {
	var list []*verifierv1.CalibrationRun
	for _, r := range runs {
		list = append(list, &verifierv1.CalibrationRun{
			RunId: r.ID.String(), Stratum: stratumToProto(r.Stratum.Stratum), State: string(r.State),
			Samples: number(r.Samples), Reason: r.Reason, StartedAt: moment(r.StartedAt), EndedAt: moment(r.EndedAt),
		})
	}
	return list
}

// ListReferences lists the references that are connected now.
func (s *Admin) ListReferences(
	_ context.Context, _ *verifierv1.ListReferencesRequest,
) (*verifierv1.ListReferencesResponse, error) {
	resp := &verifierv1.ListReferencesResponse{}
	all := s.Offers.AllReferences()
	for _, seat := range all[:min(len(all), maxReferences)] {
		resp.List = append(resp.List, &verifierv1.Reference{
			ProviderId: seat.Provider.String(), NodeId: seat.Node, ModelId: seat.Model.ID,
			QuantizationClass: int32(seat.Model.Class), Engine: seat.Model.Engine, GpuClass: seat.GPU,
			Revision: seat.Model.Revision,
		})
	}
	return resp, nil
}
