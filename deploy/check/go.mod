module svc.internal/deploy/check

go 1.26.0
