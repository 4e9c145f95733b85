package adopt

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"svc.internal/services/settlement/internal/payout"
)

// Print writes a plan as a table.
func (p Plan) Print(out io.Writer) error {
	if p.Empty() {
		_, err := fmt.Fprintf(out, "chain %s: nothing is lost\n", p.Chain)
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tNONCE\tTRANSACTION\tWHAT\tACTION\tPAYOUT\tDETAIL")
	for _, l := range p.rows() {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", l.Key, l.Nonce, or(l.Transaction, "none"), l.What, l.Action,
			or(l.Payout, "-"), l.Detail)
	}
	fmt.Fprintln(w, "\nPAYOUT\tPROVIDER\tGROSS\tBOOKS\tDATABASE\tACTION\tDETAIL")
	for _, l := range p.payouts() {
		fmt.Fprintf(w, "%s\t%s\t$%s\t%s\t%s\t%s\t%s\n", l.Payout, l.Provider, l.Gross, l.Books, or(l.State, "none"), l.Action,
			l.Detail)
	}
	if p.More {
		fmt.Fprintf(w, "\nThere are more: at most %d nonces are adopted at once.\n", MaxCalls)
	}
	return w.Flush()
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// row and payoutRow are the lines of a plan, as they are printed.
type row struct {
	Key         string `json:"key"`
	Sender      string `json:"sender"`
	Nonce       uint64 `json:"nonce"`
	Transaction string `json:"transaction_hash,omitempty"`
	What        What   `json:"what"`
	Action      Action `json:"action"`
	Payout      string `json:"payout_id,omitempty"`
	Detail      string `json:"detail"`
}

type payoutRow struct {
	Payout   string `json:"payout_id"`
	Provider string `json:"provider_id"`
	Gross    string `json:"gross_usd"`
	Books    End    `json:"books"`
	State    string `json:"state,omitempty"`
	Action   Action `json:"action"`
	Detail   string `json:"detail"`
}

func (p Plan) rows() []row {
	list := []row{}
	for _, l := range p.Calls {
		one := row{Key: string(l.Nonce.Key), Sender: l.Nonce.Sender.String(), Nonce: l.Nonce.Nonce, What: l.What,
			Action: l.Action, Detail: l.Detail}
		if l.Nonce.Sent != nil {
			one.Transaction = l.Nonce.Sent.Hash.String()
		}
		if l.Payout >= 0 {
			one.Payout = p.Payouts[l.Payout].Lost.ID.String()
		}
		list = append(list, one)
	}
	return list
}

func (p Plan) payouts() []payoutRow {
	list := []payoutRow{}
	for _, l := range p.Payouts {
		list = append(list, payoutRow{Payout: l.Lost.ID.String(), Provider: l.Lost.Provider.String(),
			Gross: l.Lost.Gross.String(), Books: l.Lost.End, State: stateOf(l.Lost.Row), Action: l.Action, Detail: l.Detail})
	}
	return list
}

func stateOf(row *payout.Payout) string {
	if row == nil {
		return ""
	}
	return string(row.State)
}

// PrintJSON writes a plan as JSON.
func (p Plan) PrintJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(map[string]any{"chain_id": p.Chain, "calls": p.rows(), "payouts": p.payouts(),
		"more": p.More, "complete": p.Complete()})
}
