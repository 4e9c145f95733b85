package marketapi

import (
	"io"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"svc.internal/services/edge-gateway/internal/publicjson"
)

// marshaler reads with protojson, strictly, and writes with publicjson.
type marshaler struct{ runtime.JSONPb }

func newMarshaler() *marshaler {
	return &marshaler{runtime.JSONPb{UnmarshalOptions: protojson.UnmarshalOptions{RecursionLimit: 64}}}
}

// Marshal writes a message as the public sees it.
func (m *marshaler) Marshal(v any) ([]byte, error) {
	if message, ok := v.(proto.Message); ok {
		return publicjson.Append(nil, message), nil
	}
	return m.JSONPb.Marshal(v)
}

// NewEncoder writes messages one after the other.
func (m *marshaler) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		out, err := m.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(out)
		return err
	})
}
