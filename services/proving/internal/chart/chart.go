// Package chart starts the processes of a fleet as the chart svc starts pods: each with the
// arguments, the environment, the configuration file and the files of Secrets that helm
// renders for its pod. So a suite that passes on such a fleet proves what the chart renders.
//
// A pod's file system is a folder, into which ConfigMaps and Secrets are put where the pod
// mounts them. The contents of Secrets are the fleet's own. What one machine cannot have as
// a cluster has it, such as the names of Services, is changed by loopback.go and nowhere
// else.
//
// Limits: Kubernetes itself does not run, so such a suite says nothing about probes,
// security contexts, NetworkPolicies or DNS.
package chart

import (
	"fmt"
	"path/filepath"

	"svc.internal/services/proving/internal/fleet"
)

// Chart is what helm rendered, for the processes of one fleet.
type Chart struct {
	release *release
	// binDir has the program verifier, which seals its settings.
	binDir string
}

// Open reads what helm template has written for values.yaml. binDir has the fleet's
// programs.
func Open(rendered, binDir string) (*Chart, error) {
	release, err := readRelease(rendered)
	if err != nil {
		return nil, fmt.Errorf("read the rendered chart: %w", err)
	}
	return &Chart{release, binDir}, nil
}

// Configure makes the fleet run by the chart.
func (c *Chart) Configure(cfg *fleet.Config) {
	cfg.Place, cfg.HubsFromZero = c.place, true
}

// place writes the files of a process's pod and returns its arguments and its environment.
func (c *Chart) place(p fleet.Place) (args, environ []string, err error) {
	pod, err := c.release.pod(p.Name)
	if err != nil {
		return nil, nil, err
	}
	secrets, err := secretsOf(p, c.binDir)
	if err != nil {
		return nil, nil, err
	}
	here := newLoopback(c.release.name, p)
	if err := c.mount(pod, p.Dir, secrets, here); err != nil {
		return nil, nil, err
	}
	args = make([]string, len(pod.container.Args))
	for i, arg := range pod.container.Args {
		if args[i], err = here.one(arg); err != nil {
			return nil, nil, fmt.Errorf("the arguments: %w", err)
		}
	}
	variables, err := pod.container.environment(here.fields())
	if err != nil {
		return nil, nil, err
	}
	for _, v := range variables {
		value, err := here.one(v.Value)
		if err != nil {
			return nil, nil, fmt.Errorf("the variable %s: %w", v.Name, err)
		}
		environ = append(environ, v.Name+"="+value)
	}
	return args, environ, nil
}

// mount puts the volumes of a pod into its folder.
func (c *Chart) mount(pod pod, dir string, secrets secrets, here *loopback) error {
	for _, mount := range pod.container.VolumeMounts {
		files, err := c.release.files(pod, mount.Name, secrets)
		if err != nil {
			return fmt.Errorf("the volume %s: %w", mount.Name, err)
		}
		at := filepath.Join(dir, filepath.FromSlash(mount.MountPath))
		if err := writeFiles(at, files, here); err != nil {
			return fmt.Errorf("the volume %s: %w", mount.Name, err)
		}
	}
	return nil
}
