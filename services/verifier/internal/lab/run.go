package lab

import (
	"context"
	"runtime"
)

// Run measures everything.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	report := Report{Full: o.Full}
	for _, part := range []struct {
		name    string
		measure func(context.Context, Options, *Report) error
	}{
		{"powers", powers}, {"honest years", honest}, {"detection", detection}, {"windows", windows}, {"recall", recall},
	} {
		if o.Progress != nil {
			o.Progress(part.name)
		}
		if err := part.measure(ctx, o, &report); err != nil {
			return Report{}, err
		}
	}
	report.excuse()
	return report, nil
}
