package external

import (
	"context"
	"io"
	"net/http"
	"time"

	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// askTime bounds a call that the hub makes itself.
const askTime = 10 * time.Second

// asks are the bodies of the hub's own calls, each with an empty model at askModel. A chat is
// answered with one token. Images and audio cost their server much, so the hub sends too little for
// either: a server that works refuses that.
var asks = map[meter.Kind]string{
	meter.Chat:       `{"model":"","messages":[{"role":"user","content":"Hi"}],"max_tokens":1}`,
	meter.Embeddings: `{"model":"","input":"Hi"}`,
	meter.Images:     `{"model":""}`, meter.Transcriptions: `{"model":""}`,
}

// askModel is where the model stands in asks, in bytes.
const askModel = len(`{"model":`)

// doubt is a model whose calls fail, and the kind of the last of these calls.
type doubt struct {
	kind  meter.Kind
	model string
}

// ask makes one call of the hub's own, and says what it says of the endpoint.
func ask(ctx context.Context, client *http.Client, e *Endpoint, k key, d doubt) outcome {
	limited, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	end := forward(limited, client, job{endpoint: e, key: k,
		Request: &session.Request{Kind: d.kind, Model: d.model, ModelOffset: uint32(askModel), ModelLength: 2},
		body:    [][]byte{[]byte(asks[d.kind])}}, io.Discard)
	return outcomeOf(end, nil, false, 0) // without a cause: what ran out is the server's time
}
