module svc.internal/services/edge-gateway/corpus

go 1.26.0

require (
	github.com/tiktoken-go/tokenizer v0.10.0
	svc.internal/services/edge-gateway v0.0.0
)

require (
	github.com/dlclark/regexp2/v2 v2.5.1 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.30.0 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/grpc v1.85.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	svc.internal/pkg v0.0.0 // indirect
	svc.internal/proto v0.0.0 // indirect
)

replace (
	svc.internal/pkg => ../../../pkg
	svc.internal/proto => ../../../proto
	svc.internal/services/console => ../../console
	svc.internal/services/edge-gateway => ../
)
