package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"svc.internal/services/proving/internal/fleet"
)

// migrations is the end of the name of a service's migrations in a fleet.
const migrations = "-migrate"

// release is what helm rendered.
type release struct {
	// name begins the names of all objects.
	name string
	// configs are the ConfigMaps: file and content by name.
	configs map[string]map[string]string
	// pods are those of Deployments, StatefulSets and Jobs by the name of their object.
	pods map[string]pod
}

// pod is a pod with one container.
type pod struct {
	container container
	volumes   map[string]volume
}

// object is what is read of a rendered object.
type object struct {
	Kind     string `yaml:"kind"`
	Metadata struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Data map[string]string `yaml:"data"`
	Spec struct {
		Template struct {
			Spec struct {
				Containers []container `yaml:"containers"`
				Volumes    []volume    `yaml:"volumes"`
			} `yaml:"spec"`
		} `yaml:"template"`
		Claims []struct {
			Metadata struct {
				Name string `yaml:"name"`
			} `yaml:"metadata"`
		} `yaml:"volumeClaimTemplates"`
	} `yaml:"spec"`
}

type container struct {
	Args         []string   `yaml:"args"`
	Env          []variable `yaml:"env"`
	VolumeMounts []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type variable struct {
	Name      string `yaml:"name"`
	Value     string `yaml:"value"`
	ValueFrom struct {
		FieldRef struct {
			FieldPath string `yaml:"fieldPath"`
		} `yaml:"fieldRef"`
	} `yaml:"valueFrom"`
}

type volume struct {
	Name      string `yaml:"name"`
	ConfigMap *struct {
		Name string `yaml:"name"`
	} `yaml:"configMap"`
	Secret *struct {
		Name  string `yaml:"secretName"`
		Items []item `yaml:"items"`
	} `yaml:"secret"`
	Projected *struct {
		Sources []struct {
			Secret *struct {
				Name  string `yaml:"name"`
				Items []item `yaml:"items"`
			} `yaml:"secret"`
		} `yaml:"sources"`
	} `yaml:"projected"`
	// EmptyDir is empty, as is the volume of a claim.
	EmptyDir map[string]any `yaml:"emptyDir"`
}

// item is a key of a Secret that becomes a file.
type item struct {
	Key  string `yaml:"key"`
	Path string `yaml:"path"`
}

func readRelease(path string) (*release, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &release{configs: map[string]map[string]string{}, pods: map[string]pod{}}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var o object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := r.add(o); err != nil {
			return nil, fmt.Errorf("%s %s: %w", o.Kind, o.Metadata.Name, err)
		}
	}
	for name := range r.pods {
		if prefix, ok := strings.CutSuffix(name, "-catalog"); ok && !strings.HasSuffix(prefix, migrations) {
			r.name = prefix
		}
	}
	if r.name == "" {
		return nil, errors.New("there is no catalog, by which the release's name is known")
	}
	return r, nil
}

func (r *release) add(o object) error {
	switch o.Kind {
	case "ConfigMap":
		r.configs[o.Metadata.Name] = o.Data
	case "Deployment", "StatefulSet", "Job":
		spec := o.Spec.Template.Spec
		if len(spec.Containers) != 1 {
			return fmt.Errorf("containers: got %d, want 1", len(spec.Containers))
		}
		p := pod{container: spec.Containers[0], volumes: map[string]volume{}}
		for _, v := range spec.Volumes {
			p.volumes[v.Name] = v
		}
		for _, claim := range o.Spec.Claims {
			p.volumes[claim.Metadata.Name] = volume{EmptyDir: map[string]any{}}
		}
		r.pods[o.Metadata.Name] = p
	}
	return nil
}

// pod is the pod of a process of the fleet, or of a service's migrations.
func (r *release) pod(name string) (pod, error) {
	object := r.name + "-" + service(name)
	if strings.HasSuffix(name, migrations) {
		object = r.name + migrations + "-" + service(name)
	}
	p, ok := r.pods[object]
	if !ok {
		return pod{}, fmt.Errorf("%s: the chart renders no %s", name, object)
	}
	return p, nil
}

// file is a file of a volume. A file of a ConfigMap has addresses and paths of the cluster.
type file struct {
	content   []byte
	configMap bool
}

// environment are the variables of a container. fields are what the cluster says of the
// pod, and a variable may name one before it.
func (c container) environment(fields map[string]string) ([]variable, error) {
	var environ []variable
	for _, v := range c.Env {
		if path := v.ValueFrom.FieldRef.FieldPath; path != "" {
			value, known := fields[path]
			if !known {
				return nil, fmt.Errorf("the variable %s: no pod here has the field %s", v.Name, path)
			}
			v.Value = value
		}
		for _, before := range environ {
			v.Value = strings.ReplaceAll(v.Value, "$("+before.Name+")", before.Value)
		}
		environ = append(environ, v)
	}
	return environ, nil
}

// service is the service of a process or of migrations: the catalog of catalog-1 and of
// catalog-migrate.
func service(name string) string {
	if service, ok := strings.CutSuffix(name, migrations); ok {
		return service
	}
	return fleet.Program(name)
}

// setting is the value at a dotted path of settings; nil for none.
func setting(settings map[string]any, path string) any {
	at := any(settings)
	for part := range strings.SplitSeq(path, ".") {
		inner, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = inner[part]
	}
	return at
}
