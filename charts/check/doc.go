// Package check holds the chart svc to the programs that it runs: the chart's copies are
// those of the tree, its page and its schema follow from values.yaml and from the programs'
// own -print, its objects are what Kubernetes takes and what the architecture allows, and
// each program accepts the settings that the chart renders for it.
//
// The tests of rendered objects need helm, kubectl-validate and the programs, which make
// chart-check names in CHART_HELM, CHART_VALIDATE and CHART_PROGRAMS. The tests of a cluster
// need kube-apiserver and etcd too, which make chart-e2e names in CHART_KUBE. A test whose
// programs are not named is skipped.
package check
