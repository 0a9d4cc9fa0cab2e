package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// tell tells the visitor what was met.
func tell(service string) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		told := met{
			Origin:           service,
			Host:             request.Host,
			Path:             request.URL.Path,
			Protocol:         request.Proto,
			ContentLength:    request.ContentLength,
			TransferEncoding: request.TransferEncoding,
			Connection:       request.RemoteAddr,
			HasAssertion:     request.Header.Get("Cf-Access-Jwt-Assertion") != "",
		}
		if request.TLS != nil {
			told.ServerName = request.TLS.ServerName
		}
		writer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(writer).Encode(told)
	})
}

// startOrigin runs an origin and gives the service that leads to it.
func startOrigin(t *testing.T) (service string) {
	t.Helper()
	return startOriginWith(t, func(server *httptest.Server) { server.Start() }).URL
}

// startOriginWith is startOrigin for one that is started in another way.
func startOriginWith(t *testing.T, start func(*httptest.Server)) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		tell(server.URL).ServeHTTP(writer, request)
	})
	start(server)
	t.Cleanup(server.Close)
	return server
}
