package standalone

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"svc.internal/pkg/node"
)

func specs() map[string]node.Spec {
	cfg := DefaultConfig()
	all := map[string]node.Spec{}
	for _, spec := range cfg.Specs() {
		all[spec.Name] = spec
	}
	return all
}

func TestEveryContractHasItsCallersAndNoOther(t *testing.T) {
	owners := map[string]string{}
	for name, spec := range specs() {
		for service := range spec.Callers {
			if other, taken := owners[service]; taken {
				t.Errorf("%s and %s both serve %s", name, other, service)
			}
			owners[service] = name
		}
	}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := string(file.Services().Get(i).FullName())
			if strings.HasPrefix(service, "svc.") && owners[service] == "" {
				t.Errorf("nobody is allowed to call %s", service)
			}
			delete(owners, service)
		}
		return true
	})
	if len(owners) > 0 {
		t.Errorf("owners of contracts that are not there: got %d, want 0, in %v", len(owners), owners)
	}
}

func TestACallerIsAllowedExactlyWhereItIsAPeer(t *testing.T) {
	all := specs()
	for name, spec := range all {
		callers := map[string]bool{}
		for _, list := range spec.Callers {
			for _, caller := range list {
				callers[caller] = true
			}
		}
		for other, otherSpec := range all {
			calls := slices.Contains(slices.Concat(otherSpec.Peers, otherSpec.Optional), name)
			if other == name {
				calls = callers[name] && spec.Replicas // replicas of some services call each other
			}
			if calls != callers[other] {
				t.Errorf("%s calls %s: got %t, want %t", other, name, calls, callers[other])
			}
		}
	}
}
