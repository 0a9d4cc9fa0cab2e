//! The built program as a process: exit codes, signals, and what it never says.

#![allow(clippy::panic, reason = "a helper that waits in vain fails the test")]

#[path = "support/external_dns.rs"]
mod external_dns;
#[path = "support/harness.rs"]
mod harness;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use cloudflare_emulator::{ConfigSource, Fault, Matcher, Refusal, RuleText, Visit, catch_all};
use external_dns::{ExternalDns, exchange};
use external_dns_cloudflare_tunnel_webhook::endpoint::Endpoint;
use harness::{Scene, TOKEN, endpoint, published};

const PROGRAM: &str = env!("CARGO_BIN_EXE_external-dns-cloudflare-tunnel-webhook");

/// No step of a process takes longer, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

fn program() -> Command {
    let mut command = Command::new(PROGRAM);
    command.env_clear().stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program was built")
}

#[test]
fn every_mistake_is_reported_at_once_with_exit_code_64() {
    let output = output(program().args(["--request-timeout=1h", "--log-level=loud"]));
    assert_eq!(output.status.code(), Some(64));
    let errors = String::from_utf8_lossy(&output.stderr);
    for variable in ["CF_API_TOKEN", "CF_TUNNEL_ID", "REQUEST_TIMEOUT", "LOG_LEVEL"] {
        assert!(errors.contains(variable), "{variable} is missing in:\n{errors}");
    }
}

#[test]
fn an_address_of_the_api_that_is_none_is_a_mistake_in_the_configuration() {
    let output = output(program().envs([
        ("CF_API_TOKEN", TOKEN),
        ("CF_TUNNEL_ID", "home"),
        ("CF_API_BASE_URL", "api.cloudflare.com"),
        ("SERVER_PORT", "0"),
        ("METRICS_PORT", "0"),
    ]));
    assert_eq!(output.status.code(), Some(64));
}

#[test]
fn an_unknown_flag_is_a_usage_error() {
    assert_eq!(output(program().arg("--no-such-flag")).status.code(), Some(64));
}

#[test]
fn help_and_version_go_to_standard_output() {
    for (flag, expected) in [("--help", "CF_TUNNEL_ID"), ("--version", env!("CARGO_PKG_VERSION"))] {
        let output = output(program().arg(flag));
        assert_eq!(output.status.code(), Some(0), "{flag}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(expected), "{flag}");
    }
}

#[test]
fn a_reader_of_the_help_that_goes_away_is_no_error() {
    let mut child = program().arg("--help").stdout(Stdio::piped()).spawn().expect("the program was built");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_port_that_is_taken_ends_the_program_with_a_clear_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let output = output(program().envs([
        ("CF_API_TOKEN", TOKEN),
        ("CF_TUNNEL_ID", "home"),
        ("SERVER_HOST", "127.0.0.1"),
        ("SERVER_PORT", &port),
    ]));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&port));
}

/// A running process and every line that it has said.
struct Process {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

#[allow(clippy::disallowed_methods, reason = "a process is another thread; it is waited for, with a bound")]
impl Process {
    fn start(scene: &Scene) -> Self {
        Self::start_with(scene, &[])
    }

    fn start_with(scene: &Scene, variables: &[(&str, &str)]) -> Self {
        let mut child = program()
            .envs([
                ("CF_API_TOKEN", TOKEN),
                ("CF_ACCOUNT_ID", &*scene.cloudflare.account()),
                ("CF_TUNNEL_ID", "home"),
                ("CF_API_BASE_URL", &*scene.cloudflare.base_url()),
                ("SERVER_HOST", "127.0.0.1"),
                ("SERVER_PORT", "0"),
                ("METRICS_HOST", "127.0.0.1"),
                ("METRICS_PORT", "0"),
                ("LOG_LEVEL", "trace"),
            ])
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built");
        let errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines, said: Vec::new() }
    }

    /// The process once it is ready.
    fn external_dns(&mut self) -> ExternalDns {
        let api = self.wait_for("api=").parse().expect("an address");
        let observation = self.already_said("observation=").parse().expect("an address");
        self.wait_until_ready(observation);
        ExternalDns { api }
    }

    /// The text behind `marker`, up to the next blank, in the first line that has it.
    fn wait_for(&mut self, marker: &str) -> String {
        loop {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("no {marker} in {:#?}", self.said));
            let found = line
                .split_once(marker)
                .map(|(_, rest)| rest.split(' ').next().unwrap_or_default().to_owned());
            self.said.push(line);
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// The same in what was said before.
    fn already_said(&self, marker: &str) -> String {
        let found = self.said.iter().find_map(|line| line.split_once(marker));
        let (_, rest) = found.unwrap_or_else(|| panic!("no {marker} in {:#?}", self.said));
        rest.split(' ').next().unwrap_or_default().to_owned()
    }

    fn wait_until_ready(&self, observation: SocketAddr) {
        let end = Instant::now() + PATIENCE;
        while !exchange(observation, &[b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"])
            .is_ok_and(|answer| answer.status == 200)
        {
            assert!(Instant::now() < end, "not ready: {:#?}", self.said);
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal; answers the exit code, how long it took, and everything that was said.
    fn end_with(mut self, signal: &str) -> (Option<i32>, Duration, Vec<String>) {
        let begun = Instant::now();
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().expect("kill is there").success());
        let status = self.child.wait().expect("it is our child");
        let took = begun.elapsed();
        self.said.extend(self.lines.iter());
        (status.code(), took, self.said)
    }
}

/// Pins that no log line, at any level, in good times and bad, shows the token.
#[test]
fn a_whole_run_at_trace_level_never_shows_the_token_and_a_signal_ends_it_well() {
    for signal in ["TERM", "INT"] {
        let scene = Scene::with_foreign();
        let mut process = Process::start(&scene);
        let external_dns = process.external_dns();
        let desired =
            [published("web.example.com", "http://web:80"), published("hand.example.com", "http://web:80")];
        external_dns.run_loop(&desired).expect("published");
        // What Cloudflare says may repeat what it was sent.
        let repeats = format!("the token {TOKEN} may not do this");
        scene.cloudflare.fault_every(Matcher::any(), Fault::error(403, 10000, &repeats));
        assert_eq!(external_dns.records().err(), Some(500));
        scene.cloudflare.clear_faults();
        external_dns.run_loop(&[]).expect("withdrawn");

        let (code, took, said) = process.end_with(signal);
        assert_eq!(code, Some(0), "{signal}");
        assert!(took < Duration::from_secs(1), "{signal} took {took:?}");
        assert!(
            said.iter().any(|line| line.contains("TRACE") || line.contains("DEBUG")),
            "the level was set"
        );
        for line in said {
            assert!(!line.contains(TOKEN), "{line}");
        }
    }
}

/// What is wrong with an endpoint, its properties, and the word that it is refused with.
type Bad<'a> = (&'a str, String, Vec<(&'a str, &'a str)>, &'a str);

#[test]
fn one_bad_endpoint_of_every_kind_is_refused_with_its_word_and_everything_else_goes_on() {
    let scene = Scene::new();
    let local = scene.cloudflare.add_tunnel("local");
    scene.cloudflare.add_tunnel("office");
    let theirs = r#"{"ingress":[{"hostname":"rule.example.com","service":"http://theirs:80"},{"hostname":"cover.example.com","path":"/","service":"http://theirs:80"},{"service":"http_status:503"}]}"#;
    scene.cloudflare.put_configuration(&scene.tunnel, theirs).expect("cloudflared takes it");
    let held = serde_json::json!({"name": "record.example.com", "type": "A", "content": "192.0.2.1"});
    scene.cloudflare.add_record(&scene.zone, held).expect("Cloudflare takes it");
    scene.cloudflare.edit(|cloudflare| {
        cloudflare.put_configuration(&local, &catch_all("http_status:404")).expect("a document");
        cloudflare.tunnel_mut(&local).config_source = ConfigSource::Local;
        cloudflare.whims_mut().dislike_rule(RuleText::Numbered, |rule| rule.service == "http://disliked:80");
        cloudflare.whims_mut().dislike_name(
            "disliked.example.com",
            Refusal::new(400, 9041, "This DNS record cannot be proxied."),
        );
        cloudflare.whims_mut().drops_explicit_defaults = true;
    });
    let tunnels = [("CF_TUNNEL_ID", "home,office,local"), ("EXCLUDE_DOMAIN_FILTER", "out.example.com")];
    let mut process = Process::start_with(&scene, &tunnels);
    let external_dns = process.external_dns();

    let service = ("tunnel-service", "http://web:80");
    let api = ("tunnel-path-prefix", "/api");
    let before = [
        published("kept.example.com", "http://before:80"),
        endpoint("kept.example.com", &[("tunnel-service", "http://before:80"), api]),
        endpoint("broken.example.com", &[("tunnel-service", "http://before:80"), api]),
        endpoint(
            "two-tunnels.example.com",
            &[("tunnel-service", "http://before:80"), ("tunnel", "office"), api],
        ),
    ];
    external_dns.run_loop(&before).expect("published");

    let at = |name: &str| format!("{name}.example.com");
    let bad: Vec<Bad<'_>> = vec![
        ("a service that is none", at("service"), vec![("tunnel-service", "web:80")], "invalid"),
        ("a service with a path", at("slash"), vec![("tunnel-service", "http://web:80/x")], "invalid"),
        ("no service", at("no-service"), vec![("tunnel", "home")], "invalid"),
        ("a path that Go cannot read", at("path"), vec![service, ("tunnel-path", "^/a(?!b)")], "invalid"),
        ("a prefix without a slash", at("prefix"), vec![service, ("tunnel-path-prefix", "api")], "invalid"),
        ("both kinds of path", at("both"), vec![service, api, ("tunnel-path", "^/x")], "invalid"),
        ("an unknown tunnel", at("tunnel"), vec![service, ("tunnel", "nowhere")], "invalid"),
        ("a misspelled property", at("misspelled"), vec![service, ("tunnel-pth", "^/x")], "invalid"),
        ("half of Access", at("access"), vec![service, ("access-required", "true")], "invalid"),
        ("an unknown word of Access", at("word"), vec![service, ("access-policy", "x")], "invalid"),
        (
            "rules for a proxy that are none",
            at("ip-rules"),
            vec![service, ("origin-ip-rules", "all")],
            "invalid",
        ),
        ("an option where there is no rule", at("none"), vec![("tunnel-service", "none"), api], "invalid"),
        ("a label of 64 bytes", at(&"l".repeat(64)), vec![service], "invalid"),
        ("a wildcard in the middle", "a.*.example.com".to_owned(), vec![service], "invalid"),
        ("a port", "port.example.com:443".to_owned(), vec![service], "invalid"),
        ("a blank", "two words.example.com".to_owned(), vec![service], "invalid"),
        ("a name in no zone", "web.example.net".to_owned(), vec![service], "no_zone"),
        ("a name outside the filter", at("web.out"), vec![service], "outside_filter"),
        ("a record of theirs", at("record"), vec![service], "record_held"),
        ("a rule of theirs", at("rule"), vec![service], "rule_held"),
        ("a rule of theirs that covers ours and is covered by it", at("cover"), vec![service], "edit"),
        ("a second tunnel", at("two-tunnels"), vec![service, ("tunnel", "home")], "two_tunnels"),
        ("a local tunnel", at("local"), vec![service, ("tunnel", "local")], "local_tunnel"),
        (
            "a rule that Cloudflare dislikes",
            at("rule-disliked"),
            vec![("tunnel-service", "http://disliked:80")],
            { "cloudflare" },
        ),
        ("a record that Cloudflare dislikes", at("disliked"), vec![service], "cloudflare"),
        ("an option that Cloudflare drops", at("drops"), vec![service, ("origin-no-tls-verify", "false")], {
            "altered"
        }),
        ("a path that broke", at("broken"), vec![service, ("tunnel-path-prefix", "api")], "withheld"),
    ];
    let good: Vec<Endpoint> =
        (0..10).map(|number| published(&format!("good{number}.example.com"), "http://good:80")).collect();
    let odd = endpoint("odd.example.com", &[service, ("origin-connect-timeout", "500ms")]);
    let two_tunnels = before[3].clone();
    let mut desired: Vec<Endpoint> = bad.iter().map(|(_, name, all, _)| endpoint(name, all)).collect();
    desired.extend(before[..2].iter().chain(&good).cloned().chain([two_tunnels, odd]));
    for _ in 0..2 {
        external_dns.run_loop(&desired).expect("refused by name");
    }

    let (_, _, said) = process.end_with("TERM");
    for (label, name, _, word) in &bad {
        let refused = |line: &&String| {
            line.contains(&format!("hostname={name:?} ")) && line.contains(&format!("refused={word} "))
        };
        let lines = said.iter().filter(refused).count();
        assert_eq!(lines, 1, "{label}: {name} refused={word} is said once in {said:#?}");
    }
    let left_out = said.iter().filter(|line| line.contains("odd.example.com") && line.contains("left out"));
    assert!(left_out.count() > 0, "{said:#?}");
    let service_for = |host: &str, path: &str| match scene.cloudflare.visit(host, path) {
        Visit::Served { service, .. } => service,
        other => other.to_string(),
    };
    for endpoint in &good {
        assert_eq!(service_for(&endpoint.dns_name, "/"), "http://good:80", "{}", endpoint.dns_name);
    }
    for (host, path, service) in [
        ("odd.example.com", "/", "http://web:80"),
        ("drops.example.com", "/", "http://web:80"),
        ("kept.example.com", "/", "http://before:80"),
        ("kept.example.com", "/api", "http://before:80"),
        ("broken.example.com", "/api", "http://before:80"),
        ("two-tunnels.example.com", "/api", "http://before:80"),
    ] {
        assert_eq!(service_for(host, path), service, "{host}{path}");
    }
    // Two good ones of before with three rules, one of them at the office, ten new ones, and the two odd ones.
    let ours = scene.rules().into_iter().filter(|rule| !rule.contains("theirs") && rule.contains("hostname"));
    assert_eq!(ours.count(), 3 + 10 + 2, "{:#?}", scene.rules());
}
