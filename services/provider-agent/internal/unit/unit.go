// Package unit writes what makes the agent a service of this machine: a unit of systemd, for
// the user or for the machine, or a property list of launchd. It starts nothing.
//
// The service is started again when it fails, and not when it has ended well, because then
// its owner has drained it. A machine's unit of systemd may write its state folder and nothing
// else.
package unit

import (
	"encoding/xml"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Service is the program that the service starts, and how.
type Service struct {
	// Program is the agent's path, and Args what it is started with.
	Program string
	Args    []string
	// StateDir is the agent's state folder, the only one that it writes.
	StateDir string
	Env      []string
	// User is the user of a machine's service; empty for root, and without meaning for a
	// user's own service.
	User string
}

// Name is the name of the service, and Label its name for launchd.
const (
	Name  = "svc-agent"
	Label = "internal.svc.agent"
)

// check refuses texts that would change the meaning of a line.
func (s Service) check() error {
	var faults []error
	for what, path := range map[string]string{"the program": s.Program, "the state folder": s.StateDir} {
		if !filepath.IsAbs(path) {
			faults = append(faults, fmt.Errorf("%s must be an absolute path", what))
		}
	}
	for _, text := range append(append([]string{s.Program, s.StateDir, s.User}, s.Args...), s.Env...) {
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			faults = append(faults, fmt.Errorf("%q has characters that a unit cannot hold", text))
		}
	}
	return errors.Join(faults...)
}

// quote writes a word of systemd: % begins a specifier and $ a variable.
func quote(word string) string {
	word = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$").Replace(word)
	return `"` + word + `"`
}

// setting writes a word of systemd where $ has no meaning.
func setting(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%").Replace(word) + `"`
}

// Systemd is the text of the unit. A machine's unit is sandboxed in full. A user's unit leaves
// out what only root can set up, and settings that hide the user's home from an agent that
// lives there.
func (s Service) Systemd(ofMachine bool) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Written by svc-agent service install.")
	line("[Unit]\nDescription=Provider agent of the inference marketplace")
	if ofMachine {
		line("Wants=network-online.target\nAfter=network-online.target")
	}
	line("StartLimitIntervalSec=0\n\n[Service]\nType=exec")
	words := []string{quote(s.Program)}
	for _, arg := range s.Args {
		words = append(words, quote(arg))
	}
	line("ExecStart=%s", strings.Join(words, " "))
	for _, v := range s.Env {
		line("Environment=%s", setting(v))
	}
	line("# It ends well only when its owner drains or stops it.\nRestart=on-failure\nRestartSec=5")
	line("# Requests under way get 30 s.\nTimeoutStopSec=45\nKillMode=mixed\nUMask=0077")
	line("NoNewPrivileges=yes\nLockPersonality=yes\nRestrictRealtime=yes\nRestrictSUIDSGID=yes")
	line("SystemCallArchitectures=native\nRestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK")
	if ofMachine {
		if s.User != "" {
			line("User=%s", strings.ReplaceAll(s.User, "%", "%%"))
		}
		line("ProtectSystem=strict\nReadWritePaths=%s", setting(s.StateDir))
		line("ProtectHome=read-only\nPrivateTmp=yes\nProtectKernelTunables=yes\nProtectKernelModules=yes")
		line("ProtectControlGroups=yes\nProtectClock=yes\nRestrictNamespaces=yes\nCapabilityBoundingSet=")
	}
	target := "default.target"
	if ofMachine {
		target = "multi-user.target"
	}
	line("\n[Install]\nWantedBy=%s", target)
	return b.String(), nil
}

// Launchd is the property list of the agent of a user, or of the machine's daemon.
func (s Service) Launchd() (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	var b strings.Builder
	text := func(format string, args ...any) {
		for i, arg := range args {
			var escaped strings.Builder
			if err := xml.EscapeText(&escaped, []byte(fmt.Sprint(arg))); err == nil { // a builder takes all
				args[i] = escaped.String()
			}
		}
		fmt.Fprintf(&b, format+"\n", args...)
	}
	text(`<?xml version="1.0" encoding="UTF-8"?>`)
	text(`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">`)
	text("<!-- Written by svc-agent service install. -->")
	text("<plist version=\"1.0\">\n<dict>\n  <key>Label</key><string>%s</string>", Label)
	text("  <key>ProgramArguments</key>\n  <array>\n    <string>%s</string>", s.Program)
	for _, arg := range s.Args {
		text("    <string>%s</string>", arg)
	}
	text("  </array>")
	if len(s.Env) > 0 {
		text("  <key>EnvironmentVariables</key>\n  <dict>")
		for _, v := range s.Env {
			name, value, _ := strings.Cut(v, "=")
			text("    <key>%s</key><string>%s</string>", name, value)
		}
		text("  </dict>")
	}
	if s.User != "" {
		text("  <key>UserName</key><string>%s</string>", s.User)
	}
	text("  <key>RunAtLoad</key><true/>\n  <!-- It ends well only when its owner drains or stops it. -->")
	text("  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>")
	text("  <key>ThrottleInterval</key><integer>5</integer>\n  <key>ExitTimeOut</key><integer>45</integer>")
	text("  <key>Umask</key><integer>63</integer>")
	text("  <key>StandardErrorPath</key><string>%s</string>\n</dict>\n</plist>", filepath.Join(s.StateDir, "agent.log"))
	return b.String(), nil
}
