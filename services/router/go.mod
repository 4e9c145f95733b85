module svc.internal/services/router

go 1.26.0

require (
	svc.internal/pkg v0.0.0
	svc.internal/proto v0.0.0
)

replace (
	svc.internal/pkg => ../../pkg
	svc.internal/proto => ../../proto
)
