package edge

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// How often the edge looks at the emulator, and at what has become due. It misses what stands there for a shorter time.
const glance = 10 * time.Millisecond

// The status of Cloudflare's own errors, such as 1033.
const statusOfEdge = 530

// Emulator is what the edge keeps itself in step with.
type Emulator interface {
	// State is what stands there.
	State() (State, error)
	// Applied is told which version of a tunnel's configuration all of its connectors have in force, and how many
	// connectors there are.
	Applied(tunnel string, version, connectors int) error
}

// Delays are the longest times that changes take to where visitors meet them: configurations to each connector, records to
// the resolvers, applications to the edge. Each change takes a random part of it.
type Delays struct{ Configurations, Records, Applications time.Duration }

// Push is a configuration that cloudflared was given. It took it if the version in force afterwards is this one.
type Push struct {
	Tunnel  Tunnel
	Applied int
}

func (p Push) IsRefused() bool { return p.Applied != p.Tunnel.Version }

// Edge is where connectors and visitors come together.
type Edge struct {
	emulator    Emulator
	report      func(format string, arguments ...any)
	certificate []byte
	tls         *tls.Config
	key         *rsa.PrivateKey
	listeners   []net.Listener
	stop        context.CancelFunc
	stopped     sync.WaitGroup

	telling sync.Mutex

	mutex      sync.Mutex
	random     *rand.Rand
	delays     Delays
	state      State
	records    *way[[]Zone]
	access     *way[Access]
	connectors []*connector
	pushes     []Push
}

// Start lets connectors come, and follows the emulator.
func Start(emulator Emulator, report func(format string, arguments ...any)) (*Edge, error) {
	// The same numbers in every run: what a test meets may not depend on the run.
	edge := &Edge{emulator: emulator, report: report, random: rand.New(rand.NewPCG(1, 1))}
	if err := edge.makeKeys(); err != nil {
		return nil, err
	}
	state, err := emulator.State()
	if err != nil {
		return nil, err
	}
	edge.state = state
	edge.records = newWay(state.Zones, func(one, other []Zone) bool { return !sameRecords(one, other) })
	edge.access = newWay(state.Access, func(one, other Access) bool { return !sameAccess(one, other) })
	ctx, stop := context.WithCancel(context.Background())
	edge.stop = stop
	for _, answer := range []func(context.Context, net.Conn){
		edge.attach,
		func(_ context.Context, connection net.Conn) { edge.proxy(connection) },
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			edge.Close()
			return nil, err
		}
		edge.listeners = append(edge.listeners, listener)
		edge.stopped.Go(func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return // closed
				}
				edge.stopped.Go(func() {
					defer context.AfterFunc(ctx, func() { _ = connection.Close() })()
					answer(ctx, connection)
				})
			}
		})
	}
	edge.stopped.Go(func() { edge.follow(ctx) })
	return edge, nil
}

// Close ends it. Connectors lose their connections.
func (e *Edge) Close() {
	e.stop()
	for _, listener := range e.listeners {
		_ = listener.Close()
	}
	e.stopped.Wait()
}

// Address is where connectors dial.
func (e *Edge) Address() string { return e.listeners[0].Addr().String() }

// Proxy is where a connector finds the teams of Access, as its HTTPS_PROXY.
func (e *Edge) Proxy() string { return "http://" + e.listeners[1].Addr().String() }

// Certificate is that of the authority which connectors have to trust, as PEM.
func (e *Edge) Certificate() []byte { return e.certificate }

// SetDelays is for what changes from now on.
func (e *Edge) SetDelays(delays Delays) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.delays = delays
}

// Pushes is every configuration that a connector was given, in their order.
func (e *Edge) Pushes() []Push {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return slices.Clone(e.pushes)
}

// Lags says what of the emulator's present state has not arrived everywhere, or is not yet where it ought to be pushed.
func (e *Edge) Lags() error {
	state, err := e.emulator.State()
	if err != nil {
		return err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if !sameRecords(e.records.inForce, state.Zones) || len(e.records.underWay) > 0 {
		return errors.New("records are under way")
	}
	if !sameAccess(e.access.inForce, state.Access) || len(e.access.underWay) > 0 {
		return errors.New("applications are under way")
	}
	for _, connected := range e.connectors {
		connected.mutex.Lock()
		pushed := connected.pushed
		connected.mutex.Unlock()
		for _, tunnel := range state.Tunnels {
			if tunnel.ID == connected.tunnel && tunnel.Version != pushed {
				return fmt.Errorf("version %d of tunnel %s is under way", tunnel.Version, tunnel.ID)
			}
		}
	}
	return nil
}

// Connectors is how many there are of a tunnel.
func (e *Edge) Connectors(tunnel string) int {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	_, count := e.inForce(tunnel)
	return count
}

// attach serves a connection of a cloudflared as long as it lasts.
func (e *Edge) attach(ctx context.Context, connection net.Conn) {
	secured := tls.Server(connection, e.tls)
	defer secured.Close()
	if err := secured.HandshakeContext(ctx); err != nil {
		e.report("a connector: %v", err)
		return
	}
	err := connect(ctx, secured, e.register, e.unregister)
	e.report("a connector has gone: %v", err)
}

// register takes a connector in. It begins with the configuration that stands at the emulator.
func (e *Edge) register(connected *connector) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	connected.configurations = newWay(e.configurationOf(connected.tunnel), func(one, other Tunnel) bool {
		return !sameConfiguration(one, other)
	})
	e.connectors = append(e.connectors, connected)
}

func (e *Edge) unregister(gone *connector) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.connectors = slices.DeleteFunc(e.connectors, func(one *connector) bool { return one == gone })
}

func (e *Edge) configurationOf(tunnel string) Tunnel {
	for _, one := range e.state.Tunnels {
		if one.ID == tunnel && !one.Deleted {
			return one
		}
	}
	return Tunnel{ID: tunnel}
}

// follow keeps the edge in step with the emulator.
func (e *Edge) follow(ctx context.Context) {
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		state, err := e.emulator.State()
		if err != nil {
			if ctx.Err() == nil {
				e.report("the emulator: %v", err)
			}
			continue
		}
		e.look(state, time.Now())
	}
}

// look sends off what has changed, and pushes what has arrived.
func (e *Edge) look(state State, now time.Time) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	after := func(longest time.Duration) time.Time {
		return now.Add(time.Duration(e.random.Int64N(int64(longest) + 1)))
	}
	e.state = state
	e.records.send(state.Zones, after(e.delays.Records))
	e.access.send(state.Access, after(e.delays.Applications))
	e.records.arrived(now)
	e.access.arrived(now)
	for _, connected := range e.connectors {
		connected.configurations.send(e.configurationOf(connected.tunnel), after(e.delays.Configurations))
		arrived := connected.configurations.arrived(now)
		connected.mutex.Lock()
		isDue := !connected.pushing && connected.pushed != arrived.Version
		connected.pushing = connected.pushing || isDue
		connected.mutex.Unlock()
		if isDue {
			e.stopped.Go(func() { e.push(connected, arrived) })
		}
	}
}

func (e *Edge) push(connected *connector, configuration Tunnel) {
	applied, err := connected.push(configuration)
	connected.mutex.Lock()
	connected.pushing = false
	if err == nil {
		connected.pushed, connected.applied = configuration.Version, applied
	}
	connected.mutex.Unlock()
	if err != nil {
		e.report("version %d of tunnel %s: %v", configuration.Version, configuration.ID, err)
		return
	}
	// One after another, so that the emulator is told the newest last.
	e.telling.Lock()
	defer e.telling.Unlock()
	e.mutex.Lock()
	e.pushes = append(e.pushes, Push{configuration, applied})
	oldest, count := e.inForce(connected.tunnel)
	e.mutex.Unlock()
	if err := e.emulator.Applied(connected.tunnel, oldest, count); err != nil {
		e.report("version %d of tunnel %s: %v", oldest, connected.tunnel, err)
	}
}

// inForce is the oldest version that a connector of the tunnel has in force, and how many connectors there are.
func (e *Edge) inForce(tunnel string) (oldest, count int) {
	for _, connected := range e.connectors {
		if connected.tunnel != tunnel {
			continue
		}
		connected.mutex.Lock()
		if count == 0 || connected.applied < oldest {
			oldest = connected.applied
		}
		connected.mutex.Unlock()
		count++
	}
	return oldest, count
}

// ServeHTTP answers a visitor. What the edge itself answers is told in the emulator's words.
func (e *Edge) ServeHTTP(writer http.ResponseWriter, visitor *http.Request) {
	host := strings.ToLower(visitor.Host)
	e.mutex.Lock()
	now := time.Now()
	zones, access := e.records.arrived(now), e.access.arrived(now)
	e.mutex.Unlock()
	led := resolve(zones, host)
	refuse := func(text string) { http.Error(writer, text, statusOfEdge) }
	assertion := ""
	if application, guarded := guard(access, host, visitor.URL.Path); guarded && led.proxied && len(access.Organizations) > 0 {
		team := access.Organizations[0].Team
		switch application.passageOf(hasLogin(visitor)) {
		case turnedAway:
			writer.Header().Set("Location", loginAddress(team, host))
			http.Error(writer, "turned away by application "+application.ID, http.StatusFound)
			return
		case asserted:
			token, err := e.Token(team, application.Audience, now.Add(tokenLife))
			if err != nil {
				refuse(err.Error())
				return
			}
			assertion = token
		case free:
		}
	}
	if led.reason != "" {
		refuse(led.reason)
		return
	}
	connected, err := e.choose(led.tunnel)
	if err != nil {
		refuse(err.Error())
		return
	}
	if err := connected.serve(writer, visitor, assertion); err != nil {
		e.report("a visitor of %s: %v", host, err)
		http.Error(writer, err.Error(), http.StatusBadGateway)
	}
}

// hasLogin says whether the visitor has gone through the login: then there is a cookie of Access.
func hasLogin(visitor *http.Request) bool {
	_, err := visitor.Cookie("CF_Authorization")
	return err == nil
}

// choose is any connector of a tunnel.
func (e *Edge) choose(tunnel string) (*connector, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	var connected []*connector
	for _, one := range e.connectors {
		if one.tunnel == tunnel {
			connected = append(connected, one)
		}
	}
	if len(connected) == 0 {
		return nil, errors.New("error 1033")
	}
	return connected[e.random.IntN(len(connected))], nil
}
