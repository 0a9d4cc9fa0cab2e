package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// The museum of accidents: what happened to users of ExternalDNS, of Cloudflare Tunnel and of programs between the two,
// each played again with the real ExternalDNS. docs/museum.md has the rows that a run prints.

// exhibit is one accident. Its replay fails where this program falls into the same hole, and says else what happened.
type exhibit struct {
	threads  []string // owner/repository#number; the first tells the accident
	accident string
	replay   func(t *testing.T) (outcome string)
}

// largeExhibits have thousands of hostnames, or an older ExternalDNS that has to be built.
var largeExhibits = []exhibit{
	{[]string{"kubernetes-sigs/external-dns#6728"},
		"ExternalDNS 0.22.0 with `--annotation-filter` reads no DNSEndpoint, without an error. One second after its start all records are deleted",
		anUpgradeThatReadsNoDNSEndpoint},
	{[]string{"kubernetes-sigs/external-dns#6666", "waifulabs/infrastructure#5690", "blackjid/home-ops#6491"},
		"ExternalDNS 0.22.0 reads annotations under another prefix. Hostnames of Services are deleted, those of Ingresses become A records of a private address",
		anUpgradeThatReadsOtherAnnotations},
	{[]string{"kubernetes-sigs/external-dns#6666"},
		"The same with a default service for what names none. 20 objects lose the annotation that keeps them out, and 13 the one that leads them through a login",
		anUpgradeUnderADefaultService},
	{[]string{"kubernetes-sigs/external-dns#6666"},
		"The same where the default service is for all objects (`PUBLISH=all`)",
		anUpgradeWhereAllIsPublished},
	{[]string{"mitodl/ol-infrastructure#5866"},
		"The same upgrade finds nothing wanted in a large cluster, and plans 8,764 deletions",
		anEmptySourceOfALargeCluster},
	{[]string{"stackitcloud/external-dns-stackit-webhook#30"},
		"8,121 hostnames make a request of 5 MB. A webhook that takes 4 MB answers 413, which ends ExternalDNS, again and again",
		aRequestOfFiveMegabytes},
}

var smallExhibits = []exhibit{
	{[]string{"kubernetes-sigs/external-dns#5971", "kubernetes-sigs/external-dns#4434", "kubernetes-sigs/external-dns#4532"},
		"Cloudflare limits the rate. ExternalDNS ends, starts anew, reads everything anew, and is limited again",
		aRateLimitThatEndsExternalDNS},
	{[]string{"kubernetes-sigs/external-dns#4876", "kubernetes-sigs/external-dns#5225", "kubernetes-sigs/external-dns#4315"},
		"Cloudflare answers 500 and 502 for a while, and ExternalDNS ends each time",
		serverErrorsThatEndExternalDNS},
	{[]string{"STRRL/cloudflare-tunnel-ingress-controller#287", "STRRL/cloudflare-tunnel-ingress-controller#322"},
		"Rules are sorted by the length of their hostnames, so `*.example.com` takes the requests of `test.example.com`",
		aWildcardThatShadows},
	{[]string{"STRRL/cloudflare-tunnel-ingress-controller#97"},
		"A second cluster is set up with the first one's tunnel, and each sees only the information of the other",
		twoClustersWithOneTunnel},
	{[]string{"STRRL/cloudflare-tunnel-ingress-controller#97"},
		"The same, where both clusters were set up from one guide and have one owner",
		twoClustersWithOneOwner},
	{[]string{"STRRL/cloudflare-tunnel-ingress-controller#293", "STRRL/cloudflare-tunnel-ingress-controller#274"},
		"Each hostname brings a TXT record that does not show its purpose in the dashboard, and no switch turns them off",
		unwantedTexts},
	{[]string{"adyanth/cloudflare-operator#179", "petauron/vastora#210"},
		"A tunnel is made without a look, so that a lost answer or a second replica makes it twice, or never again",
		aTunnelMadeTwice},
	{[]string{"ChrispyBacon-dev/DockFlare#386"},
		"A restarted container has its tunnel's configuration written from labels alone, and rules made by hand are gone",
		rulesByHandThatAreWiped},
	{[]string{"ChrispyBacon-dev/DockFlare#399"},
		"An object names a policy that Access does not have, and the application loses the policies that it has",
		anUnknownPolicyThatStripsTheOthers},
	{[]string{"cloudflare/cloudflared#1437"},
		"A configuration can only be replaced as a whole, so several teams cannot each keep their own rules in a tunnel",
		severalTeamsWithOneTunnel},
}

func TestMuseum(t *testing.T) {
	t.Parallel()
	replayAll(t, smallExhibits)
}

// TestMuseumLarge is a part of the night, `just museum-large`.
func TestMuseumLarge(t *testing.T) {
	// It is built here, because the exhibits wait no longer than for a state.
	if _, err := harness.BuildExternalDNSOf(faulty); err != nil {
		t.Fatal(err)
	}
	replayAll(t, largeExhibits)
}

func replayAll(t *testing.T, exhibits []exhibit) {
	t.Helper()
	table := &table{}
	t.Run("exhibits", func(t *testing.T) {
		for _, one := range exhibits {
			t.Run(one.threads[0], func(t *testing.T) {
				t.Parallel()
				if outcome := one.replay(t); !t.Failed() {
					table.add(one, outcome)
				}
			})
		}
	})
	fmt.Printf("\n%s\n", table)
	table.isOnThePage(t)
}

// table is what a run found out, in the order of the exhibits.
type table struct {
	mutex sync.Mutex
	rows  map[string]string // by the accident
}

func (t *table) add(one exhibit, outcome string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.rows == nil {
		t.rows = map[string]string{}
	}
	t.rows[one.accident] = fmt.Sprintf("| %s | %s | %s |", links(one.threads), one.accident, outcome)
}

// links are the threads as they stand on the page.
func links(threads []string) string {
	var links []string
	for _, thread := range threads {
		repository, number, _ := strings.Cut(thread, "#")
		links = append(links, fmt.Sprintf("[%s](https://github.com/%s/issues/%s)", thread, repository, number))
	}
	return strings.Join(links, ", ")
}

func (t *table) String() string {
	lines := []string{"| thread | accident | here |", "|---|---|---|"}
	for _, one := range slices.Concat(largeExhibits, smallExhibits) {
		if row, found := t.rows[one.accident]; found {
			lines = append(lines, row)
		}
	}
	return strings.Join(lines, "\n")
}

// isOnThePage checks that docs/museum.md has these rows, and no row of an exhibit that is not there.
func (t *table) isOnThePage(test *testing.T) {
	test.Helper()
	root, err := harness.Root()
	if err != nil {
		test.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "museum.md"))
	if err != nil {
		test.Fatal(err)
	}
	lines := strings.Split(string(page), "\n")
	for _, row := range t.rows {
		if !slices.Contains(lines, row) {
			test.Errorf("docs/museum.md lacks\n%s", row)
		}
	}
	for _, line := range lines {
		isOf := func(one exhibit) bool {
			return strings.HasPrefix(line, "| "+links(one.threads)+" | "+one.accident+" | ")
		}
		if strings.HasPrefix(line, "| [") && !slices.ContainsFunc(largeExhibits, isOf) && !slices.ContainsFunc(smallExhibits, isOf) {
			test.Errorf("docs/museum.md has a row of no exhibit:\n%s", line)
		}
	}
}
