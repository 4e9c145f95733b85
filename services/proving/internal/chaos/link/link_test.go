package link

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"
)

// echo is a server that answers each line with itself.
func echo(t *testing.T) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintln(conn, lines.Text())
				}
			}()
		}
	}()
	return lis.Addr().String()
}

func begin(t *testing.T) *Net {
	t.Helper()
	n := New()
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// caller talks through a link.
type caller struct {
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, n *Net, from, to, target string) *caller {
	t.Helper()
	address, err := n.Via(from, to, target)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connect(t, address)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func connect(t *testing.T, address string) (*caller, error) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { conn.Close() })
	return &caller{conn, bufio.NewReader(conn)}, conn.SetDeadline(time.Now().Add(2 * time.Minute))
}

// refuses checks that a new connection from a-1 to b-1 is reset, while it is made or
// later.
func refuses(t *testing.T, n *Net, target string) {
	t.Helper()
	address, err := n.Via("a-1", "b-1", target)
	if err != nil {
		t.Fatal(err)
	}
	c, err := connect(t, address)
	if err != nil {
		return
	}
	if got, err := c.say("x"); err == nil {
		t.Errorf("a new connection answers %q", got)
	}
}

func (c *caller) say(text string) (string, error) {
	if _, err := fmt.Fprintln(c, text); err != nil {
		return "", err
	}
	return c.lines.ReadString('\n')
}

func TestALinkPassesWhatIsSaid(t *testing.T) {
	n := begin(t)
	c := dial(t, n, "a-1", "b-1", echo(t))
	for _, text := range []string{"one", "two"} {
		if got, err := c.say(text); err != nil {
			t.Fatalf("got the error %v, want none", err)
		} else if got != text+"\n" {
			t.Fatalf("c.say(text): got %q, want %q", got, text+"\n")
		}
	}
}

func TestACutResetsAndRefusesUntilMended(t *testing.T) {
	n, target := begin(t), echo(t)
	cut, whole := dial(t, n, "a-1", "b-1", target), dial(t, n, "a-2", "b-1", target)
	for _, c := range []*caller{cut, whole} {
		if _, err := c.say("x"); err != nil {
			t.Fatal(err)
		}
	}
	hurt := n.Cut("a", "b", false, 0)
	if hurt.Links() != 1 {
		t.Fatalf("links cut: got %d, want 1", hurt.Links())
	}
	if got, err := cut.say("y"); err == nil {
		t.Errorf("through a cut comes %q", got)
	}
	refuses(t, n, target)
	if _, err := whole.say("y"); err != nil {
		t.Errorf("another link was cut: %v", err)
	}
	hurt.Mend()
	hurt.Mend()
	if _, err := dial(t, n, "a-1", "b-1", target).say("z"); err != nil {
		t.Errorf("after it was mended: %v", err)
	}
}

func TestAStallPassesEverythingAfterwards(t *testing.T) {
	n, target := begin(t), echo(t)
	c := dial(t, n, "", "b-1", target)
	if _, err := c.say("x"); err != nil {
		t.Fatal(err)
	}
	hurt := n.Stall("", "b", true, 0)
	answered := make(chan string, 1)
	go func() {
		text, err := c.say("late")
		answered <- fmt.Sprint(text, err)
	}()
	other := dial(t, n, "", "b-1", target) // is let in
	select {
	case text := <-answered:
		t.Fatalf("through a stall comes %q", text)
	case <-time.After(50 * time.Millisecond):
	}
	hurt.Mend()
	if got := <-answered; got != "late\n<nil>" {
		t.Errorf("after the stall came: got %q, want %q", got, "late\n<nil>")
	}
	if _, err := other.say("y"); err != nil {
		t.Errorf("a connection of the time of the stall: %v", err)
	}
}

func TestATargetThatIsAwayIsARefusal(t *testing.T) {
	n := begin(t)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := lis.Addr().String()
	lis.Close()
	refuses(t, n, target)
}

func TestAPairHasOneLinkAndPickIsStable(t *testing.T) {
	n, target := begin(t), echo(t)
	first, err := n.Via("a-1", "b-1", target)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := n.Via("a-1", "b-1", target); err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if again != first {
		t.Errorf("a second link: got %q, want %q", again, first)
	}
	for i := range 3 {
		if _, err := n.Via(fmt.Sprintf("a-%d", i+1), "b-2", target); err != nil {
			t.Fatal(err)
		}
	}
	for pick := range 4 {
		one, again := n.choose("a", "b", false, pick), n.choose("a", "b", false, pick+4)
		switch {
		case len(one) != 1:
			t.Errorf("pick %d chooses: len(one): got %d, want 1", pick, len(one))
		case len(again) != 1:
			t.Errorf("pick %d chooses: len(again): got %d, want 1", pick, len(again))
		case one[0] != again[0]:
			t.Errorf("pick %d chooses: one[0]: got %p, want %p", pick, one[0], again[0])
		}
	}
	if all := n.choose("a", "b", true, 0); len(all) != 4 {
		t.Errorf("all: got %d, want 4", len(all))
	}
	if none := n.Cut("b", "a", true, 0); none.Links() != 0 {
		t.Errorf("links lead the other way: got %d, want 0", none.Links())
	}
}
