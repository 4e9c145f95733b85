package v1

import (
	"fmt"
	"strconv"

	"svc.internal/pkg/jsonscan"
	"svc.internal/services/provider-hub/internal/session"
)

// Append implements dialect.Codec.
func (codec) Append(dst []byte, out *session.Outbound) (head, body []byte, tail string, err error) {
	switch out.Kind {
	case session.OutRegistered:
		return appendAck(dst, out.Name, welcome(out.Ack.Grant.Warning)), nil, "", nil
	case session.OutHeartbeat:
		return appendAck(dst, out.Name, "heartbeat"), nil, "", nil
	case session.OutOpen:
		return appendInference(dst, out), out.Data, "}}", nil
	case session.OutChallenge:
		head, err = appendTask(dst, out)
		return head, nil, "", err
	case session.OutWarmUp:
		return appendWarmUp(dst, out.Name, out.Model), nil, "", nil
	case session.OutFarewell:
		code, _ := codes(out.Why.Code)
		return appendError(dst, out.Name, code, out.Why.Message), nil, "", nil
	default:
		return dst, nil, "", fmt.Errorf("dialect v1 has no message of kind %d", out.Kind)
	}
}

// appendHead begins a message; the payload's members follow.
func appendHead(dst []byte, kind, id string) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, kind...)
	dst = append(dst, `","request_id":`...)
	dst = jsonscan.AppendString(dst, id)
	return append(dst, `,"payload":{`...)
}

// appendAck acknowledges. The first acknowledgement makes an agent registered.
func appendAck(dst []byte, id, message string) []byte {
	dst = append(appendHead(dst, "ack", id), `"request_id":`...)
	dst = jsonscan.AppendString(dst, id)
	dst = append(dst, `,"success":true,"message":`...)
	return append(jsonscan.AppendString(dst, message), "}}"...)
}

// welcome acknowledges a registration, with the owner's warning.
func welcome(warning string) string {
	const message = "registered successfully"
	if warning == "" {
		return message
	}
	return message + ": " + warning
}

// appendError reports an error.
func appendError(dst []byte, id string, code int, message string) []byte {
	dst = appendHead(dst, "error", id)
	if id != "" {
		dst = append(dst, `"request_id":`...)
		dst = append(jsonscan.AppendString(dst, id), ',')
	}
	dst = append(dst, `"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	return append(jsonscan.AppendString(dst, message), "}}"...)
}

// appendInference asks for an answer. The body is part of it, unchanged. endpoint_id is
// the provider, because agents only log it.
func appendInference(dst []byte, out *session.Outbound) []byte {
	dst = append(appendHead(dst, "inference", out.Name), `"endpoint_id":`...)
	dst = jsonscan.AppendString(dst, out.Provider.String())
	dst = append(dst, `,"model_id":`...)
	dst = jsonscan.AppendString(dst, out.Model)
	dst = append(dst, `,"stream":`...)
	dst = strconv.AppendBool(dst, out.Open.Stream)
	return append(dst, `,"request":`...)
}

// appendTask puts a task.
func appendTask(dst []byte, out *session.Outbound) ([]byte, error) {
	kind, payload, err := taskOf(out.Open)
	if err != nil {
		return dst, err
	}
	dst = appendHead(dst, kind, out.Name)
	dst = append(dst, payload[1:]...) // the head has opened the payload
	return append(dst, '}'), nil
}

// appendWarmUp asks for a model to be loaded.
func appendWarmUp(dst []byte, id, model string) []byte {
	dst = append(appendHead(dst, "warmup", id), `"model_id":`...)
	dst = jsonscan.AppendString(dst, model)
	return append(dst, `,"warmup_type":"load"}}`...)
}
