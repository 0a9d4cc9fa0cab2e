package e2e

import (
	"encoding/json"
	"testing"
	"time"
)

type emulator struct {
	*process
	baseURL, token, account, zone string
}

type fault struct {
	method, path                         string
	status, times                        int
	garbage, reset, hang, truncate, unanswered bool
	retryAfter                           time.Duration
}

func startEmulator(t *testing.T) *emulator                                { return &emulator{} }
func (e *emulator) get(t *testing.T, path string) json.RawMessage         { return nil }
func (e *emulator) writes(t *testing.T) []string                          { return nil }
func (e *emulator) calls(t *testing.T) []string                           { return nil }
func (e *emulator) tunnelOfAnother(t *testing.T, name string) tunnel      { return tunnel{} }
func (e *emulator) tunnelNeverConfigured(t *testing.T, name string) tunnel { return tunnel{} }
func (e *emulator) inject(t *testing.T, f fault) func(t *testing.T)       { return nil }
func (e *emulator) wasHit(t *testing.T)                                   {}
func (e *emulator) hits(t *testing.T) error                               { return nil }
