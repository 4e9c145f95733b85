package rpc

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/catalog/internal/snapshot"
)

func TestTheWindowOfAnOfferingIsTheMeasuredOneWhereThereIsOne(t *testing.T) {
	t.Parallel()
	m := snapshot.Model{Model: model("m")} // with 8,192 tokens
	for name, c := range map[string]struct {
		offering *routerv1.Offering
		want     int32
		basis    string
	}{
		"measured": {&routerv1.Offering{ReportedContextLength: 4096, ContextLength: 1000,
			ContextSource: routerv1.ContextSource_CONTEXT_SOURCE_MEASURED}, 1000, "measured"},
		"measured above the catalog's": {&routerv1.Offering{ReportedContextLength: 16_384, ContextLength: 12_000,
			ContextSource: routerv1.ContextSource_CONTEXT_SOURCE_MEASURED}, 12_000, "measured"},
		"measured, and no figure": {&routerv1.Offering{ReportedContextLength: 4096,
			ContextSource: routerv1.ContextSource_CONTEXT_SOURCE_MEASURED}, 4096, "reported"},
		"reported": {&routerv1.Offering{ReportedContextLength: 4096, ContextLength: 4096,
			ContextSource: routerv1.ContextSource_CONTEXT_SOURCE_REPORTED}, 4096, "reported"},
		// The router has not heard of the catalog's window yet.
		"reported above the catalog's": {&routerv1.Offering{ReportedContextLength: 16_384, ContextLength: 16_384,
			ContextSource: routerv1.ContextSource_CONTEXT_SOURCE_REPORTED}, 8192, "catalog"},
		"silent": {&routerv1.Offering{ContextSource: routerv1.ContextSource_CONTEXT_SOURCE_CATALOG},
			8192, "catalog"},
		"an older router's": {&routerv1.Offering{ReportedContextLength: 4096}, 4096, "reported"},
	} {
		got := publicOffering(c.offering, m)
		if got.GetContextLength() != c.want {
			t.Errorf("%s: window: got %d, want %d", name, got.GetContextLength(), c.want)
		}
		if got.GetContextBasis() != c.basis {
			t.Errorf("%s: basis: got %q, want %q", name, got.GetContextBasis(), c.basis)
		}
	}
}

func TestTrustIsAWordAndNeverAFigure(t *testing.T) {
	t.Parallel()
	m := snapshot.Model{Model: model("m")}
	for name, c := range map[string]struct {
		offering *routerv1.Offering
		want     string
	}{
		"nothing said":             {&routerv1.Offering{}, "normal"},
		"nothing said, fresh":      {&routerv1.Offering{Probation: true}, "probation"},
		"at the threshold":         {&routerv1.Offering{Trust: proto.Float64(0.95)}, "high"},
		"just below it":            {&routerv1.Offering{Trust: proto.Float64(math.Nextafter(0.95, 0))}, "normal"},
		"little":                   {&routerv1.Offering{Trust: proto.Float64(0.05)}, "normal"},
		"not a number":             {&routerv1.Offering{Trust: proto.Float64(math.NaN())}, "normal"},
		"much in the first day":    {&routerv1.Offering{Trust: proto.Float64(1), Probation: true}, "probation"},
		"much after the first day": {&routerv1.Offering{Trust: proto.Float64(1)}, "high"},
	} {
		if got := publicOffering(c.offering, m).GetTrust(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
