module svc.internal/deploy/sbom

go 1.26.0
