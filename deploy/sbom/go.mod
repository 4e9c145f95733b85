module inference-sbom

go 1.26.0
