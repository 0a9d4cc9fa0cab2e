// Package edge stands in for Cloudflare's edge before a real cloudflared.
//
// It lets cloudflared connect as a connector of a tunnel, pushes the configurations that stand at the emulator, and leads
// visitors by the records and the Access applications there. Each change takes its time to the edge. It takes none of its
// decisions from the emulator, whose own idea of what a visitor gets can so be compared with what cloudflared does.
//
// It speaks what cloudflared speaks over HTTP/2, and no QUIC: cloudflared dials, and the edge is then the client. It
// leaves out WebSockets, WARP, and everything of Access but where a login is asked for.
package edge
