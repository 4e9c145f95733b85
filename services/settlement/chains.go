package settlement

import (
	"errors"
	"fmt"
)

// checkChains returns every fault of the chains. One node alone may lie, so chains on which dollars move have two.
func (c Config) checkChains() error {
	var faults []error
	if err := c.Chains.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("settlement: chains: %w", err))
	}
	for _, one := range c.Chains {
		if one.ID.Real() && len(one.RPCs) < 2 && !c.Development {
			faults = append(faults, fmt.Errorf("settlement: chains: chain %s needs rpcs of at least two operators; one is for "+
				"development (SVC_SETTLEMENT_DEVELOPMENT)", one.ID))
		}
	}
	return errors.Join(faults...)
}
