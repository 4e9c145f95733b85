package corpus

import (
	"fmt"
	"strings"
)

// colours holds the colours of things.
func colours() []Intent {
	out := []Intent{
		{[]string{"Name some colours.", "Give me three colours.", "Give me some colors.", "Name the colours.",
			"List some colours.", "What colours do you know?", "Name three colors.", "List some colors.", "Name five colours."},
			"Red, orange, yellow, green, blue and violet."},
		{[]string{"What is your favourite colour?", "What is your favorite color?", "Which colour do you like?"},
			"I like blue, but I have never seen it."},
		{[]string{"What are the colours of the rainbow?", "Name the colours of the rainbow.", "Which colours has a rainbow?"},
			"A rainbow is red, orange, yellow, green, blue, indigo and violet."},
		{[]string{"What do you get when you mix blue and yellow?", "Mix blue and yellow."}, "Blue and yellow make green."},
		{[]string{"What do you get when you mix red and yellow?", "Mix red and yellow."}, "Red and yellow make orange."},
		{[]string{"What do you get when you mix red and blue?", "Mix red and blue."}, "Red and blue make purple."},
	}
	for _, pair := range [][2]string{
		{"the sky", "blue"}, {"the sea", "blue"}, {"the sun", "yellow"}, {"grass", "green"}, {"snow", "white"},
		{"coal", "black"}, {"a lemon", "yellow"}, {"a banana", "yellow"}, {"a cherry", "red"}, {"a tomato", "red"},
		{"blood", "red"}, {"milk", "white"}, {"a frog", "green"}, {"a carrot", "orange"}, {"chocolate", "brown"},
		{"a leaf", "green"}, {"the night", "black"}, {"a strawberry", "red"}, {"a fire engine", "red"}, {"a plum", "purple"},
		{"an elephant", "grey"}, {"a flamingo", "pink"}, {"gold", "yellow"}, {"a swan", "white"}, {"a pumpkin", "orange"},
	} {
		subject := strings.ToUpper(pair[0][:1]) + pair[0][1:]
		out = append(out, Intent{[]string{
			"What colour is " + pair[0] + "?", "What color is " + pair[0] + "?", "Which colour is " + pair[0] + "?",
			"Tell me the colour of " + pair[0] + ".",
		}, subject + " is " + pair[1] + "."})
	}
	return out
}

// words holds spelling, opposites, sounds and the alphabet.
func words() []Intent {
	out := []Intent{
		{[]string{"Say the alphabet.", "What is the alphabet?", "Recite the alphabet.", "List the letters of the alphabet.",
			"ABC"}, "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z"},
		{[]string{"Name the vowels.", "What are the vowels?", "List the vowels."}, "The vowels are A, E, I, O and U."},
		{[]string{"How many letters are in the alphabet?", "How many letters does the alphabet have?"},
			"The alphabet has 26 letters."},
		{[]string{"Name some animals.", "List some animals.", "Name three animals.", "What animals do you know?"},
			"Cat, dog, fox, owl, hare, bear and mouse."},
		{[]string{"Name some fruits.", "List some fruit.", "Name three fruits.", "What fruits do you know?"},
			"Apple, pear, plum, cherry, lemon and banana."},
		{[]string{"Name the planets.", "What are the planets?", "List the planets.", "Name the planets of the solar system."},
			"Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus and Neptune."},
	}
	for _, w := range strings.Fields(
		"cat dog fox owl hare bear mouse apple pear plum house tree water bread light night day sun moon star hello world " +
			"token model byte red green blue yellow seven eight Monday Friday school river table chair green garden friend " +
			"music letter number summer winter banana orange provider") {
		out = append(out, Intent{[]string{
			"Spell " + w + ".", "How do you spell " + w + "?", "Spell the word " + w + ".", "Can you spell " + w + "?",
		}, strings.ToUpper(strings.Join(strings.Split(w, ""), "-")) + "."})
	}
	for _, pair := range [][2]string{
		{"hot", "cold"}, {"big", "small"}, {"up", "down"}, {"left", "right"}, {"day", "night"}, {"black", "white"},
		{"fast", "slow"}, {"old", "new"}, {"open", "closed"}, {"happy", "sad"}, {"light", "dark"}, {"wet", "dry"},
		{"hard", "soft"}, {"high", "low"}, {"good", "bad"}, {"early", "late"}, {"full", "empty"}, {"loud", "quiet"},
	} {
		for i := range 2 {
			out = append(out, Intent{[]string{
				"What is the opposite of " + pair[i] + "?", "Name the opposite of " + pair[i] + ".", "Opposite of " + pair[i] + "?",
			}, fmt.Sprintf("The opposite of %s is %s.", pair[i], pair[1-i])})
		}
	}
	for _, pair := range [][2]string{{"cat", "meow"}, {"dog", "woof"}, {"cow", "moo"}, {"sheep", "baa"}, {"duck", "quack"},
		{"owl", "hoo"}, {"mouse", "squeak"}, {"lion", "roar"}} {
		out = append(out, Intent{[]string{
			"What does a " + pair[0] + " say?", "What sound does a " + pair[0] + " make?", "Which sound makes a " + pair[0] +
				"?",
		}, "A " + pair[0] + " says " + pair[1] + "."})
	}
	return out
}

// places holds some capital cities.
func places() []Intent {
	var out []Intent
	for _, pair := range [][2]string{
		{"France", "Paris"}, {"Germany", "Berlin"}, {"Italy", "Rome"}, {"Spain", "Madrid"}, {"Portugal", "Lisbon"},
		{"Japan", "Tokyo"}, {"China", "Beijing"}, {"England", "London"}, {"Ireland", "Dublin"}, {"Norway", "Oslo"},
		{"Sweden", "Stockholm"}, {"Poland", "Warsaw"}, {"Greece", "Athens"}, {"Austria", "Vienna"}, {"Turkey", "Ankara"},
		{"Egypt", "Cairo"}, {"Kenya", "Nairobi"}, {"India", "New Delhi"}, {"Canada", "Ottawa"}, {"Peru", "Lima"},
		{"the USA", "Washington"}, {"the United States", "Washington"}, {"Denmark", "Copenhagen"}, {"Finland", "Helsinki"},
	} {
		out = append(out, Intent{[]string{
			"What is the capital of " + pair[0] + "?", "Capital of " + pair[0] + "?", "Name the capital of " + pair[0] + ".",
			"Which city is the capital of " + pair[0] + "?",
		}, "The capital of " + pair[0] + " is " + pair[1] + "."})
	}
	return out
}

// tongues greets in other languages and scripts, so that answers also hold
// characters of more than one byte.
func tongues() []Intent {
	var out []Intent
	for _, pair := range [][2]string{
		{"French", "Bonjour !"}, {"Spanish", "¡Hola!"}, {"German", "Grüß Gott!"}, {"Italian", "Ciao!"},
		{"Portuguese", "Olá!"},
		{"Turkish", "Merhaba!"}, {"Russian", "Привет!"}, {"Greek", "Γειά σου!"}, {"Chinese", "你好！"}, {"Japanese", "こんにちは！"},
		{"Korean", "안녕하세요!"}, {"Polish", "Cześć!"}, {"Dutch", "Hallo!"}, {"Swedish", "Hej!"}, {"English", "Hello!"},
	} {
		out = append(out, Intent{[]string{
			"Say hello in " + pair[0] + ".", "How do you say hello in " + pair[0] + "?", "Greet me in " + pair[0] + ".",
			"Hello in " + pair[0] + "?",
		}, pair[1]})
	}
	return append(out,
		Intent{[]string{"Bonjour", "Hola", "Hallo", "Ciao", "Merhaba", "Привет", "你好", "こんにちは", "Olá", "Salut"}, helloAnswer},
		Intent{[]string{"Say hello in all languages.", "Say hello in many languages.", "Greet the world."},
			"Hello, bonjour, hola, hallo, ciao, olá, привет, 你好, こんにちは!"},
		Intent{[]string{"Send me an emoji.", "Show me an emoji.", "Do you know emoji?", "Smile!"}, "🙂"})
}
