package bench

import (
	"svc.internal/services/verifier/internal/battery"
)

// Stage is a part of a run. Its questions are all answered before the next stage begins.
type Stage string

// The stages.
const (
	// Begins and Judging ask nothing.
	Begins  Stage = "begins"
	Judging Stage = "judging"
	// Alone times generation, FirstTokens the time to first token.
	Alone       Stage = "alone"
	FirstTokens Stage = "first_tokens"
	// Together asks as many at once as the offer takes.
	Together Stage = "together"
	// Questions are those of B and C, Others the other ones that follow where too many
	// exceeded.
	Questions Stage = "questions"
	Others    Stage = "others"
	Recalls   Stage = "recalls"
	Files     Stage = "files"
	// Repeat and SecondRepeat time the speed again.
	Repeat       Stage = "repeat"
	SecondRepeat Stage = "second_repeat"
	Done         Stage = "done"
)

// stages is the order of a run. What follows Judging is in judged.
var stages = map[Stage]Stage{
	Begins: Alone, Alone: FirstTokens, FirstTokens: Together, Together: Questions, Questions: Recalls,
	Recalls: Files, Files: Judging,
	Others: Judging, Repeat: Judging, SecondRepeat: Judging,
}

// judged is what follows a judgement, given how many repeats of the speed there were.
var judged = map[battery.Outcome]func(repeats int) Stage{
	battery.Pass:     func(int) Stage { return Done },
	battery.Fail:     func(int) Stage { return Done },
	battery.Void:     func(int) Stage { return Done },
	battery.AskAgain: func(int) Stage { return Others },
	battery.TimeAgain: func(repeats int) Stage {
		if repeats == 0 {
			return Repeat
		}
		return SecondRepeat
	},
}

// All returns every stage.
func All() []Stage {
	return []Stage{
		Begins, Alone, FirstTokens, Together, Questions, Others, Recalls, Files, Repeat, SecondRepeat, Judging, Done,
	}
}
