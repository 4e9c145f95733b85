module svc.internal/services/standalone

go 1.26.0

require (
	svc.internal/pkg v0.0.0
	svc.internal/proto v0.0.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace (
	svc.internal/pkg => ../../pkg
	svc.internal/proto => ../../proto
)
