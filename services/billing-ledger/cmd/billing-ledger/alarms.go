package main

import (
	"context"
	"flag"
	"fmt"

	billingledger "svc.internal/services/billing-ledger"
)

// runAlarms lists the alarms of card payments that nobody has closed, or closes one. Its
// exit code is exitDrift while there is one to look at.
func runAlarms(ctx context.Context, to streams, url string, args []string) int {
	flags := flag.NewFlagSet("alarms", flag.ContinueOnError)
	reason := flags.String("close", "", "the reason of an alarm to close")
	object := flags.String("object", "", "what the alarm is about")
	by := flags.String("by", "", "who has looked at it")
	if !parse(flags, to, args) {
		return exitUnknown
	}
	given := 0
	for _, value := range []string{*reason, *object, *by} {
		if value != "" {
			given++
		}
	}
	if given != 0 && given != 3 {
		fmt.Fprintln(to.errs, usage)
		return exitUnknown
	}
	db, err := open(ctx, url, flags.Name())
	if err != nil {
		return failed(to, flags.Name(), err)
	}
	defer db.Close()
	if given == 3 {
		closed, err := billingledger.CloseCardAlarm(ctx, db, *reason, *object, *by)
		if err == nil && !closed {
			err = fmt.Errorf("there is no open alarm %q about %q", *reason, *object)
		}
		if err != nil {
			return failed(to, flags.Name(), err)
		}
		return exitSound
	}
	alarms, err := billingledger.CardAlarms(ctx, db)
	if err != nil {
		return failed(to, flags.Name(), err)
	}
	for _, a := range alarms {
		if _, err := fmt.Fprintf(to.out, "%s\t%s\t%s\n", a.Reason, a.Object, a.Detail); err != nil {
			return failed(to, flags.Name(), err)
		}
	}
	if len(alarms) > 0 {
		return exitDrift
	}
	return exitSound
}
