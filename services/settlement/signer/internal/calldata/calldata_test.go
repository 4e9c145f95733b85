package calldata_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"

	"svc.internal/services/settlement/contracts"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/calldata"
)

// methods are the functions of the contracts' artifacts, by their signature.
func methods(t testing.TB) map[string]abi.Method {
	t.Helper()
	found := map[string]abi.Method{}
	for _, read := range []func() (contracts.Artifact, error){contracts.Collateral, contracts.TestUSD} {
		artifact, err := read()
		if err != nil {
			t.Fatal(err)
		}
		var parsed abi.ABI
		if err := json.Unmarshal(artifact.ABI, &parsed); err != nil {
			t.Fatal(err)
		}
		for _, m := range parsed.Methods {
			found[m.Sig] = m
		}
	}
	// TestUSD inherits it.
	if _, ok := found[string(calldata.Transfer)]; !ok {
		t.Fatalf("the artifacts have no %s", calldata.Transfer)
	}
	return found
}

func TestEveryFunctionIsOneOfTheContracts(t *testing.T) {
	t.Parallel()
	known := methods(t)
	for _, f := range calldata.Functions() {
		m, ok := known[string(f)]
		if !ok {
			t.Errorf("%s: got no such function in the artifacts, want one", f)
			continue
		}
		if got := f.Selector(); !bytes.Equal(got[:], m.ID) {
			t.Errorf("%s: got the selector %x, want %x", f, got, m.ID)
		}
	}
}

// arguments are values of a method's types.
func arguments(m abi.Method) []any {
	var list []any
	for i, in := range m.Inputs {
		switch in.Type.String() {
		case "address":
			list = append(list, common.Address{19: byte(i + 1)})
		case "uint256":
			list = append(list, big.NewInt(int64(1000+i)))
		case "bytes32":
			list = append(list, [32]byte{0: 0xff, 31: byte(i)})
		case "uint8":
			list = append(list, uint8(27))
		case "bool":
			list = append(list, true)
		}
	}
	return list
}

func pack(t testing.TB, f calldata.Function) []byte {
	t.Helper()
	m := methods(t)[string(f)]
	data, err := m.Inputs.Pack(arguments(m)...)
	if err != nil {
		t.Fatal(err)
	}
	return append(slices.Clone(m.ID), data...)
}

func TestWhatTheContractsEncoderWritesIsRead(t *testing.T) {
	t.Parallel()
	for _, f := range calldata.Functions() {
		call, err := calldata.Read(pack(t, f))
		if err != nil {
			t.Errorf("%s: got the error %v, want it read", f, err)
			continue
		}
		if call.Function != f {
			t.Errorf("got %s, want %s", call.Function, f)
		}
		for i, typ := range f.Types() {
			switch typ {
			case "address":
				if got, want := call.Address(i), (chain.Address{19: byte(i + 1)}); got != want {
					t.Errorf("%s: argument %d: got %s, want %s", f, i, got, want)
				}
			case "uint256":
				if got, want := call.Amount(i), chain.NewAmount(uint64(1000+i)); got != want {
					t.Errorf("%s: argument %d: got %s, want %s", f, i, got, want)
				}
			}
		}
	}
}

func TestDataInAnyOtherFormIsRefused(t *testing.T) {
	t.Parallel()
	transfer, resolve := pack(t, calldata.Transfer), pack(t, calldata.Resolve)
	authorized := pack(t, calldata.TransferWithAuthorization)
	with := func(data []byte, at int, b byte) []byte {
		data = slices.Clone(data)
		data[at] = b
		return data
	}
	approve := append(slices.Clone(methods(t)["approve(address,uint256)"].ID), transfer[4:]...)
	for name, data := range map[string][]byte{
		"nothing":                       nil,
		"half a selector":               transfer[:3],
		"a selector alone":              transfer[:4],
		"another function":              approve,
		"a byte too few":                transfer[:len(transfer)-1],
		"a byte too many":               append(slices.Clone(transfer), 0),
		"a word too many":               append(slices.Clone(transfer), make([]byte, 32)...),
		"bits above an address":         with(transfer, 4+11, 1),
		"the highest bit of an address": with(transfer, 4, 0x80),
		"a bool of 2":                   with(resolve, 4+63, 2),
		"bits above a bool":             with(resolve, 4+62, 1),
		"bits above a uint8":            with(authorized, 4+32*6+30, 1),
	} {
		if call, err := calldata.Read(data); err == nil {
			t.Errorf("%s: got %s, want an error", name, call.Function)
		}
	}
}

// What is read is what the contracts' own decoder reads, and is written as it came.
func FuzzWhatIsReadIsWhatAContractReads(f *testing.F) {
	for _, function := range calldata.Functions() {
		f.Add(pack(f, function))
	}
	f.Add([]byte{})
	known := methods(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		call, err := calldata.Read(data)
		if err != nil {
			return
		}
		m := known[string(call.Function)]
		if !bytes.Equal(m.ID, data[:4]) {
			t.Fatalf("got %s of the selector %x", call.Function, data[:4])
		}
		values, err := m.Inputs.Unpack(data[4:])
		if err != nil {
			t.Fatalf("%s: go-ethereum reads it with the error %v", call.Function, err)
		}
		for i, value := range values {
			switch v := value.(type) {
			case common.Address:
				if got := call.Address(i); got != chain.Address(v) {
					t.Errorf("argument %d: got %s, want %s", i, got, v)
				}
			case *big.Int:
				if got := call.Amount(i).String(); got != v.String() {
					t.Errorf("argument %d: got %s, want %s", i, got, v)
				}
			}
		}
		again, err := m.Inputs.Pack(values...)
		if err != nil {
			t.Fatal(err)
		}
		if got := append(slices.Clone(m.ID), again...); !bytes.Equal(got, data) {
			t.Errorf("got %x written anew, want %x", got, data)
		}
	})
}
