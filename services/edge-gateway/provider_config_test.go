package edgegateway

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svc.internal/pkg/config"
)

const oneChain = `{"chain_id":254,"chain_name":"Service chain",` +
	`"contract_address":"0x52908400098527886E0F7030069857D2E4169EE7",` +
	`"token_symbol":"N","token_decimals":18,"min_collateral":35000,"rpc_url":"https://rpc.example"}`

// A list in the file and the same as JSON in the environment replace the default.
func TestChainsOfCollateralAreSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(file, []byte("collateral_chains: ["+oneChain+"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, source := range map[string]struct {
		path    string
		environ []string
	}{
		"file": {path: file}, "environment": {environ: []string{"SVC_GATEWAY_COLLATERAL_CHAINS=[" + oneChain + "]"}},
	} {
		cfg := DefaultConfig()
		if err := config.Read(&cfg, source.path, source.environ); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch {
		case len(cfg.CollateralChains) != 1:
			t.Errorf("%s: len(cfg.CollateralChains): got %d, want 1, in %+v", name, len(cfg.CollateralChains),
				cfg.CollateralChains)
		case cfg.CollateralChains[0].MinCollateral != 35_000:
			t.Errorf("%s: cfg.CollateralChains[0].MinCollateral: got %d, want 35_000", name,
				cfg.CollateralChains[0].MinCollateral)
		case cfg.CollateralChains[0].TokenDecimals != 18:
			t.Errorf("%s: cfg.CollateralChains[0].TokenDecimals: got %d, want 18", name, cfg.CollateralChains[0].TokenDecimals)
		}
		var printed bytes.Buffer
		switch err := config.Print(&printed, &cfg); {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case !strings.Contains(printed.String(), "contract_address: "):
			t.Errorf(`%s: printed: got %q, want "contract_address: " in it`, name, printed.String())
		case !strings.Contains(printed.String(), "SVC_GATEWAY_COLLATERAL_CHAINS"):
			t.Errorf(`%s: printed: got %q, want "SVC_GATEWAY_COLLATERAL_CHAINS" in it`, name, printed.String())
		}
	}
}

func TestChainsThatMakeNoSenseAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`[` + oneChain + `,` + oneChain + `]`: "stands twice",
		`[{"chain_id":1,"typo":2}]`:           "typo",
		`[] []`:                               "behind",
		`[` + strings.Replace(oneChain, "https", "http", 1) + `]`:    "rpc_url",
		`[` + strings.Replace(oneChain, "35000", "0", 1) + `]`:       "min_collateral",
		`[` + strings.Repeat(oneChain+",", 20) + oneChain + `]`:      "more than 16",
		`[` + strings.Replace(oneChain, `"0x5`, `"5`, 1) + `]`:       "contract_address",
		`[` + strings.Replace(oneChain, `35000`, `1e99`, 1) + `]`:    "chains",
		`[` + strings.Replace(oneChain, `35000`, `"20"`, 1) + `]`:    "chains",
		`[` + strings.Replace(oneChain, `"N"`, `"N","N":1`, 1) + `]`: "N",
	} {
		cfg := DefaultConfig()
		err := config.Read(&cfg, "", []string{"SVC_GATEWAY_COLLATERAL_CHAINS=" + text})
		if err == nil {
			t.Errorf("%.60s: got no error, want one", text)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got the error %q, want %q in it", text, err, want)
		}
	}
}
