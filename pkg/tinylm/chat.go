package tinylm

import "svc.internal/pkg/tinylm/internal/transcript"

// Role is who speaks in a Message.
type Role string

// The roles of the API. The model was not taught tools: what they say is read
// as if the user had said it.
const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
	RoleFunction  Role = "function"
)

// Message is one turn of a conversation.
type Message struct {
	Role Role
	Text string
}

// Prompt lays a conversation out as the tokens that the model reads. Each
// message costs its bytes and one or two marker bytes; one more asks for the
// answer. Control characters and space around a text are left out.
func Prompt(messages []Message) []byte {
	var out []byte
	for _, m := range messages {
		switch m.Role {
		case RoleSystem, RoleDeveloper:
			out = transcript.AppendSystem(out, m.Text)
		case RoleAssistant:
			out = transcript.AppendAnswer(out, m.Text)
		default:
			out = transcript.AppendUser(out, m.Text)
		}
	}
	return transcript.AppendCue(out)
}
