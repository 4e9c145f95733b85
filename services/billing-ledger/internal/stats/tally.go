package stats

// Tally is what reports add to sums and to uses.
type Tally struct {
	Sums map[Key]*Sum
	// Uses are whole: what was there before, with what the reports add.
	Uses map[UseKey]*Use
}

// UsesOf returns of whose uses a tally of the reports needs to know what was there before.
func UsesOf(reports []Report) map[UseKey]*Use {
	uses := map[UseKey]*Use{}
	for i := range reports {
		r := &reports[i]
		if r.Model == "" {
			continue
		}
		uses[r.use(Subject{Model: r.Model})] = &Use{}
		for _, a := range r.Attempts {
			if id := providerOf(&a); !id.IsZero() && worked(a.Result) {
				uses[r.use(Subject{Provider: id})] = &Use{}
			}
		}
	}
	return uses
}

// SumUp sums reports up in their order. uses are those of UsesOf, with what was there before.
func SumUp(reports []Report, uses map[UseKey]*Use) *Tally {
	t := &Tally{Sums: map[Key]*Sum{}, Uses: uses}
	for i := range reports {
		if reports[i].Model != "" { // else its hold is gone
			t.add(&reports[i])
		}
	}
	return t
}

func (t *Tally) add(r *Report) {
	own := r.sum()
	model := own
	failed := int64(0)
	if r.failed() {
		failed = 1
	}
	model.Judged = own.Succeeded + t.use(r.use(Subject{Model: r.Model}), own.Succeeded, failed)
	service := model
	if r.told() {
		service.FirstContent.Count(float64(r.FirstContentMS))
		model.FirstContent.Count(r.firstContent(true))
	}
	t.sum(FiveMinutes, r, Subject{}, &service)
	t.sum(Day, r, Subject{}, &service)
	t.sum(Hour, r, Subject{Model: r.Model}, &model)
	t.addProviders(r, own)
}

// addProviders adds a request to the provider that its last attempt was at, and of a paid request
// each attempt that was served or failed to its own provider.
func (t *Tally) addProviders(r *Report, own Sum) {
	own.Succeeded = 0
	if last := r.provider(); !last.IsZero() {
		if first := r.firstContent(false); first > 0 && r.told() {
			own.FirstContent.Count(first)
		}
		t.sum(Hour, r, Subject{Provider: last}, &own)
	}
	if !r.Paid {
		return
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		of := Subject{Provider: providerOf(a)}
		if of.Provider.IsZero() {
			continue
		}
		var judged Sum
		switch {
		case a.Result == resultServed:
			judged.Judged, judged.Succeeded = 1+t.use(r.use(of), 1, 0), 1
		case !failedAttempt(a):
			continue
		case r.Outcome == outcomeCompleted:
			judged.Judged = 1
		default:
			judged.Judged = t.use(r.use(of), 0, 1)
		}
		t.sum(Hour, r, of, &judged)
	}
}

func (t *Tally) use(k UseKey, served, failed int64) (counted int64) {
	u := t.Uses[k]
	if u == nil {
		u = &Use{}
		t.Uses[k] = u
	}
	return u.Add(served, failed)
}

func (t *Tally) sum(span Span, r *Report, of Subject, more *Sum) {
	k := Key{Span: span, At: span.Start(r.RecordedAt), Subject: of}
	if t.Sums[k] == nil {
		t.Sums[k] = &Sum{}
	}
	t.Sums[k].Add(more)
}
