package edgegateway

import (
	"context"

	settlementv1 "svc.internal/proto/svc/settlement/v1"
)

// fundings says that nobody has sent anything.
type fundings struct {
	settlementv1.UnimplementedConsumerDepositServiceServer
}

func (fundings) GetConsumerDepositAddress(
	context.Context, *settlementv1.GetConsumerDepositAddressRequest,
) (*settlementv1.GetConsumerDepositAddressResponse, error) {
	return &settlementv1.GetConsumerDepositAddressResponse{}, nil
}

func (fundings) ListConsumerDeposits(
	context.Context, *settlementv1.ListConsumerDepositsRequest,
) (*settlementv1.ListConsumerDepositsResponse, error) {
	return &settlementv1.ListConsumerDepositsResponse{}, nil
}
