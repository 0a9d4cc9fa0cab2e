package edge

import (
	"bytes"
	"encoding/json"
	"slices"
)

// State is what stands at Cloudflare, in the words of the emulator's `GET /state`.
type State struct {
	Zones   []Zone   `json:"zones"`
	Tunnels []Tunnel `json:"tunnels"`
	Access  Access   `json:"access"`
}

type Zone struct {
	Name    string   `json:"name"`
	Records []Record `json:"records"`
}

type Record struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Content string `json:"content"`
	Proxied bool   `json:"proxied"`
}

// Tunnel has the configuration of a tunnel. One that was never configured has version 0 and `null`.
type Tunnel struct {
	ID      string          `json:"id"`
	Deleted bool            `json:"deleted"`
	Version int             `json:"version"`
	Config  json.RawMessage `json:"config"`
}

type Access struct {
	Applications  []HeldApplication `json:"applications"`
	Organizations []struct {
		Team string `json:"team"`
	} `json:"organizations"`
}

// HeldApplication is an application of the account or of a zone.
type HeldApplication struct {
	Application Application `json:"application"`
}

type Application struct {
	ID           string        `json:"id"`
	Audience     string        `json:"aud"`
	Destinations []Destination `json:"destinations"`
	Policies     []Policy      `json:"policies"`
}

type Destination struct {
	Type string `json:"type"`
	URI  string `json:"uri"`
}

type Policy struct {
	Decision string `json:"decision"`
}

func sameRecords(one, other []Zone) bool {
	return slices.EqualFunc(one, other, func(one, other Zone) bool {
		return one.Name == other.Name && slices.Equal(one.Records, other.Records)
	})
}

func sameConfiguration(one, other Tunnel) bool {
	return one.Version == other.Version && bytes.Equal(one.Config, other.Config)
}

func sameAccess(one, other Access) bool {
	same := func(one, other HeldApplication) bool {
		return one.Application.ID == other.Application.ID && one.Application.Audience == other.Application.Audience &&
			slices.Equal(one.Application.Destinations, other.Application.Destinations) &&
			slices.Equal(one.Application.Policies, other.Application.Policies)
	}
	return slices.Equal(one.Organizations, other.Organizations) && slices.EqualFunc(one.Applications, other.Applications, same)
}
