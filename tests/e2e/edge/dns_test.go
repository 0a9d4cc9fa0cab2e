package edge

import "testing"

// A name that exists, if only because something is below it, hides a wildcard above it (RFC 4592).
func TestTheRecordsLeadAVisitorAsResolversDo(t *testing.T) {
	tunnel := func(name, id string) Record {
		return Record{Name: name, Type: "CNAME", Content: id + tunnelSuffix, Proxied: true}
	}
	zones := []Zone{
		{Name: "example.com", Records: []Record{
			tunnel("*.example.com", "wild"),
			tunnel("web.example.com", "web"),
			{Name: "www.example.com", Type: "A", Content: "192.0.2.1"},
			{Name: "mail.example.com", Type: "TXT", Content: "text"},
			{Name: "printer.office.example.com", Type: "A", Content: "192.0.2.2"},
			{Name: "grey.example.com", Type: "CNAME", Content: "grey" + tunnelSuffix},
			{Name: "mixed.example.com", Type: "CNAME", Content: "mixed" + tunnelSuffix},
			tunnel("mixed.example.com", "mixed"),
			tunnel("*.deep.example.com", "deep"),
			tunnel("UPPER.example.com", "never asked for, as hosts are in lower case"),
		}},
		{Name: "sub.example.com", Records: []Record{tunnel("web.sub.example.com", "sub")}},
	}
	for host, wanted := range map[string]lead{
		"web.example.com":            {tunnel: "web", proxied: true},
		"x.web.example.com":          {reason: "NXDOMAIN"},
		"any.example.com":            {tunnel: "wild", proxied: true},
		"a.b.example.com":            {tunnel: "wild", proxied: true},
		"www.example.com":            {reason: "A 192.0.2.1"},
		"mail.example.com":           {reason: "NXDOMAIN"},
		"office.example.com":         {reason: "NXDOMAIN"},
		"fax.office.example.com":     {reason: "NXDOMAIN"},
		"x.deep.example.com":         {tunnel: "deep", proxied: true},
		"deep.example.com":           {reason: "NXDOMAIN"},
		"grey.example.com":           {reason: "error 1016"},
		"mixed.example.com":          {tunnel: "mixed", proxied: true},
		"example.com":                {reason: "NXDOMAIN"},
		"web.sub.example.com":        {tunnel: "sub", proxied: true},
		"other.sub.example.com":      {reason: "NXDOMAIN"},
		"notexample.com":             {reason: "NXDOMAIN"},
		"web.example.com.other.test": {reason: "NXDOMAIN"},
	} {
		if found := resolve(zones, host); found != wanted {
			t.Errorf("%s: %+v, not %+v", host, found, wanted)
		}
	}
}
