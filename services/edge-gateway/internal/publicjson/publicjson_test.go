package publicjson

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

// public are all messages that are answered with.
var public = []proto.Message{
	&billingv1.Receipt{}, &billingv1.CreateAccountResponse{}, &billingv1.GetAccountResponse{},
	&billingv1.GrantCreditResponse{},
	&billingv1.SetAccountLimitsResponse{}, &billingv1.SetAccountPlanResponse{}, &billingv1.SetAccountStateResponse{},
	&billingv1.IssueKeyResponse{}, &billingv1.RevokeKeyResponse{},
	&catalogv1.ListModelsResponse{}, &catalogv1.ListModelProvidersResponse{}, &catalogv1.PutModelResponse{},
	&hubv1.CreateProviderResponse{}, &hubv1.ListProvidersResponse{}, &hubv1.SetProviderStatusResponse{},
	&hubv1.IssueProviderKeyResponse{}, &hubv1.RevokeProviderKeyResponse{}, &settlementv1.ReconcileResponse{},
	&settlementv1.ListAllPenaltiesResponse{}, &settlementv1.ResolvePenaltyResponse{},
	&verifierv1.ListOfferingsResponse{}, &verifierv1.GetOfferingResponse{}, &verifierv1.ListObservationsResponse{},
	&verifierv1.ListVerdictsResponse{}, &verifierv1.GetEvidenceResponse{}, &verifierv1.ApproveVerdictResponse{},
	&verifierv1.VoidObservationsResponse{}, &verifierv1.StartCalibrationResponse{},
	&verifierv1.ListCalibrationsResponse{}, &verifierv1.ListReferencesResponse{}, &verifierv1.SetPenaltiesResponse{},
	&verifierv1.GetPenaltiesResponse{}, &verifierv1.RunBenchmarkResponse{}, &verifierv1.ListEffectsResponse{},
	&verifierv1.RetryEffectResponse{}, &settlementv1.GetConsumerDepositAddressResponse{},
	&settlementv1.ListConsumerDepositsResponse{},
}

// asText are 64-bit integers that operators alone read, as protojson writes them.
var asText = map[protoreflect.FullName]bool{"svc.settlement.v1.Penalty.revision": true}

func TestEveryPublicMessageIsSupported(t *testing.T) {
	seen := map[protoreflect.FullName]bool{}
	var walk func(protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] || m.FullName() == "google.protobuf.Timestamp" {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			oneof := f.ContainingOneof()
			switch {
			case f.IsMap():
				t.Error("not supported: f.IsMap(): got true, want false")
			case f.Kind() == protoreflect.GroupKind:
				t.Errorf("not supported: f.Kind(): got %v, want any but %v", f.Kind(), protoreflect.GroupKind)
			case oneof != nil && !oneof.IsSynthetic():
				t.Errorf("not supported: oneof.IsSynthetic(): got false, want true, with %s", f.FullName())
			}
			switch f.Kind() {
			case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind, protoreflect.Fixed64Kind,
				protoreflect.Sfixed64Kind:
				if !asText[f.FullName()] {
					t.Errorf("%s would be written as a string", f.FullName())
				}
			case protoreflect.MessageKind:
				walk(f.Message())
			default:
			}
		}
	}
	for _, m := range public {
		walk(m.ProtoReflect().Descriptor())
	}
}

func TestMessagesReadAsProtojsonWritesThem(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC))
	filled := []proto.Message{
		&billingv1.Receipt{
			RequestId: "r\"\u2028", CostUsd: 0.00000315, PromptTokens: -5, Stream: true, AdmittedAt: at,
			Attempts: []*billingv1.ReceiptAttempt{{Attempt: 1}, {Result: "served"}},
		},
		&hubv1.ListProvidersResponse{List: []*hubv1.Provider{{Status: hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE}, {}},
			Total: math.MaxInt32},
		&settlementv1.ResolvePenaltyResponse{Penalty: &settlementv1.Penalty{EvidenceHash: []byte{0xfb, 0xff, 0},
			Revision: 7}},
		&catalogv1.ListModelsResponse{Data: &catalogv1.ListModelsData{List: []*catalogv1.PublicModel{{
			InputPrice: 1e-12, OutputPrice: 1e22, GuaranteedContextLength: proto.Int32(0), Capabilities: []string{"a", ""},
		}}}},
	}
	for _, m := range append(filled, public...) {
		raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var got, want map[string]any
		if err := json.Unmarshal(Append(nil, m), &got); err != nil {
			t.Fatalf("%T is not JSON: %v", m, err)
		}
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatal(err)
		}
		dropNulls(got)
		dropNulls(want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%T\n got %v\nwant %v", m, got, want)
		}
	}
}

// dropNulls removes nulls, the one thing that differs.
func dropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if value == nil {
				delete(v, name)
			}
			dropNulls(value)
		}
	case []any:
		for _, element := range v {
			dropNulls(element)
		}
	}
}

func TestAbsentOptionalsAreNull(t *testing.T) {
	got := string(Append(nil, &catalogv1.PublicOffering{Online: true}))
	const want = `{"provider_id":"","provider_name":"","connection_mode":"","input_price":0,"output_price":0,` +
		`"input_price_str":"",` +
		`"output_price_str":"","context_length":0,"context_basis":"","quantization":"","ttft_ms_p50":null,` +
		`"ttft_ms_p95":null,` +
		`"tokens_per_second_p50":null,"success_rate_24h":null,"online":true,"region":"","uptime_30d":null,"trust":""}`
	if got != want {
		t.Errorf("Append(…): got %q, want %q", got, want)
	}
	if got := string(Append(nil, &catalogv1.PublicOffering{InputPrice: math.NaN()})); !json.Valid([]byte(got)) {
		t.Errorf("not a number broke the JSON: %s", got)
	}
}
