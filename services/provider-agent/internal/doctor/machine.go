package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The GPU rule of the marketplace, and the free space that the state folder needs.
const (
	minMemoryMB   = 8000
	minUnifiedMB  = 16_000
	minCapability = 8
	minFree       = 64 << 20
	wantFree      = 1 << 30
)

func (s Subject) settings(context.Context) []Finding {
	if s.SettingsFault != nil {
		return one("settings", Blocks, s.SettingsFault.Error(), "correct what is named; svc-agent run -h lists the settings")
	}
	return well("settings", "settings and list of models can be read")
}

// gpu checks the driver, the memory and the compute capability.
func (s Subject) gpu(ctx context.Context) []Finding {
	if s.Machine == nil {
		return one("driver", Skipped, "the GPU is not checked", "")
	}
	r, err := s.Machine(ctx)
	switch {
	case err != nil:
		return one("driver", Blocks, err.Error(),
			"the driver does not answer: run nvidia-smi; after an update of the driver restart the machine")
	case r == nil:
		return one("driver", Blocks, "no GPU is found",
			"install the NVIDIA driver, so that nvidia-smi lists the GPU; in a container pass the GPU in (--gpus all)")
	}
	apple := r.ComputeCapability == "" && strings.HasPrefix(r.Model, "Apple ")
	driver := r.Driver
	if driver == "" {
		driver = "of the system"
	}
	found := well("driver", fmt.Sprintf("%d x %s, driver %s", r.Count, r.Model, driver))
	return append(append(found, memory(r.MemoryMB, apple)...), capability(r.ComputeCapability, apple)...)
}

func memory(megabytes int64, apple bool) []Finding {
	least := int64(minMemoryMB)
	if apple {
		least = minUnifiedMB
	}
	text := fmt.Sprintf("%d MiB of memory on the smallest GPU", megabytes)
	switch {
	case megabytes == 0:
		return one("vram", Warns, "the driver does not say how much memory the GPU has", "update the driver")
	case megabytes < least:
		return one("vram", Blocks, text, fmt.Sprintf("the marketplace needs %d MiB: use another GPU, "+
			"or remove the small one, so that nvidia-smi does not list it", least))
	}
	return well("vram", text)
}

func capability(text string, apple bool) []Finding {
	if apple {
		return well("compute capability", "Apple Silicon")
	}
	whole, _, _ := strings.Cut(text, ".")
	major, err := strconv.Atoi(whole)
	switch {
	case err != nil:
		return one("compute capability", Blocks, "the driver does not say which compute capability the GPU has",
			"update the driver: nvidia-smi must know compute_cap")
	case major < minCapability:
		return one("compute capability", Blocks, "compute capability "+text,
			"the marketplace needs 8.0 (Ampere) or newer: use another GPU")
	}
	return well("compute capability", text)
}

// disk checks that the state folder can be written and has room.
func (s Subject) disk(context.Context) []Finding {
	if err := writable(s.StateDir); err != nil {
		return one("disk", Blocks, err.Error(), "make "+s.StateDir+" a folder that this user may write, or name another "+
			"with SVC_STATE_DIR")
	}
	if s.Free == nil {
		return well("disk", s.StateDir+" can be written")
	}
	free, err := s.Free(s.StateDir)
	text := fmt.Sprintf("%d MiB free in %s", free>>20, s.StateDir)
	switch {
	case err != nil:
		return one("disk", Warns, "the free space is not known: "+err.Error(), "look at df "+s.StateDir)
	case free < minFree:
		return one("disk", Blocks, text, "free some space: the platform cannot pay by receipts that are not kept")
	case free < wantFree:
		return one("disk", Warns, text, "free some space: this is not enough for long")
	}
	return well("disk", text)
}

func writable(dir string) error {
	if dir == "" {
		return errors.New("there is no folder for the agent's state")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString("x")
	return errors.Join(err, f.Close(), os.Remove(filepath.Join(dir, filepath.Base(f.Name()))))
}

// The largest differences between this machine's clock and the marketplace's.
const (
	wantSkew = 10 * time.Second
	maxSkew  = 2 * time.Minute
)

func (s Subject) clock(ctx context.Context) []Finding {
	const check = "clock"
	if s.Service == nil || s.Now == nil {
		return one(check, Skipped, "no service is known to compare the clock with", "")
	}
	at, err := s.Service.Date(ctx)
	if err != nil {
		return one(check, Skipped, err.Error(), "")
	}
	skew := s.Now().Sub(at).Abs()
	const fix = "set the clock by NTP: timedatectl set-ntp true"
	text := fmt.Sprintf("differs by %v from the marketplace's", skew.Round(time.Second))
	switch {
	case skew > maxSkew:
		return one(check, Blocks, text, fix)
	case skew > wantSkew:
		return one(check, Warns, text, fix)
	}
	return well(check, text)
}
