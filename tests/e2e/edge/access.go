package edge

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// guard is the application that decides over a request: the one with the destination that says most about it. Of equals the
// oldest counts.
func guard(access Access, host, requestPath string) (application Application, found bool) {
	best := fit{}
	for _, held := range access.Applications {
		for _, destination := range held.Application.Destinations {
			now, fits := fitOf(destination, host, requestPath)
			if fits && (!found || best.isLess(now)) {
				best, application, found = now, held.Application, true
			}
		}
	}
	return application, found
}

// fit is how much a destination says about a request.
type fit struct {
	isExact    bool // no wildcard in the host
	pathLength int
}

func (f fit) isLess(other fit) bool {
	if f.isExact != other.isExact {
		return other.isExact
	}
	return f.pathLength < other.pathLength
}

// fitOf says whether a destination is for a request. A `*` in a host is within one label; a path is for what is below it too,
// and one that ends in `/*` only for that.
func fitOf(destination Destination, host, requestPath string) (fit, bool) {
	if destination.Type != "public" {
		return fit{}, false
	}
	pattern, below, _ := strings.Cut(strings.ToLower(destination.URI), "/")
	isExact := !strings.Contains(pattern, "*")
	// In path.Match a `*` ends at a slash, as it does here at a dot.
	labels := strings.NewReplacer(".", "/")
	matches, err := path.Match(labels.Replace(pattern), labels.Replace(host))
	if err != nil || !matches {
		return fit{}, false
	}
	if below == "" || below == "*" {
		return fit{isExact: isExact}, true
	}
	folder, onlyBelow := strings.CutSuffix("/"+below, "/*")
	fits := strings.HasPrefix(requestPath, folder+"/") || !onlyBelow && requestPath == folder
	return fit{isExact: isExact, pathLength: len(folder)}, fits
}

// passage is what an application makes of a visitor.
type passage int

const (
	free       passage = iota // it asks no visitor
	asserted                  // let in with a token
	turnedAway                // to the login
)

// passageOf decides by the decisions of the policies alone: they include every visitor with a login.
func (a Application) passageOf(hasLogin bool) passage {
	with := func(decision string) bool { return slices.Contains(a.Policies, Policy{decision}) }
	switch {
	case with("bypass"):
		return free
	case hasLogin && with("allow"):
		return asserted
	default:
		return turnedAway
	}
}

// loginAddress is where Access sends a visitor without a login.
func loginAddress(team, host string) string {
	return (&url.URL{Scheme: "https", Host: team + teamSuffix, Path: "/cdn-cgi/access/login/" + host}).String()
}
