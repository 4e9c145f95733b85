// Command camouflage measures whether hidden probes can be told from consumers' requests,
// and prints a table (package camouflage).
//
//	camouflage [-json file] [-csv folder] [-organic file]   measure
//	camouflage -orders file                                  write the orders of consumers
//	camouflage -recorded file -organic file                  make samples of what SDKs sent
//
// -csv writes each set as a file for another classifier, -json the figures for lab -auc.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"svc.internal/services/verifier/internal/camouflage"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "camouflage:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("camouflage", flag.ContinueOnError)
	orders := flags.String("orders", "", "write the orders of consumers to a file")
	recorded := flags.String("recorded", "", "file of requests that SDKs sent")
	organic := flags.String("organic", "", "file of samples; the recorded ones of the package without")
	asJSON := flags.String("json", "", "write the figures to a file")
	asCSV := flags.String("csv", "", "write the samples of each set to a folder")
	goroot := flags.String("goroot", runtime.GOROOT(), "Go distribution") //nolint:staticcheck // a development tool
	if err := flags.Parse(args); err != nil {
		return err
	}
	src := os.DirFS(filepath.Join(*goroot, "src"))
	switch {
	case *orders != "":
		texts, err := camouflage.Paragraphs(src, camouflage.Consumers)
		if err != nil {
			return err
		}
		return create(*orders, func(to io.Writer) error {
			return camouflage.WriteOrders(to, camouflage.Orders(texts))
		})
	case *recorded != "":
		return record(*recorded, *organic)
	}
	texts, err := camouflage.Paragraphs(src, camouflage.Probes)
	if err != nil {
		return err
	}
	return measure(out, texts, *organic, *asJSON, *asCSV)
}

// record makes samples of recorded requests.
func record(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	requests, err := camouflage.ReadRecorded(f)
	if err != nil {
		return err
	}
	samples, err := camouflage.Played(requests)
	if err != nil {
		return err
	}
	return create(to, func(to io.Writer) error { return camouflage.WriteSamples(to, samples) })
}

// figure is what a classifier reached on one set.
type figure struct {
	set       string
	auc, err  float64
	each      int
	betraying []string
}

func measure(out io.Writer, texts []string, organic, asJSON, asCSV string) error {
	consumers, err := read(organic)
	if err != nil {
		return err
	}
	probes, err := camouflage.Week(consumers, camouflage.Bank(texts), camouflage.Usual)
	if err != nil {
		return err
	}
	naive, err := camouflage.Naive(camouflage.Usual)
	if err != nil {
		return err
	}
	var figures []figure
	for _, s := range camouflage.Sets(consumers, probes, naive) {
		if asCSV != "" {
			if err := writeSet(asCSV, s); err != nil {
				return err
			}
		}
		c, err := camouflage.Tell(s)
		if err != nil {
			return err
		}
		each := min(len(s.Hidden), len(s.Consumers))
		figures = append(figures, figure{s.Name, c.AUC, c.Error, each, camouflage.Betrays(c, 6)})
	}
	if err := show(out, figures); err != nil {
		return err
	}
	if asJSON == "" {
		return nil
	}
	return create(asJSON, func(to io.Writer) error { return writeFigures(to, figures) })
}

func read(organic string) ([]camouflage.Sample, error) {
	if organic == "" {
		return camouflage.Organic()
	}
	f, err := os.Open(organic)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return camouflage.ReadSamples(f)
}

func show(out io.Writer, figures []figure) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "probes among\tAUC, boosted trees\tof each\twhat betrays")
	for _, f := range figures {
		fmt.Fprintf(table, "%s\t%.3f ± %.3f\t%d\t%s\n", f.set, f.auc, f.err, f.each, strings.Join(f.betraying, ", "))
	}
	return table.Flush()
}

// writeFigures writes the figures in the form of lab -auc.
func writeFigures(to io.Writer, figures []figure) error {
	type auc struct {
		Classifier string  `json:"classifier"`
		Probes     float64 `json:"probes"`
		Naive      float64 `json:"naive"`
		Samples    int     `json:"samples"`
	}
	naive := figures[len(figures)-1]
	var all []auc
	for _, f := range figures[:len(figures)-1] {
		all = append(all, auc{"boosted trees, " + f.set, f.auc, naive.auc, f.each})
	}
	e := json.NewEncoder(to)
	e.SetIndent("", "  ")
	return e.Encode(all)
}

func writeSet(folder string, s camouflage.Set) error {
	name := strings.ReplaceAll(s.Name, " ", "-")
	for kind, samples := range map[string][]camouflage.Sample{"probes": s.Hidden, "consumers": s.Consumers} {
		path := filepath.Join(folder, name+"."+kind+".csv.gz")
		if err := create(path, func(to io.Writer) error { return camouflage.WriteSamples(to, samples) }); err != nil {
			return err
		}
	}
	return nil
}

func create(path string, content func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return content(f)
}
