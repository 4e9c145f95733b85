module svc.internal/deploy/dashboards

go 1.26.0
