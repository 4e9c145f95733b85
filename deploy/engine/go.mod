module svc.internal/deploy/engine

go 1.26.0
