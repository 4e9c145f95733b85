module svc.internal/services/console

go 1.26.0

ignore ./node_modules
