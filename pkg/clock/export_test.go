package clock

// InPhase takes Spread back.
func InPhase() { phase.Store(0) }
