package card

import "fmt"

// Processors are the card processors that are set. New checkouts are made at Default. What became
// of an earlier checkout is asked of the processor that made it.
type Processors struct {
	Default Processor
	// Others are those of earlier checkouts.
	Others []Processor
}

// Of returns the processor of a name. A checkout of one that is no longer set waits.
func (p Processors) Of(name string) (Processor, error) {
	for _, one := range p.All() {
		if one.Name() == name {
			return one, nil
		}
	}
	return nil, fmt.Errorf("the card processor %.40q is not set", name)
}

// All returns every processor, the default first.
func (p Processors) All() []Processor { return append([]Processor{p.Default}, p.Others...) }
