package check

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// standIn stands in for the controller of Jobs and for a kubelet: the program of each Job and of each Pod runs here,
// with the Secrets that it mounts as files, and the API server gets its status.
type standIn struct {
	*kube
	namespace string
	// site is where a URL of the release's own public API leads.
	site string

	mu   sync.Mutex
	runs map[string]int
	seen map[string]bool
	all  sync.WaitGroup
}

// startStandIn watches the Jobs and Pods of a namespace until the test ends.
func startStandIn(ctx context.Context, t *testing.T, k *kube, namespace, site string) *standIn {
	t.Helper()
	s := &standIn{kube: k, namespace: namespace, site: site, runs: map[string]int{}, seen: map[string]bool{}}
	ctx, cancel := context.WithCancel(ctx)
	for kind, path := range map[string]string{"Job": "/apis/batch/v1", "Pod": "/api/v1"} {
		path += "/namespaces/" + namespace + "/" + strings.ToLower(kind) + "s"
		s.all.Go(func() { s.watch(ctx, t, path) })
	}
	t.Cleanup(func() {
		cancel()
		s.all.Wait()
	})
	return s
}

// watch runs each object that appears at a path.
func (s *standIn) watch(ctx context.Context, t *testing.T, path string) {
	for ctx.Err() == nil {
		resp, err := s.request(ctx, http.MethodGet, path+"?watch=true", nil)
		if err != nil {
			continue
		}
		decoder := json.NewDecoder(resp.Body)
		for {
			var event struct {
				Type   string `json:"type"`
				Object object `json:"object"`
			}
			if err := decoder.Decode(&event); err != nil {
				break
			}
			uid := fmt.Sprint(under(event.Object, "metadata")["uid"])
			if event.Type != "ADDED" || !s.first(uid) {
				continue
			}
			s.all.Go(func() { s.run(ctx, t, path, event.Object) })
		}
		_ = resp.Body.Close() // it was only read
	}
}

func (s *standIn) first(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.seen[uid]
	s.seen[uid] = true
	return !known
}

// count returns how often a Job's or a Pod's program has run.
func (s *standIn) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[name]
}

// run runs a Job's program until it succeeds, as often as its backoffLimit allows, or a Pod's program once.
func (s *standIn) run(ctx context.Context, t *testing.T, at string, o object) {
	tries := 1
	if limit, ok := under(o, "spec")["backoffLimit"].(float64); ok {
		tries += int(limit)
	}
	began := time.Now().UTC()
	failed := 0
	for failed < tries {
		out, err := s.execute(ctx, t, podSpec(o))
		s.mu.Lock()
		s.runs[name(o)]++
		s.mu.Unlock()
		t.Logf("%s %s: %v: %s", kind(o), name(o), err, strings.TrimSpace(string(out)))
		if err == nil {
			break
		}
		failed++
	}
	s.report(ctx, t, at+"/"+name(o), status(o, began, failed, failed < tries))
}

// report gives the API server a status.
func (s *standIn) report(ctx context.Context, t *testing.T, path string, status object) {
	o, err := s.call(ctx, http.MethodGet, path, nil)
	if err == nil {
		o["status"] = status
		_, err = s.call(ctx, http.MethodPut, path+"/status", o)
	}
	if err != nil && ctx.Err() == nil {
		t.Errorf("the status of %s: got %v, want no error", path, err)
	}
}

// status is that of a Job or of a Pod that has ended.
func status(o object, began time.Time, failed int, good bool) object {
	if kind(o) == "Pod" {
		return object{"phase": map[bool]string{true: "Succeeded", false: "Failed"}[good]}
	}
	start, end := began.Format(time.RFC3339), time.Now().UTC().Format(time.RFC3339)
	first, second := "FailureTarget", "Failed"
	ended := object{"startTime": start, "failed": failed}
	if good {
		first, second = "SuccessCriteriaMet", "Complete"
		ended["succeeded"], ended["completionTime"] = 1, end
	}
	for _, condition := range []string{first, second} {
		conditions, _ := ended["conditions"].([]object)
		ended["conditions"] = append(conditions, object{"type": condition, "status": "True", "reason": "Ended",
			"message": "the program has ended", "lastProbeTime": end, "lastTransitionTime": end})
	}
	return ended
}

// execute runs the only container of a pod. The program of an image is its entry point and has the image's name.
func (s *standIn) execute(ctx context.Context, t *testing.T, spec map[string]any) ([]byte, error) {
	container := mapping(list(spec["containers"])[0])
	dir := mounts(t.TempDir())
	if err := s.mount(ctx, t, dir, spec, container); err != nil {
		return nil, err
	}
	image, _, _ := strings.Cut(fmt.Sprint(container["image"]), "@")
	var args []string
	for _, arg := range list(container["args"]) {
		args = append(args, s.resolve(dir.place(fmt.Sprint(arg))))
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(t, path.Base(image)), args...)
	for _, variable := range environment(t, container, nil) {
		cmd.Env = append(cmd.Env, dir.place(variable))
	}
	return cmd.CombinedOutput()
}

// resolve does what the cluster's DNS and the Service of the public API do.
func (s *standIn) resolve(url string) string {
	for _, service := range []string{"http://market-svc-api." + s.namespace + ".svc.cluster.local:80/"} {
		if rest, ok := strings.CutPrefix(url, service); ok {
			return s.site + "/" + rest
		}
	}
	return url
}

// mount writes the Secrets that a container mounts.
func (s *standIn) mount(ctx context.Context, t *testing.T, dir mounts, spec, container map[string]any) error {
	for _, one := range list(container["volumeMounts"]) {
		mount := mapping(one)
		for _, two := range list(spec["volumes"]) {
			volume := mapping(two)
			secret := under(volume, "secret")
			if volume["name"] != mount["name"] || secret == nil {
				continue
			}
			o, err := s.call(ctx, http.MethodGet, "/api/v1/namespaces/"+s.namespace+"/secrets/"+
				fmt.Sprint(secret["secretName"]), nil)
			if err != nil {
				return err
			}
			at := strings.TrimPrefix(fmt.Sprint(mount["mountPath"]), "/etc/svc/")
			for _, item := range list(secret["items"]) {
				text, ok := under(o, "data")[fmt.Sprint(mapping(item)["key"])].(string)
				if !ok {
					return fmt.Errorf("the Secret %s has no key %v", name(o), mapping(item)["key"])
				}
				content, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, strings.NewReader(text)))
				if err != nil {
					return err
				}
				dir.write(t, filepath.ToSlash(filepath.Join(at, fmt.Sprint(mapping(item)["path"]))), content)
			}
		}
	}
	return nil
}
