package e2e

import (
	"encoding/gob"
	"net"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/external-dns/endpoint"
)

// connector is the source of ExternalDNS: each connection is answered with all endpoints as one gob value.
type connector struct {
	address string

	mutex     sync.Mutex
	endpoints []*endpoint.Endpoint
	rotates   bool // whether each answer begins with what was second in the one before
	served    int  // connections answered since the endpoints were set last
}

func startConnector(t *testing.T) *connector {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	source := &connector{address: listener.Addr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return // closed by the clean-up
			}
			source.answer(t, connection)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return source
}

func (c *connector) answer(t *testing.T, connection net.Conn) {
	defer connection.Close()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	// An error means that ExternalDNS went away, which it does when its test ends.
	if err := gob.NewEncoder(connection).Encode(c.endpoints); err != nil {
		t.Logf("connector: %v", err)
		return
	}
	c.served++
	if c.rotates && len(c.endpoints) > 1 {
		c.endpoints = append(c.endpoints[1:len(c.endpoints):len(c.endpoints)], c.endpoints[0])
	}
}

// set changes what the sources say from the next loop on.
func (c *connector) set(endpoints ...*endpoint.Endpoint) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.endpoints = endpoints
	c.served = 0
}

// rotate answers in another order each time, as the sources of ExternalDNS do. Of endpoints with one name, set identifier and
// target it takes the first.
func (c *connector) rotate() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.rotates = true
}

// servedSinceSet counts the loops that have seen the present endpoints.
func (c *connector) servedSinceSet() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.served
}

// property is one `webhook-…` annotation.
type property struct{ name, value string }

// published is what the source of an Ingress or Service with a service URL as its target yields.
func published(hostname, service string, properties ...property) *endpoint.Endpoint {
	return annotated(endpoint.NewEndpoint(hostname, endpoint.RecordTypeCNAME, service), properties...)
}

// addressed is what the source of a LoadBalancer yields: one endpoint a family, with the object's annotations on both.
func addressed(hostname string, properties ...property) []*endpoint.Endpoint {
	return []*endpoint.Endpoint{
		annotated(endpoint.NewEndpoint(hostname, endpoint.RecordTypeA, "192.0.2.10"), properties...),
		annotated(endpoint.NewEndpoint(hostname, endpoint.RecordTypeAAAA, "2001:db8::10"), properties...),
	}
}

// annotated is an endpoint of an Ingress with these annotations. That of a wildcard says the word that publishes it.
func annotated(one *endpoint.Endpoint, properties ...property) *endpoint.Endpoint {
	one.Labels[endpoint.ResourceLabelKey] = "ingress/shop/" + one.DNSName
	if strings.HasPrefix(one.DNSName, "*.") {
		properties = append(properties, property{"tunnel-wildcard", "true"})
	}
	for _, property := range properties {
		one.SetProviderSpecificProperty("webhook/"+property.name, property.value)
	}
	return one
}
