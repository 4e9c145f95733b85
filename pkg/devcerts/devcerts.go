// Package devcerts makes the certificates with which services on one machine prove their
// identity to each other: a CA, and a leaf for each process whose DNS names are the
// process's services. They are for development and tests. In production the platform's
// own issuer makes certificates of the same form.
package devcerts

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Validity is how long CA and leaves are valid.
const Validity = 90 * 24 * time.Hour

// Names of the CA's files.
const (
	CAFile    = "ca.pem"
	caKeyFile = "ca-key.pem"
)

// Leaf is a certificate to make. File is the name of its files without "-key.pem" and
// ".pem". Services are the services that its owner may call itself.
type Leaf struct {
	File     string
	Services []string
}

// Write makes the leaves in dir, signed by the CA there. It makes the CA first if dir has
// none or it ends within a week. Only the owner can read the keys. It writes
// <dir>/ca.pem, <dir>/<file>.pem and <dir>/<file>-key.pem.
func Write(dir string, leaves ...Leaf) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	ca, err := openCA(dir)
	if err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	for _, leaf := range leaves {
		if err := ca.issue(dir, leaf); err != nil {
			return fmt.Errorf("make certificate %s: %w", leaf.File, err)
		}
	}
	return nil
}

// CertFile returns where Write puts a leaf.
func CertFile(dir, file string) string { return filepath.Join(dir, file+".pem") }

// KeyFile returns where Write puts the key of a leaf.
func KeyFile(dir, file string) string { return filepath.Join(dir, file+"-key.pem") }

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// openCA reads the CA of dir, or makes one.
func openCA(dir string) (*authority, error) {
	certPEM, err := os.ReadFile(filepath.Join(dir, CAFile))
	if errors.Is(err, fs.ErrNotExist) {
		return newCA(dir)
	}
	if err != nil {
		return nil, err
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, caKeyFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	cert, key, err := parse(certPEM, keyPEM)
	if err != nil || !key.PublicKey.Equal(cert.PublicKey) || time.Until(cert.NotAfter) < 7*24*time.Hour {
		// The CA is half of a pair, as a crash may leave it, or ends soon. A new one
		// costs nothing here, because all leaves are made again.
		return newCA(dir)
	}
	return &authority{cert, key}, nil
}

func parse(certPEM, keyPEM []byte) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, nil, errors.New("is not PEM")
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	return cert, key, err
}

func newCA(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "svc development CA"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	ca := &authority{cert: template, key: key}
	der, err := ca.sign(template, key)
	if err != nil {
		return nil, err
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return ca, write(filepath.Join(dir, CAFile), filepath.Join(dir, caKeyFile), der, key)
}

func (a *authority) issue(dir string, leaf Leaf) error {
	if leaf.File == "" || strings.ContainsAny(leaf.File, `/\`) || len(leaf.Services) == 0 {
		return errors.New("a leaf needs a file name and at least one service")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: leaf.File},
		DNSNames:    leaf.Services,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key)
	if err != nil {
		return err
	}
	return write(CertFile(dir, leaf.File), KeyFile(dir, leaf.File), der, key)
}

// sign gives the certificate a serial number and its times, and signs it.
func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	// Clocks on one machine agree, but a certificate may be used in the
	// second in which it is made.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = template.NotBefore.Add(Validity)
	if a.cert != template && a.cert.NotAfter.Before(template.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	return x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
}

// write writes the key first, so that a reader of a new certificate finds its key.
func write(certPath, keyPath string, der []byte, key *ecdsa.PrivateKey) error {
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := replace(keyPath, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), 0o600); err != nil {
		return err
	}
	return replace(certPath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

func replace(path string, content []byte, mode fs.FileMode) error {
	next := path + ".new"
	if err := os.WriteFile(next, content, mode); err != nil {
		return err
	}
	return os.Rename(next, path)
}
