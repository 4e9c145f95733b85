module svc.internal/services/standalone

go 1.26.0

require (
	svc.internal/pkg v0.0.0
	svc.internal/proto v0.0.0
)

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/openai/openai-go/v3 v3.95.0 // indirect
	github.com/tidwall/gjson v1.20.0 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.1 // indirect
	github.com/tidwall/sjson v1.2.5 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	svc.internal/services/billing-ledger v0.0.0
	svc.internal/services/catalog v0.0.0
	svc.internal/services/edge-gateway v0.0.0
	svc.internal/services/provider-agent v0.0.0
	svc.internal/services/provider-hub v0.0.0
	svc.internal/services/router v0.0.0
	svc.internal/services/settlement v0.0.0
)

replace (
	svc.internal/pkg => ../../pkg
	svc.internal/proto => ../../proto
)

replace svc.internal/services/catalog => ../catalog

replace svc.internal/services/billing-ledger => ../billing-ledger

replace svc.internal/services/settlement => ../settlement

replace svc.internal/services/router => ../router

replace svc.internal/services/provider-hub => ../provider-hub

replace svc.internal/services/edge-gateway => ../edge-gateway

replace svc.internal/services/provider-agent => ../provider-agent
