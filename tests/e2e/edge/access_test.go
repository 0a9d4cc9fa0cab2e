package edge

import "testing"

func TestTheDestinationThatSaysMostDecides(t *testing.T) {
	access := Access{}
	for _, application := range [][]string{
		{"wildcard", "*.example.com"}, {"host", "web.example.com", "other.example.com/*"}, {"admin", "web.example.com/admin"},
		{"below", "web.example.com/shop/*"}, {"partial", "*-test.example.com"}, {"mixed", "Mixed.example.com"},
		{"younger", "web.example.com"},
	} {
		held := HeldApplication{Application{ID: application[0]}}
		for _, uri := range application[1:] {
			held.Application.Destinations = append(held.Application.Destinations,
				Destination{"public", uri}, Destination{"private", "*.example.net"})
		}
		access.Applications = append(access.Applications, held)
	}
	for request, wanted := range map[[2]string]string{
		{"web.example.com", "/"}:              "host",
		{"web.example.com", "/admin"}:         "admin",
		{"web.example.com", "/admin/users"}:   "admin",
		{"web.example.com", "/administrator"}: "host",
		{"web.example.com", "/shop"}:          "host",
		{"web.example.com", "/shop/x"}:        "below",
		{"other.example.com", "/any"}:         "host",
		{"any.example.com", "/admin"}:         "wildcard",
		{"a.b.example.com", "/"}:              "",
		{"example.com", "/"}:                  "",
		{"mixed.example.com", "/"}:            "mixed",
		{"x.example.net", "/"}:                "",
	} {
		if found, _ := guard(access, request[0], request[1]); found.ID != wanted {
			t.Errorf("%s: %q, not %q", request, found.ID, wanted)
		}
	}
}

func TestAnApplicationLetsInAVisitorWithALoginUnlessABypassLetsAllPast(t *testing.T) {
	for _, one := range []struct {
		decisions []string
		hasLogin  bool
		wanted    passage
	}{
		{nil, true, turnedAway},
		{[]string{"allow"}, false, turnedAway},
		{[]string{"allow"}, true, asserted},
		{[]string{"deny"}, true, turnedAway},
		{[]string{"allow", "bypass"}, false, free},
	} {
		application := Application{}
		for _, decision := range one.decisions {
			application.Policies = append(application.Policies, Policy{decision})
		}
		if found := application.passageOf(one.hasLogin); found != one.wanted {
			t.Errorf("%v, login %t: %d, not %d", one.decisions, one.hasLogin, found, one.wanted)
		}
	}
}
