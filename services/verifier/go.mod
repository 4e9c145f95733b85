module svc.internal/services/verifier

go 1.26.0
