package unit

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var sample = Service{
	Program: "/opt/svc agent/svc-agent", Args: []string{"run", "--models", `/etc/100%/"m" $HOME.json`},
	StateDir: "/var/lib/svc-agent", Env: []string{"SVC_REGION=50% <eu> & more"}, User: "svc",
}

func TestUnitsAreHardenedAndStartedAgainAfterAFailure(t *testing.T) {
	machine, err := sample.Systemd(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Restart=on-failure\n", "NoNewPrivileges=yes\n", "ProtectSystem=strict\n", "User=svc\n",
		"ReadWritePaths=\"/var/lib/svc-agent\"\n", "WantedBy=multi-user.target\n", "CapabilityBoundingSet=\n",
		`ExecStart="/opt/svc agent/svc-agent" "run" "--models" "/etc/100%%/\"m\" $$HOME.json"` + "\n",
		`Environment="SVC_REGION=50%% <eu> & more"` + "\n",
	} {
		if !strings.Contains(machine, want) {
			t.Errorf("the machine's unit: got %q, want %q in it", machine, want)
		}
	}
	user, err := sample.Systemd(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, not := range []string{"User=", "ProtectSystem", "multi-user"} {
		if strings.Contains(user, not) {
			t.Errorf("the user's unit: got %q, want it without %q", user, not)
		}
	}
}

func TestLinesCannotBeSmuggledIntoAUnit(t *testing.T) {
	for name, change := range map[string]func(*Service){
		"an argument":        func(s *Service) { s.Args = []string{"run\nExecStartPre=/bin/evil"} },
		"a variable":         func(s *Service) { s.Env = []string{"A=b\nUser=root"} },
		"a user":             func(s *Service) { s.User = "svc\n" },
		"a relative program": func(s *Service) { s.Program = "svc-agent" },
		"no state folder":    func(s *Service) { s.StateDir = "" },
	} {
		s := sample
		change(&s)
		if text, err := s.Systemd(true); err == nil {
			t.Errorf("%s: got %q, want an error", name, text)
		}
		if text, err := s.Launchd(); err == nil {
			t.Errorf("%s, for launchd: got %q, want an error", name, text)
		}
	}
}

func TestThePropertyListIsWellFormed(t *testing.T) {
	text, err := sample.Launchd()
	if err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(strings.NewReader(text))
	var strs []string
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("got the error %v, want none, in %s", err, text)
		}
		if chars, is := token.(xml.CharData); is && strings.TrimSpace(string(chars)) != "" {
			strs = append(strs, string(chars))
		}
	}
	for _, want := range []string{sample.Program, sample.Args[2], "50% <eu> & more", Label, "SuccessfulExit"} {
		if !strings.Contains(strings.Join(strs, "\n"), want) {
			t.Errorf("got %q, want %q among them", strs, want)
		}
	}
}

// systemd's own reader takes the units, where it is installed.
func TestSystemdTakesTheUnits(t *testing.T) {
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here")
	}
	s := sample
	s.Program, s.User = "/bin/true", "root"
	for _, ofMachine := range []bool{true, false} {
		text, err := s.Systemd(ofMachine)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), Name+".service")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), program, "verify", "--man=no", path).CombinedOutput(); err != nil {
			t.Errorf("of the machine %t: got the error %v, want none: %s", ofMachine, err, out)
		}
	}
}
