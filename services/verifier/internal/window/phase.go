package window

// Phase is what a measurement waits for.
type Phase uint8

// The phases. Measured and Abandoned are final.
const (
	// Measuring waits for the answer to the planned prompt.
	Measuring Phase = iota + 1
	// Checking waits for the prompt of CheckTokens.
	Checking
	// Measured is that the window is known.
	Measured
	// Abandoned is that the window is unmeasured: MaxPrompts prompts did not suffice, or
	// whoever asks them gave up.
	Abandoned
)

// String returns the phase's name.
func (p Phase) String() string {
	switch p {
	case Measuring:
		return "measuring"
	case Checking:
		return "checking"
	case Measured:
		return "measured"
	case Abandoned:
		return "abandoned"
	default:
		return "unknown phase"
	}
}

// trigger is what a prompt brought.
type trigger uint8

const (
	wide      trigger = iota // the interval is still too wide
	narrowed                 // the interval is below maxInterval
	confirmed                // the check passed
	failed                   // the check did not
)

// moves are the transitions: a prompt's trigger in a phase leads to a phase. Any other
// pair does not happen.
var moves = map[Phase]map[trigger]Phase{
	Measuring: {wide: Measuring, narrowed: Checking},
	Checking:  {confirmed: Measured, failed: Measuring},
}
