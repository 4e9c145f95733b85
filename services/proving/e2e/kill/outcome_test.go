package kill

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// outcomes are the outcomes of a round's cells, for a reader.
type outcomes map[point]map[victim]string

const legend = `S streamed, W whole; the client was told: all of it (whole), a part and an error (cut),` +
	` an error (refused),
or its connection broke (broken); then the hold and, if settled, the tokens charged`

// add notes the outcome of a cell.
func (o outcomes) add(c cell, t told, b books) {
	form := "W"
	if c.stream {
		form = "S"
	}
	client := "broken"
	switch {
	case t.whole:
		client = "whole"
	case t.status == 200 && t.code != "":
		client = "cut"
	case t.code != "":
		client = "refused"
	}
	money := "no hold"
	for _, state := range b.holds {
		money = state
	}
	for _, l := range b.lines {
		money = fmt.Sprintf("%d+%d", l.prompt, l.completion)
	}
	if o[c.point] == nil {
		o[c.point] = map[victim]string{}
	}
	o[c.point][c.victim] = form + " " + client + " " + money
}

// String is a table of points by victims.
func (o outcomes) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	victims := []victim{gateway, routerVictim, hub, hubLost, billing, settlementVictim, catalogVictim, agent,
		nats, natsWiped, postgres}
	fmt.Fprint(w, "point")
	for _, v := range victims {
		fmt.Fprintf(w, "\t%s", v)
	}
	fmt.Fprintln(w)
	for _, p := range points {
		if o[p] == nil {
			continue
		}
		fmt.Fprint(w, p.name)
		for _, v := range victims {
			fmt.Fprintf(w, "\t%s", o[p][v])
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err.Error()
	}
	return legend + "\n" + text.String()
}
