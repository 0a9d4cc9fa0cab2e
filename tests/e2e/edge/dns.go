package edge

import "strings"

// What every name of a tunnel ends with.
const tunnelSuffix = ".cfargotunnel.com"

// lead is where the records lead a visitor of a host: to a tunnel, or past all of them for a reason, which is told in the
// emulator's words.
type lead struct {
	tunnel  string
	reason  string
	proxied bool
}

// resolve follows a visitor of a host.
func resolve(zones []Zone, host string) lead {
	records := answers(zones, host)
	if len(records) == 0 {
		return lead{reason: "NXDOMAIN"}
	}
	first := records[0]
	// One proxied record of a name makes the name proxied.
	proxied := false
	for _, record := range records {
		proxied = proxied || record.Proxied
	}
	tunnel, isTunnel := strings.CutSuffix(strings.ToLower(first.Content), tunnelSuffix)
	switch {
	case !isTunnel:
		return lead{reason: first.Type + " " + first.Content, proxied: proxied}
	case !proxied:
		return lead{reason: "error 1016"}
	default:
		return lead{tunnel: tunnel, proxied: true}
	}
}

// answers is the addresses and aliases that a name has, or that the wildcard at the closest name above it has that exists
// (RFC 4592). A name exists as soon as there is any record at it or below it.
func answers(zones []Zone, host string) []Record {
	zone, found := zoneOf(zones, host)
	if !found {
		return nil
	}
	exists := func(name string) bool {
		for _, record := range zone.Records {
			if isWithin(record.Name, name) {
				return true
			}
		}
		return false
	}
	if exists(host) {
		return leading(zone.Records, host)
	}
	for name := host; ; {
		_, above, _ := strings.Cut(name, ".")
		if !isWithin(above, zone.Name) {
			return nil
		}
		if wildcard := "*." + above; exists(wildcard) {
			return leading(zone.Records, wildcard)
		}
		if exists(above) {
			return nil
		}
		name = above
	}
}

// zoneOf is the zone closest to a name.
func zoneOf(zones []Zone, host string) (closest Zone, found bool) {
	for _, zone := range zones {
		if isWithin(host, zone.Name) && len(zone.Name) > len(closest.Name) {
			closest, found = zone, true
		}
	}
	return closest, found
}

func isWithin(name, above string) bool {
	return name == above || strings.HasSuffix(name, "."+above)
}

func leading(records []Record, name string) (found []Record) {
	for _, record := range records {
		if record.Name == name && (record.Type == "A" || record.Type == "AAAA" || record.Type == "CNAME") {
			found = append(found, record)
		}
	}
	return found
}
