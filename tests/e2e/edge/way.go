package edge

import "time"

// way is how something comes to a place: what is sent there arrives later, and nothing overtakes what was sent before it.
type way[T any] struct {
	inForce   T
	sent      T // the last one
	underWay  []sending[T]
	different func(one, other T) bool
}

type sending[T any] struct {
	due  time.Time
	load T
}

func newWay[T any](present T, different func(one, other T) bool) *way[T] {
	return &way[T]{inForce: present, sent: present, different: different}
}

// send sends something off, unless it is what was sent last.
func (w *way[T]) send(load T, due time.Time) {
	if !w.different(load, w.sent) {
		return
	}
	w.sent = load
	w.underWay = append(w.underWay, sending[T]{due, load})
}

// arrived is what is in force at this time, which never goes back.
func (w *way[T]) arrived(now time.Time) T {
	for len(w.underWay) > 0 && !w.underWay[0].due.After(now) {
		w.inForce, w.underWay = w.underWay[0].load, w.underWay[1:]
	}
	return w.inForce
}
