package chart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"svc.internal/pkg/devcerts"
	"svc.internal/services/proving/internal/fleet"
)

// secrets are the Secrets that a pod may mount, by name and key. values.yaml names them, and
// the fleet makes what is in them.
type secrets map[string]map[string][]byte

func (s secrets) put(name, key string, content []byte) {
	if s[name] == nil {
		s[name] = map[string][]byte{}
	}
	s[name][key] = content
}

// give puts keys of a Secret into files, all keys under their own names where items names
// none. As in a cluster, there is no pod without its Secrets.
func (s secrets) give(files map[string]file, name string, items []item) error {
	secret, ok := s[name]
	if !ok {
		return fmt.Errorf("there is no Secret %s", name)
	}
	if items == nil {
		for key, content := range secret {
			files[key] = file{content, false}
		}
	}
	for _, item := range items {
		content, ok := secret[item.Key]
		if !ok {
			return fmt.Errorf("the Secret %s has no key %s", name, item.Key)
		}
		files[item.Path] = file{content, false}
	}
	return nil
}

// hubs is how many hubs a pod of them has certificates of: values.yaml says so too.
const hubs = 2

// secrets are the Secrets of a process: what its files in the fleet have, under the names
// that values.yaml has. binDir has the program verifier.
func secretsOf(p fleet.Place, binDir string) (secrets, error) {
	of, all := service(p.Name), secrets{}
	database := of + "-database"
	if strings.HasSuffix(p.Name, migrations) {
		database += "-owner"
	}
	for _, from := range []struct{ setting, secret, key string }{
		{"tls.cert", of + "-tls", "tls.crt"}, {"tls.key", of + "-tls", "tls.key"}, {"tls.ca", of + "-tls", "ca.crt"},
		{"database_url", database, "url"},
		{"hub.pepper", "pepper", "pepper"}, {"billing.pepper", "pepper", "pepper"},
		{"gateway.machine_tokens", "gateway-tokens", "machines"},
		{"gateway.admin_tokens", "gateway-tokens", "bootstrap"},
	} {
		path, ok := setting(p.Settings, from.setting).(string)
		if !ok {
			continue
		}
		content, err := os.ReadFile(strings.TrimPrefix(path, "file:"))
		if err != nil {
			return nil, fmt.Errorf("read what Secret %s has: %w", from.secret, err)
		}
		all.put(from.secret, from.key, content)
	}
	switch of {
	case fleet.Hub:
		return all, addHubs(all, p)
	case fleet.Verifier:
		return all, addSealed(all, p, binDir)
	case fleet.Signer:
		// One seed for all signers, which the first that starts would otherwise make.
		all.put("signer-seed", "seed", []byte(strings.Repeat("5a", 32)))
	}
	return all, nil
}

// addHubs adds the certificates of all hubs. The pod's index says which one it uses.
func addHubs(all secrets, p fleet.Place) error {
	cert, ok := setting(p.Settings, "tls.cert").(string)
	if !ok {
		return nil // the hub's migrations
	}
	dir := filepath.Dir(cert)
	for hub := range hubs {
		name := fmt.Sprintf("%s-%d", fleet.Hub, hub+1)
		for key, path := range map[string]string{"tls.crt": devcerts.CertFile(dir, name),
			"tls.key": devcerts.KeyFile(dir, name), "ca.crt": filepath.Join(dir, devcerts.CAFile)} {
			content, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read the certificate of hub-%d: %w", hub, err)
			}
			all.put(fmt.Sprintf("hub-%d-tls", hub), key, content)
		}
	}
	return nil
}

// addSealed adds sealed settings, which verifier seal makes once.
func addSealed(all secrets, p fleet.Place, binDir string) error {
	path, ok := setting(p.Settings, "verifier.sealed").(string)
	if !ok {
		return nil // the verifier's migrations
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("seal the verifier's settings: %w", err)
		}
		//nolint:gosec // the fleet's own program
		if out, err := exec.Command(filepath.Join(binDir, fleet.Verifier), "seal", path).CombinedOutput(); err != nil {
			return fmt.Errorf("seal the verifier's settings: %w: %s", err, out)
		}
		content, err = os.ReadFile(path)
	}
	if err != nil {
		return fmt.Errorf("read the verifier's sealed settings: %w", err)
	}
	all.put("sealed", "sealed.json", content)
	return nil
}
