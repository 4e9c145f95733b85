package marketapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"svc.internal/services/edge-gateway/internal/publicjson"
)

var errNotOneValue = errors.New("the body is not one JSON value")

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

// NewDecoder reads one message, which is all that the body may hold.
func (m *marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		body, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("read the body: %w", err)
		}
		if len(bytes.TrimSpace(body)) == 0 {
			return io.EOF // io.EOF says that there is no message
		}
		if !json.Valid(body) {
			return errNotOneValue
		}
		return m.Unmarshal(body, v)
	})
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
