package devcerts

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

func leafOf(t *testing.T, dir, file string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(CertFile(dir, file), KeyFile(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func roots(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		t.Fatal("no CA")
	}
	return pool
}

func TestALeafNamesItsServicesAndIsSignedByTheCAOfItsFolder(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	if err := Write(dir, Leaf{"edge", []string{"edge-gateway", "router"}}); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, Leaf{"hub-1", []string{"provider-hub"}}); err != nil { // later, by the same CA
		t.Fatal(err)
	}
	if err := Write(other, Leaf{"hub-1", []string{"provider-hub"}}); err != nil {
		t.Fatal(err)
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		options := x509.VerifyOptions{Roots: roots(t, dir), DNSName: "router", KeyUsages: []x509.ExtKeyUsage{usage}}
		if _, err := leafOf(t, dir, "edge").Verify(options); err != nil {
			t.Error(err)
		}
		options.DNSName = "provider-hub"
		if _, err := leafOf(t, dir, "edge").Verify(options); err == nil {
			t.Error("a certificate is good for a service that it does not name")
		}
		if _, err := leafOf(t, dir, "hub-1").Verify(options); err != nil {
			t.Error(err)
		}
		if _, err := leafOf(t, other, "hub-1").Verify(options); err == nil {
			t.Error("another folder's CA is believed")
		}
	}
	info, err := os.Stat(KeyFile(dir, "edge"))
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("the key's mode: info.Mode().Perm(): got %v, want 0o600", got)
	}
}

func TestALeafWithoutServicesOrWithAPathIsRefused(t *testing.T) {
	for _, leaf := range []Leaf{{"a", nil}, {"", []string{"router"}}, {"../a", []string{"router"}}} {
		if err := Write(t.TempDir(), leaf); err == nil {
			t.Errorf("%v was made", leaf)
		}
	}
}

func TestHalfAPairThatACrashLeftIsReplaced(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	leaf := Leaf{"router", []string{"router"}}
	for _, d := range []string{dir, other} {
		if err := Write(d, leaf); err != nil {
			t.Fatal(err)
		}
	}
	foreign, err := os.ReadFile(filepath.Join(other, caKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func() error{
		"another key": func() error { return os.WriteFile(filepath.Join(dir, caKeyFile), foreign, 0o600) },
		"no key":      func() error { return os.Remove(filepath.Join(dir, caKeyFile)) },
		"no PEM":      func() error { return os.WriteFile(filepath.Join(dir, CAFile), []byte("x"), 0o600) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if err := Write(dir, leaf); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := leafOf(t, dir, "router").Verify(x509.VerifyOptions{Roots: roots(t, dir),
			DNSName: "router"}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
