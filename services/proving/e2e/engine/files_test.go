//go:build engine

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"svc.internal/pkg/config"
	provideragent "svc.internal/services/provider-agent"
	"svc.internal/services/proving/internal/trial"
)

// The catalog lists the file from which Ollama has made a model. The agent finds the file in
// Ollama's own store, so that it can prove the file without a setting.
func TestTheFileOfAModelIsFoundInOllamasStore(t *testing.T) {
	m := &market{engine: serve(t, tiny)}
	m.Market = trial.Start(t, "SVC_DEMO_AGENT=off", "SVC_LOG_LEVEL=error")
	m.list(t, tiny)
	dir := t.TempDir()
	run(t, dir, nil, generator(t), append([]string{"-o", "tiny.gguf", "-context", strconv.Itoa(listedWindow)},
		shapes[tiny]...)...)
	content, err := os.ReadFile(filepath.Join(dir, "tiny.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	m.Admin(t, http.MethodPut, "/api/v1/admin/model-files/"+tiny, fmt.Sprintf(
		`{"files":[{"filename":"tiny.gguf","hash":%q,"size_bytes":%d,"url":"https://weights.example/tiny.gguf"}]}`,
		hex.EncodeToString(sum[:]), len(content)))
	trial.Until(t, "the catalog lists the file", func() bool {
		_, _, body := m.Call(t, http.MethodGet, "/api/v1/models/"+tiny+"/files", "", "")
		return strings.Contains(string(body), hex.EncodeToString(sum[:]))
	})

	log := trial.NewOutput()
	cfg := provideragent.DefaultConfig()
	cfg.WSURL, cfg.ServiceURL, cfg.StateDir = m.WSURL(), m.Base(), t.TempDir()
	cfg.Key = config.NewSecret(m.Provider(t, "owner").Key)
	cfg.Models = []provideragent.Model{{ModelID: tiny, EngineURL: m.engine.url()}}
	cfg.Stores = provideragent.StoresOf(func(name string) string {
		return map[string]string{"OLLAMA_MODELS": filepath.Join(m.engine.home, "models")}[name]
	})
	agent, err := provideragent.New(cfg, provideragent.Deps{Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	trial.Until(t, "the file is found", func() bool {
		return strings.Contains(log.Text(), "the files of a model can be proven to the platform now")
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
