package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// TLSFiles are PEM files. The certificate's DNS names are the services that the process
// runs. Both ends of a call know the process by them.
type TLSFiles struct {
	Cert string `yaml:"cert" env:"SVC_TLS_CERT"`
	Key  string `yaml:"key" env:"SVC_TLS_KEY"`
	// CA signs the certificates of all services. The file may hold several, for the time
	// in which one replaces another.
	CA string `yaml:"ca" env:"SVC_TLS_CA"`
}

// IsSet reports whether TLS is configured.
func (f TLSFiles) IsSet() bool { return f != TLSFiles{} }

// Validate returns an error for each file that is not named: all three must be, or none.
func (f TLSFiles) Validate() error {
	if !f.IsSet() {
		return nil
	}
	var faults []error
	for name, path := range map[string]string{"cert": f.Cert, "key": f.Key, "ca": f.CA} {
		if path == "" {
			faults = append(faults, fmt.Errorf("tls: %s is missing", name))
		}
	}
	return errors.Join(faults...)
}

// reloadInterval is how long a certificate is used before its file is looked at again.
const reloadInterval = 10 * time.Second

// Credentials prove a process to other services, and verify them. A nil *Credentials
// stands for none: then only loopback is dialled and nothing is encrypted.
//
// A certificate that is replaced on disk is used for new connections within 10 s. The CA
// is read once.
type Credentials struct {
	files TLSFiles
	roots *x509.CertPool
	log   *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	changed time.Time
	looked  time.Time
}

// LoadCredentials reads the files. It returns nil when none is named.
func LoadCredentials(files TLSFiles, log *slog.Logger) (*Credentials, error) {
	if !files.IsSet() {
		return nil, nil
	}
	if err := files.Validate(); err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(files.CA)
	if err != nil {
		return nil, fmt.Errorf("tls: read ca: %w", err)
	}
	c := &Credentials{files: files, roots: x509.NewCertPool(), log: log}
	if !c.roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls: %s holds no certificate", files.CA)
	}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// load reads certificate and key.
func (c *Credentials) load() error {
	info, err := os.Stat(c.files.Cert)
	if err != nil {
		return fmt.Errorf("tls: read cert: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.files.Cert, c.files.Key)
	if err != nil {
		return fmt.Errorf("tls: read cert and key: %w", err)
	}
	if now := time.Now(); now.Before(pair.Leaf.NotBefore) || now.After(pair.Leaf.NotAfter) {
		return fmt.Errorf("tls: %s is good from %v to %v, and not now", c.files.Cert, pair.Leaf.NotBefore, pair.Leaf.NotAfter)
	}
	if c.current != nil && !slices.Equal(c.current.Leaf.DNSNames, pair.Leaf.DNSNames) {
		return fmt.Errorf("tls: %s names %v, and the one before %v", c.files.Cert, pair.Leaf.DNSNames,
			c.current.Leaf.DNSNames)
	}
	c.current, c.changed = &pair, info.ModTime()
	return nil
}

// certificate returns the newest certificate that could be read.
func (c *Credentials) certificate() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= reloadInterval {
		c.looked = now
		if info, err := os.Stat(c.files.Cert); err != nil || !info.ModTime().Equal(c.changed) {
			if err := c.load(); err != nil {
				// Certificate and key may be half replaced. The old pair stays in use
				// until it expires.
				c.log.Warn("a new certificate could not be read; the old one stays in use", "error", err)
			}
		}
	}
	return c.current
}

// names returns the services that the certificate names.
func (c *Credentials) names() []string {
	return c.certificate().Leaf.DNSNames
}

// Covers returns an error unless the certificate names every service.
func (c *Credentials) Covers(services []string) error {
	var faults []error
	for _, name := range services {
		if err := c.certificate().Leaf.VerifyHostname(name); err != nil {
			faults = append(faults, fmt.Errorf("tls: %s names %v, not %s", c.files.Cert, c.names(), name))
		}
	}
	return errors.Join(faults...)
}

func (c *Credentials) server() credentials.TransportCredentials {
	return credentials.NewTLS(c.ServerTLS())
}

// ServerTLS is for a listener that accepts only clients whose certificate the CA has
// signed.
func (c *Credentials) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  c.roots,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.certificate(), nil
		},
	}
}

func (c *Credentials) client(service string) credentials.TransportCredentials {
	return credentials.NewTLS(c.ClientTLS(service))
}

// ClientTLS expects a certificate that names the service, whatever its address.
func (c *Credentials) ClientTLS(service string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    c.roots,
		ServerName: service,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return c.certificate(), nil
		},
	}
}
