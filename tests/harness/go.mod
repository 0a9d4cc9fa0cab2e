module external-dns-cloudflare-tunnel-webhook/harness

go 1.26.6
