//go:build race

package serve

import (
	"fmt"
	"reflect"
	"sync"

	"google.golang.org/protobuf/proto"
)

const (
	// handedKept is how many messages are remembered; see handedAges.
	handedKept = 512
	// handedBytes is the size of the largest message that is remembered.
	handedBytes = 256 << 10
)

// handedAges say when a message is compared with its copy: after so many later messages.
var handedAges = [...]int{1, 8, 64, handedKept - 1}

// handed is a message that was handed over within the process.
type handed struct {
	method string
	// shared shares with the message all that both ends share.
	shared, copied proto.Message
}

var lately struct {
	sync.Mutex
	n    int
	list [handedKept]handed
}

// handedOver ends the process if an earlier message was changed after it was handed over. The
// race detector finds such a change only if the other end looks at the same moment.
func handedOver(method string, m proto.Message) {
	entry := remember(method, m)
	lately.Lock()
	defer lately.Unlock()
	lately.list[lately.n%handedKept] = entry
	for _, age := range handedAges {
		if age > lately.n {
			break
		}
		if change := lately.list[(lately.n-age)%handedKept].change(); change != "" {
			go panic(change) // no handler may recover it
			select {}
		}
	}
	lately.n++
}

// remember returns what is compared later. It holds nothing of a message without content, and of
// a large message.
func remember(method string, m proto.Message) handed {
	value := reflect.ValueOf(m)
	if value.Kind() != reflect.Pointer || value.IsNil() {
		return handed{}
	}
	shared := reflect.New(value.Type().Elem())
	shared.Elem().Set(value.Elem())
	h := handed{method: method, shared: shared.Interface().(proto.Message)}
	if proto.Size(h.shared) > handedBytes {
		return handed{}
	}
	h.copied = proto.Clone(h.shared)
	return h
}

// change describes how the message was changed; empty if it was not.
func (h handed) change() string {
	if h.copied == nil || proto.Equal(h.shared, h.copied) {
		return ""
	}
	return fmt.Sprintf("%s: a message of type %T was changed after it was handed over: it was %v, and is %v",
		h.method, h.copied, h.copied, h.shared)
}
