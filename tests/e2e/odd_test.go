package e2e

import "strings"

// What people write, and what nobody should.

var oddServices = []string{
	"http://a", "http://a:80", "http://a:080", "http://a:65535", "http://a:65536", "http://a:0", "http://a:", "http://:80", "http://",
	"HTTP://A:80", "http://a:80/", "http://a:80/path", "http://a:80?x=1", "http://a:80#x", "http://user:secret@a:80", "http://a b:80",
	"http://[::1]:80", "http://[fe80::1%25eth0]:80", "http://[::ffff:192.0.2.1]:80", "http://::1:80", "http://192.0.2.1:80",
	"http://a_b:80", "http://ä:80", "http://xn--4ca:80", "http://a..b:80", "http://a.:80", "http://-a:80", "http://%61:80", "http://a%zz:80",
	"https://a:443", "https://a", "ws://a:80", "wss://a:443", "tcp://a:22", "tcp://a", "ssh://a:22", "rdp://a:3389", "smb://a:445",
	"ftp://a:21", "udp://a:53", "file:///etc/passwd", "javascript:alert(1)", "unix:/run/a.sock", "unix:///run/a.sock", "unix:run/a.sock",
	"unix:", "unix+tls:/run/a.sock", "unix:/run/a b.sock", "http_status:200", "http_status:404", "http_status:599", "http_status:600",
	"http_status:99", "http_status:100", "http_status:-1", "http_status:0404", "http_status:", "http_status:abc", "http_status: 404",
	"hello_world", "hello-world", "HELLO_WORLD", "bastion", "socks-proxy", "none", "a:80", "a", "localhost:8080", "//a:80", "http:/a:80",
	"http:a:80", "http//a:80", " http://a:80", "http://a:80 ", "http://a:80\t", "http://a\n:80", "http://a:80\x00", "http://\u202ea:80",
	"http://a:8o", "http://a:+80", "http://a:80:80", "http://" + strings.Repeat("a", 300) + ":80", "https://a:80\\b", "://a:80", "1http://a:80",
}

var oddPaths = []string{
	"/", "/api", "/api/", "api", "^/api", "^/api(/|$)", "/a b", "/ä", "/%C3%A9", "/a?b", "/a#b", "/a//b", "/../a", "/.", `\.png$`, `\`, `\\`,
	"(", ")", "[", "]", "{", "}", "a{2}", "a{2,1}", "a{1001}", "a{,2}", "*", "+", "?", "a**", "a*?", "(?i)a", "(?P<n>a)", "(?<n>a)", "(?:a)",
	"(?=a)", "(?!a)", "(?<=a)", `(a)\1`, `\d+`, `\pL`, `\p{Greek}`, `\p{Nope}`, `[[:alpha:]]`, `[[:nope:]]`, `[a-z&&b]`, `[z-a]`, `\Qa.b\E`,
	`\Ca`, `\x{10FFFF}`, `\x{110000}`, `\u0041`, `\Aa\z`, `\Z`, `\b`, `(?s).`, `(?x) a`, `(?-u)a`, `a|b`, "|", "^", "$", "^$", ".*", "",
	" ", "/a\n", "/a\x00", "/\u202ea", "/" + strings.Repeat("a", 2000), strings.Repeat("(", 500) + strings.Repeat(")", 500),
	strings.Repeat("(a*)*", 30), "(((a{100}){100}){100})",
}

var oddHosts = []string{
	"a.example.com", "A.EXAMPLE.COM", "a.example.com.", "a_b.example.com", "_a.example.com", "-a.example.com", "a-.example.com",
	"ä.example.com", "xn--4ca.example.com", "xn--zzzzzzz.example.com", "☃.example.com", "*.a.example.com", "*.example.com", "*",
	"a.*.example.com", "*a.example.com", "a*.example.com", "**.example.com", "*.*.example.com", "a..example.com", ".example.com",
	"a b.example.com", "a:80.example.com", "a.example.com:80", "http://a.example.com", "a.example.com/path", "1.example.com",
	"192.0.2.1", "example.org", "a.example.net", "com", "", strings.Repeat("a", 63) + ".example.com", strings.Repeat("a", 64) + ".example.com",
	strings.Repeat("a.", 120) + "example.com", "a\u200b.example.com", "a\u202e.example.com", "faß.example.com", "ſ.example.com",
	"a\n.example.com", "a\x00.example.com", "ExAmPlE.cOm", "%61.example.com", "a%2fb.example.com",
}

// The annotation, its value, and the field of originRequest that it is for.
var oddOptions = [][3]string{
	{"origin-connect-timeout", "1s", "connectTimeout"}, {"origin-connect-timeout", "0s", "connectTimeout"},
	{"origin-connect-timeout", "1m30s", "connectTimeout"}, {"origin-connect-timeout", "1.5s", "connectTimeout"},
	{"origin-connect-timeout", "-1s", "connectTimeout"}, {"origin-connect-timeout", "30", "connectTimeout"},
	{"origin-connect-timeout", "1e3", "connectTimeout"}, {"origin-connect-timeout", "500ms", "connectTimeout"},
	{"origin-connect-timeout", "9223372036", "connectTimeout"}, {"origin-connect-timeout", "9223372037", "connectTimeout"},
	{"origin-connect-timeout", "forever", "connectTimeout"}, {"origin-connect-timeout", "", "connectTimeout"},
	{"origin-tls-timeout", "10S", "tlsTimeout"}, {"origin-tcp-keep-alive", "1h", "tcpKeepAlive"}, {"origin-tcp-keep-alive", "1d", "tcpKeepAlive"},
	{"origin-keep-alive-timeout", " 1s", "keepAliveTimeout"}, {"origin-keep-alive-timeout", "٣s", "keepAliveTimeout"},
	{"origin-keep-alive-connections", "1", "keepAliveConnections"}, {"origin-keep-alive-connections", "0", "keepAliveConnections"},
	{"origin-keep-alive-connections", "-1", "keepAliveConnections"}, {"origin-keep-alive-connections", "2147483647", "keepAliveConnections"},
	{"origin-keep-alive-connections", "2147483648", "keepAliveConnections"}, {"origin-keep-alive-connections", "1.0", "keepAliveConnections"},
	{"origin-no-tls-verify", "true", "noTLSVerify"}, {"origin-no-tls-verify", "false", ""}, {"origin-no-tls-verify", "True", "noTLSVerify"},
	{"origin-no-tls-verify", "1", "noTLSVerify"}, {"origin-no-tls-verify", "yes", "noTLSVerify"}, {"origin-no-tls-verify", `"true"`, "noTLSVerify"},
	{"origin-http2-origin", "true", "http2Origin"}, {"origin-disable-chunked-encoding", "true", "disableChunkedEncoding"},
	{"origin-no-happy-eyeballs", "true", "noHappyEyeballs"}, {"origin-match-sni-to-host", "true", "matchSNItoHost"},
	{"origin-bastion-mode", "true", "bastionMode"}, {"origin-bastion-mode", "on", "bastionMode"},
	{"origin-http-host-header", "inside.test", "httpHostHeader"}, {"origin-http-host-header", "inside.test:8080", "httpHostHeader"},
	{"origin-http-host-header", "a b", "httpHostHeader"}, {"origin-http-host-header", "ä.test", "httpHostHeader"},
	{"origin-http-host-header", "a\r\nX-Injected: yes", "httpHostHeader"}, {"origin-http-host-header", "", "httpHostHeader"},
	{"origin-http-host-header", strings.Repeat("h", 5000), "httpHostHeader"}, {"origin-http-host-header", `"},"x":{"`, "httpHostHeader"},
	{"origin-server-name", "inside.test", "originServerName"}, {"origin-server-name", "*.test", "originServerName"},
	{"origin-server-name", "a b", "originServerName"}, {"origin-server-name", "192.0.2.1", "originServerName"},
	{"origin-ca-pool", "/etc/ssl/nothing.pem", "caPool"}, {"origin-ca-pool", "", "caPool"}, {"origin-ca-pool", "../x.pem", "caPool"},
	{"origin-proxy-type", "socks", "proxyType"}, {"origin-proxy-type", "", ""}, {"origin-proxy-type", "http", "proxyType"},
	{"origin-proxy-address", "127.0.0.1", "proxyAddress"}, {"origin-proxy-address", "not an address", "proxyAddress"},
	{"origin-proxy-port", "0", "proxyPort"}, {"origin-proxy-port", "65535", "proxyPort"}, {"origin-proxy-port", "65536", "proxyPort"},
	{"origin-proxy-port", "-1", "proxyPort"}, {"origin-proxy-port", "http", "proxyPort"},
	{"origin-ip-rules", `[{"prefix":"10.0.0.0/8","ports":[80,443],"allow":true}]`, "ipRules"}, {"origin-ip-rules", `[]`, ""},
	{"origin-ip-rules", `[{"prefix":"10.0.0.0/33","allow":true}]`, "ipRules"}, {"origin-ip-rules", `[{"prefix":"ten","allow":true}]`, "ipRules"},
	{"origin-ip-rules", `[{"prefix":"10.0.0.1","allow":true}]`, "ipRules"}, {"origin-ip-rules", `[{"prefix":"::/0","ports":[0],"allow":false}]`, "ipRules"},
	{"origin-ip-rules", `[{"prefix":"10.0.0.0/8","ports":[65536],"allow":true}]`, "ipRules"}, {"origin-ip-rules", `{}`, "ipRules"},
	{"origin-ip-rules", `[{"prefix":"10.0.0.0/8","ports":"80","allow":true}]`, "ipRules"}, {"origin-ip-rules", `[{}]`, "ipRules"},
	{"origin-ip-rules", `[{"prefix":"10.0.0.0/8","allow":"yes"}]`, "ipRules"}, {"origin-ip-rules", `[`, "ipRules"}, {"origin-ip-rules", `null`, "ipRules"},
	{"origin-ip-rules", `[{"prefix":"10.0.0.0/8","ports":[-1],"allow":true}]`, "ipRules"}, {"origin-ip-rules", `[null]`, "ipRules"},
	{"origin-no-such-option", "true", "noSuchOption"}, {"Origin-Connect-Timeout", "1s", "connectTimeout"}, {"origin_connect_timeout", "1s", "connectTimeout"},
	{"access-required", "true", "access"}, {"access-team-name", "my-team", "access"}, {"access-aud-tag", "a", "access"},
	{"tunnel", "no-such-tunnel", "none"}, {"tunnel-service", "http://elsewhere:80/path", "none"}, {"tunnel-path", "(", "none"},
}
