package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/external-dns/endpoint"
	"sigs.k8s.io/external-dns/pkg/apis/externaldns"
	client "sigs.k8s.io/external-dns/provider/webhook"
	webhookapi "sigs.k8s.io/external-dns/provider/webhook/api"
	"sigs.k8s.io/external-dns/registry/noop"
)

// What tests/support holds its model of a controller's reaction to.
const answersFile = "../answers.json"

// answer is one of a webhook to a call, and what the real controller makes of it: the loop is "done", or it fails "soft" and
// another one follows, or the controller "ends" and its process with it.
type answer struct {
	Call     string `json:"call"`
	Answer   string `json:"answer"`
	Reaction string `json:"reaction"`
}

const (
	garbage = "garbage"
	nothing = "nothing"
)

// TestAnswersOfTheModel gives the real controller each answer to each call.
func TestAnswersOfTheModel(t *testing.T) {
	var all []*answer
	for _, call := range []string{"records", "adjust", "apply"} {
		for _, status := range []int{200, 204, 400, 404, 429, 500, 501, 503, 510, 511} {
			all = append(all, &answer{Call: call, Answer: fmt.Sprint(status)})
		}
		all = append(all, &answer{Call: call, Answer: nothing})
		// To apply nothing is read but the status.
		if call != "apply" {
			all = append(all, &answer{Call: call, Answer: garbage})
		}
	}
	var group sync.WaitGroup
	for _, one := range all {
		group.Go(func() {
			if err := one.play(); err != nil {
				t.Errorf("%s answered %s: %v", one.Call, one.Answer, err)
			}
		})
	}
	group.Wait()
	compare(t, answersFile, all)
}

func (a *answer) play() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := httptest.NewServer(a)
	defer server.Close()
	config := &externaldns.Config{WebhookProviderURL: server.URL, WebhookProviderReadTimeout: patience, WebhookProviderWriteTimeout: patience}
	provider, err := client.New(ctx, config, nil)
	if err != nil {
		return err
	}
	registry, err := noop.New(config, provider)
	if err != nil {
		return err
	}
	made := newController(registry, []*endpoint.Endpoint{endpoint.NewEndpoint("a.example.com", endpoint.RecordTypeA, "192.0.2.10")}, "sync")
	if made.RunOnce(ctx) == nil {
		a.Reaction = "done"
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	select {
	case err := <-ended:
		if err == nil {
			return fmt.Errorf("the controller ended without an error")
		}
		a.Reaction = "ends"
	case <-time.After(5 * time.Second):
		a.Reaction = "soft"
	}
	return nil
}

func (a *answer) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	writer.Header().Set(webhookapi.ContentTypeHeader, webhookapi.MediaTypeFormatAndVersion)
	call := map[string]string{"GET /records": "records", "POST /adjustendpoints": "adjust", "POST /records": "apply"}[request.Method+" "+request.URL.Path]
	text := map[string]string{"": "{}", "records": "[]", "adjust": string(body)}[call]
	switch {
	case call != a.Call:
		if call == "apply" {
			writer.WriteHeader(http.StatusNoContent)
			return
		}
	case a.Answer == nothing:
		panic(http.ErrAbortHandler)
	case a.Answer == garbage:
		text = `[{"dnsName":`
	default:
		var status int
		fmt.Sscan(a.Answer, &status)
		writer.WriteHeader(status)
		if status == http.StatusNoContent {
			return
		}
	}
	io.WriteString(writer, text)
}
