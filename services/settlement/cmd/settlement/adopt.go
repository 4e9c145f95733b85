package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/node"
	"svc.internal/pkg/telemetry"
	"svc.internal/services/settlement"
	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/payout"
)

// adoptTimeout bounds the whole of adopt, which searches blocks.
const adoptTimeout = 15 * time.Minute

const adoptUsage = `usage: settlement adopt --chain N [--since TIME] [--json] [-config file.yaml]
       [--apply --reason WHY [--accept-unknown HASH,…] [--match HASH=PAYOUT,…] [--give-back PAYOUT,…]]
`

// runAdopt shows what the database lost of a chain, and takes it in with --apply. It returns 0 once nothing is left, 1
// where something is, and 2 when it could not tell.
func runAdopt(ctx context.Context, out, errs io.Writer, p *program, args []string) int {
	a, file, asJSON, err := readAdoption(args, errs)
	if err != nil {
		fmt.Fprintf(errs, "settlement adopt: %v\n%s", err, adoptUsage)
		return exitUnknown
	}
	if err := config.Read(p, file, os.Environ()); err != nil {
		fmt.Fprintf(errs, "settlement adopt: %v\n", err)
		return exitUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	plan, err := adoption(ctx, errs, p, a)
	if err != nil {
		fmt.Fprintf(errs, "settlement adopt: %v\n", err)
		return exitUnknown
	}
	show := plan.Print
	if asJSON {
		show = plan.PrintJSON
	}
	if err := show(out); err != nil {
		fmt.Fprintf(errs, "settlement adopt: %v\n", err)
		return exitUnknown
	}
	if plan.Empty() || a.Apply && plan.Complete() {
		return exitSound
	}
	return exitDrift
}

// adoption runs beside the service: it listens on an address of its own.
func adoption(ctx context.Context, errs io.Writer, p *program, a settlement.Adoption) (plan adopt.Plan, err error) {
	cfg := *p.Process()
	cfg.AdminAddr, cfg.GRPCAddr, cfg.GRPCAdvertise = "127.0.0.1:0", "", ""
	tel, err := node.Observe(telemetry.Config{LogLevel: "warn", LogFormat: "text"}, errs)
	if err != nil {
		return plan, err
	}
	defer func() { err = errors.Join(err, tel.Stop(context.WithoutCancel(ctx))) }()
	n, err := node.New(cfg, tel, p.Specs()...)
	if err != nil {
		return plan, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	return settlement.Adopt(ctx, p.Settlement, n, a)
}

func readAdoption(args []string, errs io.Writer) (a settlement.Adoption, file string, asJSON bool, err error) {
	flags := flag.NewFlagSet("adopt", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() {}
	id := flags.Uint64("chain", 0, "the number of the chain")
	text := flags.String("since", "", "the `time` since which the books are read, RFC 3339")
	flags.BoolVar(&asJSON, "json", false, "print the plan as JSON")
	flags.BoolVar(&a.Apply, "apply", false, "do what the plan says")
	flags.StringVar(&a.Reason, "reason", "", "why, for the record")
	flags.StringVar(&file, "config", "", "file of settings (YAML); the environment wins over it")
	accept := flags.String("accept-unknown", "", "transactions that are recorded although nothing explains them")
	match := flags.String("match", "", "transactions with the payouts that they pay")
	back := flags.String("give-back", "", "payouts that were not sent")
	if err := flags.Parse(args); err != nil {
		return a, "", false, err
	}
	if flags.NArg() > 0 || *id == 0 {
		return a, "", false, errors.New("a chain is named by --chain")
	}
	a.Chain = chain.ID(*id)
	if *text != "" {
		if a.Since, err = time.Parse(time.RFC3339, *text); err != nil {
			return a, "", false, errors.New("--since takes a time of RFC 3339")
		}
	}
	a.Words, err = readWords(*accept, *match, *back)
	return a, file, asJSON, err
}

func readWords(accept, match, back string) (w adopt.Words, err error) {
	w = adopt.Words{Accept: map[chain.Hash]bool{}, Match: map[chain.Hash]payout.ID{}, GiveBack: map[payout.ID]bool{}}
	for text := range strings.FieldsFuncSeq(accept, comma) {
		h, err := chain.ParseHash(text)
		if err != nil {
			return w, fmt.Errorf("--accept-unknown: %w", err)
		}
		w.Accept[h] = true
	}
	for text := range strings.FieldsFuncSeq(match, comma) {
		hash, id, _ := strings.Cut(text, "=")
		h, err := chain.ParseHash(hash)
		if err != nil {
			return w, fmt.Errorf("--match: %w", err)
		}
		if w.Match[h], err = payout.ParseID(id); err != nil {
			return w, fmt.Errorf("--match: %w", err)
		}
	}
	for text := range strings.FieldsFuncSeq(back, comma) {
		id, err := payout.ParseID(text)
		if err != nil {
			return w, fmt.Errorf("--give-back: %w", err)
		}
		w.GiveBack[id] = true
	}
	return w, nil
}

func comma(r rune) bool { return r == ',' }
