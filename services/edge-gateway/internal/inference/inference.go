// Package inference runs a request: it admits the request, tries its candidates, one after the other, and
// hands the answer to a Sink.
package inference
