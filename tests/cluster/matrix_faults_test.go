package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"external-dns-cloudflare-tunnel-webhook/harness"
)

// What each version makes of a webhook that fails, and of one that refuses.

var faultTrials = []trial{
	{"silence", []string{"A call that is not answered ends it"}, meetsSilence},
	{"failure", []string{"It lives on when it is answered 503, and goes on afterwards"}, livesThroughFailures},
	{"absence", []string{
		"It asks for adjustments in every loop, also where nothing changes",
		"It lives on while the program is away",
	}, livesThroughAbsence},
	{"large answer", []string{"It reads an answer of more than 32 MiB"}, readsLargeAnswers},
	{"refusal", []string{"It asks again, in every loop, for what was refused"}, asksAgain},
	{"names", []string{
		"It asks for `application/external.dns.webhook+json;version=1`",
		"The name of the list of creations",
	}, namesWhatItWants},
}

func livesThroughFailures(t *testing.T, bench *bench) []string {
	bench.has(t, ingressOf("before", targetOf("before")))
	pod, known := bench.starts(t, nil, "--source=ingress")
	if !known {
		t.Fatal("it does not know the source")
	}
	pod.settles(t)
	bench.cloudflare.Ask(t, "POST", "/faults", map[string]any{
		"path": "/**", "fault": map[string]any{"status": 500, "body": `{"success":false,"errors":[{"code":1000,"message":"emulated"}]}`},
	}, nil)
	const failures = "external_dns_webhook_provider_records_errors_total"
	failed := within(patience, func() bool {
		count, err := pod.Metric(failures)
		return pod.HasEnded() || err == nil && count >= 3
	})
	if pod.HasEnded() {
		return []string{no}
	}
	if !failed {
		t.Error("three loops have not failed")
	}
	bench.cloudflare.Ask(t, "DELETE", "/faults", nil, nil)
	bench.has(t, ingressOf("after", targetOf("after")))
	return []string{cell(within(patience, func() bool { return bench.servesOwn(t, "after") }) && !pod.HasEnded())}
}

func livesThroughAbsence(t *testing.T, bench *bench) []string {
	pod, known := bench.starts(t, nil, "--source=ingress")
	if !known {
		t.Fatal("it does not know the source")
	}
	pod.rests(t)
	const adjustments = "external_dns_webhook_provider_adjustendpoints_requests_total"
	before := pod.MustMetric(t, adjustments)
	pod.settles(t)
	asked := pod.MustMetric(t, adjustments) > before
	pod.program.Stop(t)
	return []string{cell(asked), cell(!within(negativePatience, pod.HasEnded))}
}

func asksAgain(t *testing.T, bench *bench) []string {
	bench.has(t, ingressOf("intranet", targetOf("intranet")))
	pod, known := bench.starts(t, nil, "--source=ingress")
	if !known {
		t.Fatal("it does not know the source")
	}
	awaitLine(t, pod, `hostname="`+held+`"`, "refused=record_held")
	asked := pod.MustMetric(t, harness.ApplyCalls)
	again := within(negativePatience, func() bool { return pod.MustMetric(t, harness.ApplyCalls) >= asked+3 })
	bench.givesUp(t, held)
	return []string{cell(again && within(patience, func() bool { return bench.servesOwn(t, "intranet") }))}
}

// standIn is a webhook that does as it is told, and says what it is asked.
type standIn struct {
	address string
	accepts atomic.Pointer[string] // what the negotiation asked for
	adjusts chan struct{}          // a call to adjust
	changes chan []byte            // a call to apply, its body
}

const mediaType = "application/external.dns.webhook+json;version=1"

// startStandIn answers the reading of records as it is given.
func startStandIn(t *testing.T, records http.HandlerFunc) *standIn {
	t.Helper()
	made := &standIn{adjusts: make(chan struct{}, 1000), changes: make(chan []byte, 1000)}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /records", records)
	routes.HandleFunc("POST /records", func(answer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		made.changes <- body
		answer.WriteHeader(http.StatusNoContent)
	})
	routes.HandleFunc("POST /adjustendpoints", func(answer http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		answer.Header().Set("Content-Type", mediaType)
		_, _ = answer.Write(body)
		made.adjusts <- struct{}{}
	})
	routes.HandleFunc("GET /{$}", func(answer http.ResponseWriter, request *http.Request) {
		accepts := request.Header.Get("Accept")
		made.accepts.Store(&accepts)
		answer.Header().Set("Content-Type", mediaType)
		_, _ = answer.Write([]byte("{}"))
	})
	server := httptest.NewServer(routes)
	t.Cleanup(server.Close)
	made.address = server.Listener.Addr().String()
	return made
}

// meets has the version run beside the stand-in, with a source that makes hostnames up.
func (b *bench) meets(t *testing.T, webhook *standIn) *harness.ExternalDNS {
	t.Helper()
	return harness.LaunchExternalDNS(t, b.binaries[b.version], b.arguments(t, webhook.address, "--source=fake")...)
}

func meetsSilence(t *testing.T, bench *bench) []string {
	gaveUp, enough := make(chan time.Duration, 1000), make(chan struct{})
	silent := startStandIn(t, func(_ http.ResponseWriter, request *http.Request) {
		begun := time.Now()
		select {
		case <-request.Context().Done():
			gaveUp <- time.Since(begun)
		case <-enough:
		}
	})
	started := bench.meets(t, silent)
	ended := within(silence, started.HasEnded)
	close(enough) // A version that waits for ever does not end on SIGTERM either.
	if !ended {
		return []string{no}
	}
	select {
	case waited := <-gaveUp:
		return []string{fmt.Sprintf("after %.0f s", waited.Round(5*time.Second).Seconds())}
	case <-time.After(patience):
		t.Fatal("it ended without a call")
		return nil
	}
}

// silence is longer than any version is known to wait.
const silence = 25 * time.Second

func readsLargeAnswers(t *testing.T, bench *bench) []string {
	var asked atomic.Bool
	large := startStandIn(t, func(answer http.ResponseWriter, _ *http.Request) {
		asked.Store(true)
		answer.Header().Set("Content-Type", mediaType)
		_, _ = answer.Write([]byte("["))
		_, _ = answer.Write(bytes.Repeat([]byte(" "), 32<<20))
		_, _ = answer.Write([]byte("]"))
	})
	started := bench.meets(t, large)
	if !within(patience, func() bool { return started.HasEnded() || len(large.adjusts) > 0 }) || !asked.Load() {
		t.Error("it neither goes on nor ends")
	}
	return []string{cell(len(large.adjusts) > 0)}
}

func namesWhatItWants(t *testing.T, bench *bench) []string {
	webhook := startStandIn(t, func(answer http.ResponseWriter, _ *http.Request) {
		answer.Header().Set("Content-Type", mediaType)
		_, _ = answer.Write([]byte("[]"))
	})
	started := bench.meets(t, webhook)
	if !within(patience, func() bool { return started.HasEnded() || len(webhook.changes) > 0 }) || started.HasEnded() {
		t.Fatal("it asks for no change")
	}
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(<-webhook.changes, &changes); err != nil {
		t.Fatal(err)
	}
	for name, list := range changes {
		if string(list) != "null" {
			return []string{cell(*webhook.accepts.Load() == mediaType), "`" + name + "`"}
		}
	}
	t.Fatal("it asks for nothing")
	return nil
}
