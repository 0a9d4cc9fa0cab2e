package edge

import (
	"testing"
	"time"
)

func TestWhatIsSentArrivesLaterAndNothingOvertakesIt(t *testing.T) {
	begun := time.Now()
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	way := newWay("first", func(one, other string) bool { return one != other })
	way.send("first", at(1)) // no change
	way.send("second", at(5))
	way.send("third", at(2)) // no sooner than what was sent before it
	way.send("third", at(1))
	for _, look := range []struct {
		at     int
		wanted string
	}{{1, "first"}, {4, "first"}, {5, "third"}, {9, "third"}} {
		if found := way.arrived(at(look.at)); found != look.wanted {
			t.Errorf("after %d s: %s, not %s", look.at, found, look.wanted)
		}
	}
	way.send("first", at(11))
	if found := way.arrived(at(10)); found != "third" {
		t.Errorf("what is under way is there: %s", found)
	}
	if found := way.arrived(at(11)); found != "first" {
		t.Errorf("what has arrived is not there: %s", found)
	}
}
