package loadgen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

var metricsClient = http.Client{Timeout: 5 * time.Second}

// mallocs is how many heap objects the Go programs behind the base URLs have
// allocated since they started. All are asked at once, because requests go on
// meanwhile.
func mallocs(bases []string) (float64, error) {
	counts, errs := make([]float64, len(bases)), make([]error, len(bases))
	var wg sync.WaitGroup
	for i, base := range bases {
		wg.Go(func() {
			n, err := mallocsOf(base)
			if err != nil {
				errs[i] = fmt.Errorf("read %s/metrics: %w", base, err)
			}
			counts[i] = n
		})
	}
	wg.Wait()
	var sum float64
	for _, n := range counts {
		sum += n
	}
	return sum, errors.Join(errs...)
}

func mallocsOf(base string) (float64, error) {
	resp, err := metricsClient.Get(base + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, 8<<20))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "go_memstats_mallocs_total "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("status %d without go_memstats_mallocs_total", resp.StatusCode)
}
