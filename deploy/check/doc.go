// Package check holds the rules of the repository as tests: where things
// live, who may import whom, and what every file must have. It reads the tree
// and nothing else.
package check
