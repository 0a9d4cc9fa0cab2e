package cluster

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// versionsPage is docs/versions.md. Of its tables those count whose columns are the versions; what a row tells, and where it
// stands, is written by hand, its cells are a run's.
type versionsPage struct {
	path  string
	lines []string
	rows  map[string]int // the line of each capability
}

func readVersionsPage(t *testing.T) *versionsPage {
	t.Helper()
	page := &versionsPage{path: "../../docs/versions.md", rows: map[string]int{}}
	text, err := os.ReadFile(page.path)
	if err != nil {
		t.Fatal(err)
	}
	page.lines = strings.Split(string(text), "\n")
	counts := false
	for index, line := range page.lines {
		cells := cellsOf(line)
		switch {
		case cells == nil:
			counts = false
		case len(cells) > 1 && slices.Equal(cells[1:], columns()):
			counts = true
		case counts && strings.Trim(line, "|-") != "":
			if _, twice := page.rows[cells[0]]; twice {
				t.Errorf("%s has two rows %q", page.path, cells[0])
			}
			page.rows[cells[0]] = index
		}
	}
	return page
}

// columns are the versions as the page has them.
func columns() (columns []string) {
	for _, version := range harness.Versions {
		columns = append(columns, strings.TrimPrefix(version, "v"))
	}
	return columns
}

// cellsOf is what stands in a line of a table; nothing, where it is no such line.
func cellsOf(line string) (cells []string) {
	inside, is := strings.CutPrefix(line, "|")
	if !is {
		return nil
	}
	for _, cell := range strings.Split(strings.TrimSuffix(inside, "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

// names checks that there is a row for each capability that is tried, and no other.
func (p *versionsPage) names(t *testing.T, trials []trial) {
	t.Helper()
	tried := map[string]bool{}
	for _, trial := range trials {
		for _, capability := range trial.capabilities {
			if _, found := p.rows[capability]; !found {
				t.Errorf("%s has no row %q in a table of %q", p.path, capability, columns())
			}
			if tried[capability] {
				t.Errorf("%q is tried twice", capability)
			}
			tried[capability] = true
		}
	}
	for row := range p.rows {
		if !tried[row] {
			t.Errorf("%s has a row that nothing tries: %q", p.path, row)
		}
	}
}

// says checks the cells of what was tried.
func (p *versionsPage) says(t *testing.T, found *findings) {
	t.Helper()
	for where, cell := range found.cells {
		index, there := p.rows[where.capability]
		if !there {
			continue // names has told.
		}
		cells := cellsOf(p.lines[index])
		column := 1 + slices.Index(harness.Versions, where.version)
		if column >= len(cells) || cells[column] != cell {
			t.Errorf("%s with ExternalDNS %s, %q: %s was seen. The page says\n%s\n`just matrix-renew` writes what is seen.",
				p.path, where.version, where.capability, cell, p.lines[index])
		}
	}
}

// renew writes the cells of what was tried.
func (p *versionsPage) renew(t *testing.T, found *findings) {
	t.Helper()
	for where, cell := range found.cells {
		index, there := p.rows[where.capability]
		if !there {
			continue
		}
		cells := cellsOf(p.lines[index])
		for len(cells) < 1+len(harness.Versions) {
			cells = append(cells, "")
		}
		cells[1+slices.Index(harness.Versions, where.version)] = cell
		p.lines[index] = fmt.Sprintf("| %s |", strings.Join(cells, " | "))
	}
	if err := os.WriteFile(p.path, []byte(strings.Join(p.lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
}
