//go:build engine

package engine

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"svc.internal/services/proving/internal/trial"
)

func TestTheGoSDKReadsTheEnginesAnswers(t *testing.T) {
	m := open(t, tiny)
	client := openai.NewClient(option.WithBaseURL(m.Base()+"/v1"), option.WithAPIKey(m.key))
	params := openai.ChatCompletionNewParams{
		Model:    tiny,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say something.")},
		Seed:     openai.Int(1), Temperature: openai.Float(0), MaxTokens: openai.Int(20),
	}
	var raw *http.Response
	whole, err := client.Chat.Completions.New(t.Context(), params, option.WithResponseInto(&raw))
	if err != nil {
		t.Fatal(err)
	}
	prompt, completion := m.settled(t, raw.Header.Get(trial.RequestIDHeader), "completed")
	switch {
	case whole.Choices[0].Message.Content == "":
		t.Error(`whole.Choices[0].Message.Content: got "", want some text`)
	case float64(whole.Usage.PromptTokens) != prompt:
		t.Errorf("whole.Usage.PromptTokens: got %v, want %v", float64(whole.Usage.PromptTokens), prompt)
	case float64(whole.Usage.CompletionTokens) != completion:
		t.Errorf("whole.Usage.CompletionTokens: got %v, want %v", float64(whole.Usage.CompletionTokens), completion)
	}
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	var collected openai.ChatCompletionAccumulator
	for stream.Next() {
		if !collected.AddChunk(stream.Current()) {
			t.Fatalf("a chunk does not belong: %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if got := collected.Choices[0].Message.Content; got != whole.Choices[0].Message.Content {
		t.Errorf("the stream: got %q, want %q, with %s", got, whole.Choices[0].Message.Content, whole.RawJSON())
	} else if collected.Usage.TotalTokens != whole.Usage.TotalTokens {
		t.Errorf("collected.Usage.TotalTokens: got %d, want %d, with %s", collected.Usage.TotalTokens,
			whole.Usage.TotalTokens, whole.RawJSON())
	}
}

func TestTheNodeSDKReadsTheEnginesAnswers(t *testing.T) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf(`where %s is not installed, CI: got "true", want any but "true"`, program)
			}
			t.Skipf("%s is not installed", program)
		}
	}
	m := open(t, tiny)
	script := filepath.Join("..", "node")
	if _, err := os.Stat(filepath.Join(script, "node_modules", "openai")); err != nil {
		install(t, script)
	}
	ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join(script, "sdk.mjs"))
	cmd.Env = append(os.Environ(), "SVC_BASE_URL="+m.Base(), "SVC_API_KEY="+m.key, "SVC_MODEL="+tiny)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// install fetches what the script's lock file names into an ignored folder.
func install(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-fund", "--no-audit", "--silent")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
}
