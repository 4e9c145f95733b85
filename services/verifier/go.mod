module svc.internal/services/verifier

go 1.26.0

require (
	github.com/transparency-dev/merkle v0.0.2
	svc.internal/pkg v0.0.0
)

replace (
	svc.internal/pkg => ../../pkg
	svc.internal/proto => ../../proto
)
