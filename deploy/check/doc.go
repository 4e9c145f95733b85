// Package check holds the rules of the repository as tests: where things
// live, who may import whom, what every program links, and what every file must
// have. It reads the tree, asks Go for its packages, and nothing else.
package check
