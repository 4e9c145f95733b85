package memory

import (
	"os"
	"testing"
)

func TestTheSmallestLimitCounts(t *testing.T) {
	t.Parallel()
	const machine = "MemTotal:        8048364 kB\nMemFree:          1000000 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"a machine": {map[string]string{"/proc/meminfo": machine, "/proc/self/cgroup": "0::/user.slice\n",
			"/sys/fs/cgroup/user.slice/memory.max": "max\n"}, 8048364 << 10},
		"a container": {map[string]string{"/proc/meminfo": machine, "/proc/self/cgroup": "0::/\n",
			"/sys/fs/cgroup/memory.max": "1073741824\n"}, 1 << 30},
		"a group in a group": {map[string]string{"/proc/meminfo": machine, "/proc/self/cgroup": "0::/a/b\n",
			"/sys/fs/cgroup/a/b/memory.max": "max\n", "/sys/fs/cgroup/a/memory.max": "2147483648\n"}, 2 << 30},
		"a limit above the machine": {map[string]string{"/proc/meminfo": machine, "/proc/self/cgroup": "0::/\n",
			"/sys/fs/cgroup/memory.max": "1099511627776\n"}, 8048364 << 10},
		"another kind of group": {map[string]string{"/proc/meminfo": machine,
			"/proc/self/cgroup": "4:memory:/a\n1:name=systemd:/a\n"}, 8048364 << 10},
		"unreadable": {map[string]string{"/proc/meminfo": "MemTotal: much\n"}, 0},
		"nothing":    {nil, 0},
	} {
		got := available(func(name string) ([]byte, error) {
			if text, ok := c.files[name]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		})
		if got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestTheEnvironmentWins(t *testing.T) {
	t.Parallel()
	const machine = "MemTotal:        1024 kB\n"
	for name, c := range map[string]struct {
		environ map[string]string
		meminfo string
		limit   int64
		paced   bool
	}{
		"nothing is set":        {nil, machine, 512 << 10, true},
		"GOMEMLIMIT":            {map[string]string{"GOMEMLIMIT": "1GiB"}, machine, 0, true},
		"GOMEMLIMIT, no memory": {map[string]string{"GOMEMLIMIT": "1GiB"}, "", 0, true},
		"GOGC":                  {map[string]string{"GOGC": "150"}, machine, 0, false},
		"both":                  {map[string]string{"GOGC": "150", "GOMEMLIMIT": "1GiB"}, machine, 0, false},
		"the memory is unknown": {nil, "", 0, false},
	} {
		var limit int64
		paced := false
		fit(func(name string) string { return c.environ[name] },
			func(name string) ([]byte, error) {
				if name == "/proc/meminfo" {
					return []byte(c.meminfo), nil
				}
				return nil, os.ErrNotExist
			},
			func(to int64) int64 { limit = to; return 0 }, func() { paced = true })
		if limit != c.limit {
			t.Errorf("%s: got the limit %d, want %d", name, limit, c.limit)
		}
		if paced != c.paced {
			t.Errorf("%s: paced: got %t, want %t", name, paced, c.paced)
		}
	}
}
