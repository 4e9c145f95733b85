package tinylm

import "svc.internal/pkg/tinylm/internal/transcript"

// Role names the speaker of a Message.
type Role string

// The roles of the API. The model was not taught tools, so it reads the texts of
// tools and functions as texts of the user.
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
// message costs its bytes and one or two marker bytes. One more marker byte asks
// for the answer. Prompt leaves out the space around a text, and control
// characters other than tab and line feed.
func Prompt(messages []Message) []byte { return transcript.AppendCue(layOut(messages)) }

// layOut is Prompt without the marker that asks for the answer.
func layOut(messages []Message) []byte {
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
	return out
}
