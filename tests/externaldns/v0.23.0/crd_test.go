package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/external-dns/apis/v1alpha1"
	"sigs.k8s.io/external-dns/endpoint"
	kubeclient "sigs.k8s.io/external-dns/pkg/client"
	"sigs.k8s.io/external-dns/plan"
	"sigs.k8s.io/external-dns/registry"
	"sigs.k8s.io/external-dns/registry/crd"
)

// What tests/support holds its model of the registry crd to. A loop of that one goes by what it wrote down in the loops
// before, so each line is a history of several.
const historiesFile = "../crd_histories.json"

const (
	histories = 20
	turns     = 6
	patience  = 30 * time.Second
)

var kubeconfig = flag.String("kubeconfig", "", "of an administrator of a Kubernetes API that serves DNSRecords")

type history struct {
	Policy string  `json:"policy"`
	Turns  []*turn `json:"turns"`
}

// turn is one loop of the controller. What the registry takes for published, what the webhook is asked for, and
// whether the loop failed, the real one says; the rest is made up.
type turn struct {
	Desired []*endpoint.Endpoint `json:"desired"`
	// The call to the webhook that fails: apply, or the records that are read after it.
	Fault   string               `json:"fault"`
	Shown   []*endpoint.Endpoint `json:"shown"`
	Current []*endpoint.Endpoint `json:"current"`
	Changes *plan.Changes        `json:"changes"`
	// The controller heard of the fault.
	Failed bool `json:"failed"`
}

// failing is a webhook with one call that fails.
type failing struct {
	*webhook
	fault string
}

func (f *failing) ApplyChanges(ctx context.Context, changes *plan.Changes) error {
	return errors.Join(f.webhook.ApplyChanges(ctx, changes), f.failure("apply"))
}

func (f *failing) Records(ctx context.Context) ([]*endpoint.Endpoint, error) {
	if err := f.failure("records"); err != nil {
		return nil, err
	}
	return f.webhook.Records(ctx)
}

func (f *failing) failure(call string) error {
	if f.fault == call {
		return fmt.Errorf("%s fails", call)
	}
	return nil
}

// TestHistoriesOfTheModel plays random histories to the real controller with its registry crd on a Kubernetes API.
func TestHistoriesOfTheModel(t *testing.T) {
	if *kubeconfig == "" {
		t.Skip("needs -kubeconfig: tests/e2e has a Kubernetes API")
	}
	random := rand.New(rand.NewPCG(3, 4))
	all := make([]*history, histories)
	for number := range all {
		all[number] = randomHistory(random)
	}
	// Each with a client of its own, which makes no more than five calls a second.
	t.Run("each", func(t *testing.T) {
		for number, one := range all {
			t.Run(fmt.Sprint(number), func(t *testing.T) {
				t.Parallel()
				if err := one.play(t.Context(), fmt.Sprintf("history-%d", number)); err != nil {
					t.Error(err)
				}
			})
		}
	})
	if !t.Failed() {
		compare(t, historiesFile, all)
	}
}

func (h *history) play(ctx context.Context, namespace string) error {
	api, err := newAPI(ctx, namespace)
	if err != nil {
		return err
	}
	provider := &failing{}
	registry, err := crd.NewCRDRegistry(provider, *kubeconfig, "", namespace, owner, patience)
	if err != nil {
		return err
	}
	for number, one := range h.Turns {
		if one.Current, err = api.published(ctx, registry); err != nil {
			return fmt.Errorf("turn %d: %w", number, err)
		}
		*provider = failing{&webhook{current: one.Shown}, one.Fault}
		err := newController(registry, one.Desired, h.Policy).RunOnce(ctx)
		if err != nil && one.Fault == "" {
			return fmt.Errorf("turn %d: %w", number, err)
		}
		one.Changes, one.Failed = sorted(&provider.changes), err != nil
	}
	return nil
}

// api is a namespace as the API has it, without the delay of the registry's cache.
type api struct {
	client    client.Client
	namespace string
}

func newAPI(ctx context.Context, namespace string) (*api, error) {
	config, err := kubeclient.InstrumentedRESTConfig(*kubeconfig, "", patience, 0, 0)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	// The kind's own scheme leaves out how its lists are asked for.
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	kubernetes, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	created := &corev1.Namespace{}
	created.Name = namespace
	return &api{kubernetes, namespace}, kubernetes.Create(ctx, created)
}

// published is what the registry takes for published, once its cache has all that was written.
func (a *api) published(ctx context.Context, registry registry.Registry) ([]*endpoint.Endpoint, error) {
	var records v1alpha1.DNSRecordList
	if err := a.client.List(ctx, &records, client.InNamespace(a.namespace)); err != nil {
		return nil, err
	}
	ready := []*endpoint.Endpoint{}
	for _, record := range records.Items {
		if meta.IsStatusConditionTrue(record.Status.Conditions, v1alpha1.ReadyCondition) {
			ready = append(ready, &record.Spec.Endpoint)
		}
	}
	wanted := text(byKey(ready))
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		current, err := registry.Records(ctx)
		if err != nil {
			return nil, err
		}
		if text(byKey(current)) == wanted {
			return current, nil
		}
	}
	return nil, fmt.Errorf("the registry does not see %s", wanted)
}

func randomHistory(random *rand.Rand) *history {
	one := &history{Policy: pick(random, "sync", "sync", "upsert-only")}
	var desired []*endpoint.Endpoint
	for range turns {
		desired = slices.DeleteFunc(copied(desired), func(*endpoint.Endpoint) bool { return random.IntN(4) == 0 })
		// Often nothing new, so that some turns only delete.
		for range max(0, random.IntN(5)-1) {
			desired = append(desired, randomEndpoint(random))
		}
		turn := &turn{Desired: desired, Fault: pick(random, "", "", "apply", "records", "records")}
		for range random.IntN(6) {
			turn.Shown = append(turn.Shown, randomShown(random, desired))
		}
		one.Turns = append(one.Turns, turn)
	}
	return one
}

// randomShown has labels besides those that the registry keeps. Half of it is what is wanted, at times spelled otherwise.
func randomShown(random *rand.Rand, desired []*endpoint.Endpoint) *endpoint.Endpoint {
	one := randomEndpoint(random)
	if len(desired) > 0 && random.IntN(2) == 0 {
		one = copied(desired)[random.IntN(len(desired))]
		name := strings.TrimSuffix(one.DNSName, ".")
		one.DNSName = pick(random, name, name, name+".", strings.ToUpper(name))
	}
	one.Labels["drift"] = pick(random, "", "some")
	one.Labels[endpoint.OwnerLabelKey] = pick(random, owner, "other")
	return one
}
