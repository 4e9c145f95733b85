package corpus

import (
	"fmt"
	"strings"
)

var numberWords = []string{
	"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
	"eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
}

// sequence writes the numbers from a to b, in either direction.
func sequence(a, b, step int) string {
	var parts []string
	for n := a; n != b+step; n += step {
		parts = append(parts, fmt.Sprint(n))
	}
	return strings.Join(parts, ", ") + "."
}

// counting holds sequences up to twenty.
func counting() []Intent {
	var out []Intent
	for n := 2; n <= 20; n++ {
		w := numberWords[n]
		var spelled []string
		for i := 1; i <= n; i++ {
			spelled = append(spelled, numberWords[i])
		}
		out = append(out, Intent{[]string{
			"Count to " + w + ".", fmt.Sprintf("Count to %d.", n), fmt.Sprintf("Count from 1 to %d.", n),
			"Can you count to " + w + "?", fmt.Sprintf("Can you count to %d?", n), "Count from one to " + w + ".",
			fmt.Sprintf("Count up to %d.", n), fmt.Sprintf("List the numbers from 1 to %d.", n),
		}, sequence(1, n, 1)})
		if n > 10 {
			continue
		}
		out = append(out,
			Intent{[]string{fmt.Sprintf("Count to %d in words.", n), "Count to " + w + " in words."},
				strings.Join(spelled, ", ") + "."},
			Intent{[]string{fmt.Sprintf("Count down from %d.", n), "Count down from " + w + ".",
				fmt.Sprintf("Count backwards from %d.", n), "Count backwards from " + w + "."}, sequence(n, 1, -1)})
	}
	for a := 2; a <= 5; a++ {
		for b := a + 2; b <= 10; b++ {
			out = append(out, Intent{[]string{fmt.Sprintf("Count from %d to %d.", a, b), "Count from " + numberWords[a] +
				" to " + numberWords[b] + "."}, sequence(a, b, 1)})
		}
	}
	return append(out,
		Intent{[]string{"Count.", "Can you count?", "Count for me.", "Count something."}, sequence(1, 10, 1)},
		Intent{[]string{"Count by twos.", "Count to twenty by twos.", "Name the even numbers."}, sequence(2, 20, 2)},
		Intent{[]string{"Count by fives.", "Count to fifty by fives."}, sequence(5, 50, 5)},
		Intent{[]string{"Count by tens.", "Count to one hundred by tens."}, sequence(10, 100, 10)},
		Intent{[]string{"Name the odd numbers.", "List some odd numbers."}, sequence(1, 19, 2)})
}

// arithmetic holds the tables up to ten.
func arithmetic() []Intent {
	var out []Intent
	for a := 0; a <= 10; a++ {
		for b := 0; b <= 10; b++ {
			out = append(out, sum(a, b, a+b, "plus", "+"), sum(a, b, a*b, "times", "*"))
			if a >= b {
				out = append(out, sum(a, b, a-b, "minus", "-"))
			}
		}
	}
	return out
}

// sum phrases one sum in words and in signs.
func sum(a, b, result int, word, sign string) Intent {
	spelled := fmt.Sprintf("%d %s %d", a, word, b)
	signed := fmt.Sprintf("%d %s %d", a, sign, b)
	tight := fmt.Sprintf("%d%s%d", a, sign, b)
	return Intent{[]string{
		"What is " + signed + "?", "What is " + spelled + "?", "What is " + tight + "?", signed, tight, signed + " =",
		spelled, "How much is " + spelled + "?", "What's " + spelled + "?", "Calculate " + signed + ".",
	}, fmt.Sprintf("%s = %d.", signed, result)}
}

// calendar holds days, months and seasons.
func calendar() []Intent {
	days := []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	months := []string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
		"November", "December"}
	out := []Intent{
		{[]string{"Name the days of the week.", "What are the days of the week?", "List the days of the week.",
			"Which days are there?", "Tell me the days."}, "The days are " + list(days) + "."},
		{[]string{"Name the months.", "What are the months of the year?", "List the months.", "Name the months of the year."},
			"The months are " + list(months) + "."},
		{[]string{"Name the seasons.", "What are the seasons?", "List the four seasons."},
			"The seasons are spring, summer, autumn and winter."},
		{[]string{"How many days are in a week?", "How many days does a week have?"}, "A week has seven days."},
		{[]string{"How many months are in a year?", "How many months does a year have?"}, "A year has twelve months."},
		{[]string{"How many days are in a year?", "How many days does a year have?"},
			"A year has 365 days, and a leap year has 366."},
		{[]string{"How many hours are in a day?", "How many hours does a day have?"}, "A day has 24 hours."},
		{[]string{"What day is it?", "What is the date?", "What time is it?", "What is today?", "What year is it?"},
			"I cannot tell. I have no clock."},
	}
	for i, day := range days {
		next, last := days[(i+1)%7], days[(i+6)%7]
		out = append(out,
			Intent{[]string{"What day comes after " + day + "?", "Which day follows " + day + "?", "What is the day after " +
				day + "?"}, "After " + day + " comes " + next + "."},
			Intent{[]string{"What day comes before " + day + "?", "What is the day before " + day + "?"},
				"Before " + day + " comes " + last + "."})
	}
	for i, month := range months {
		out = append(out, Intent{[]string{"What month comes after " + month + "?", "Which month follows " + month + "?"},
			"After " + month + " comes " + months[(i+1)%12] + "."})
	}
	return out
}

// list joins items as prose does.
func list(items []string) string {
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + " and " + items[last]
}
