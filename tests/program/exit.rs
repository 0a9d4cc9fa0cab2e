//! The built program as a process: exit codes, signals, and what it never says.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use cloudflare_emulator::{Fault, Matcher, Token, TokenStatus};
use socket2::SockRef;
use test_support::harness::{Harness, TOKEN, published};
use test_support::process::{Process, built_program, program};

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
fn a_port_that_is_taken_ends_the_program_with_the_setting_that_has_to_change() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let taken_port = &*taken.local_addr().expect("it is bound").port().to_string();
    for (port, metrics_port, to_change, other) in
        [(taken_port, "0", "SERVER_PORT", "METRICS_PORT"), ("0", taken_port, "METRICS_PORT", "SERVER_PORT")]
    {
        let output = output(program().envs([
            ("CF_API_TOKEN", TOKEN),
            ("CF_TUNNEL_ID", "home"),
            ("SERVER_HOST", "127.0.0.1"),
            ("METRICS_HOST", "127.0.0.1"),
            ("SERVER_PORT", port),
            ("METRICS_PORT", metrics_port),
        ]));
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(taken_port) && said.contains(to_change) && !said.contains(other), "{said}");
    }
}

/// Exit code 64 is for what no restart mends.
#[test]
fn what_is_wrong_from_the_start_is_told_by_its_exit_code_and_shows_no_secret() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let port = taken.local_addr().expect("it is bound").port().to_string();
    let flag = format!("--cf-api-token={TOKEN}");
    let with_password = format!("https://jo:{TOKEN}@proxy.test");
    let with_proxy =
        [("HTTPS_PROXY", &*with_password), ("SERVER_HOST", "127.0.0.1"), ("SERVER_PORT", &*port)];
    for (label, arguments, variables, code) in [
        ("no configuration", &[][..], &[][..], 64),
        ("the token as a flag", &[&*flag][..], &[][..], 64),
        ("a boolean", &[], &[("DRY_RUN", "1")], 64),
        ("one port for both", &[], &[("SERVER_PORT", "8080"), ("METRICS_PORT", "8080")], 64),
        ("a name near a limit", &[], &[("DRYRUN", "true")], 64),
        ("all, and no service for it", &["--publish=all"], &[], 64),
        (
            "names near limits that Kubernetes sets, and a port that is taken",
            &[],
            &[
                ("DRYRUN_SERVICE_HOST", "10.0.0.1"),
                ("OWNER_ID_PORT_80_TCP", "tcp://10.0.0.1:80"),
                ("SERVER_HOST", "127.0.0.1"),
                ("SERVER_PORT", &port),
            ],
            1,
        ),
        ("a format", &["--log-format", "xml"], &[], 64),
        ("a flag that is none", &["--no-such-flag"], &[], 64),
        ("a password in the address", &[], &[("CF_API_BASE_URL", &*with_password)], 64),
        ("an address that is none", &[], &[("CF_API_BASE_URL", "proxy.test")], 64),
        ("a file of authorities without one", &[], &[("CF_CA_FILE", "/dev/null")], 64),
        ("a proxy of another kind", &[], &[("ALL_PROXY", &*format!("socks5://jo:{TOKEN}@proxy.test"))], 64),
        ("a proxy that is none", &[], &[("HTTPS_PROXY", &*format!("http://jo:#{TOKEN}@proxy.test"))], 64),
        ("a proxy, and a port that is taken", &[], &with_proxy, 1),
        ("the token as a level", &[], &[("LOG_LEVEL", TOKEN)], 64),
        (
            "the token where a long value is cut",
            &[],
            &[("LOG_LEVEL", &*format!("{}{TOKEN}", "x".repeat(110)))],
            64,
        ),
        ("the token as a port", &[], &[("SERVER_PORT", TOKEN)], 64),
        ("the token as a zone", &[], &[("ZONE_ID_FILTER", TOKEN)], 64),
        ("the token beside an address", &[], &[("CF_API_EMAIL", &*format!("jo@example.com {TOKEN}"))], 64),
        ("the token as a domain", &[], &[("DOMAIN_FILTER", TOKEN)], 64),
        ("a token in two lines", &[], &[("CF_API_TOKEN", &*format!("{TOKEN}\n{TOKEN}"))], 64),
        ("a token for a file", &[], &[("CF_API_TOKEN", ""), ("CF_API_TOKEN_FILE", TOKEN)], 64),
        ("a token and a key", &[], &[("CF_API_KEY", TOKEN)], 64),
        ("a port that is taken", &[], &[("SERVER_HOST", "127.0.0.1"), ("SERVER_PORT", &port)], 1),
        (
            "the same in JSON",
            &["--log-format=json"],
            &[("SERVER_HOST", "127.0.0.1"), ("SERVER_PORT", &port)],
            1,
        ),
    ] {
        let mut command = program();
        command.args(arguments).envs([("METRICS_PORT", "0"), ("LOG_LEVEL", "trace")]);
        if label != "no configuration" {
            command.envs([("CF_API_TOKEN", TOKEN), ("CF_TUNNEL_ID", "home")]);
        }
        let output = output(command.envs(variables.iter().copied()));
        assert_eq!(output.status.code(), Some(code), "{label}");
        let said = String::from_utf8_lossy(&output.stderr);
        let shows_half = said.contains(&TOKEN[..10]);
        assert!(!said.is_empty() && !shows_half, "{label}: {said}");
        assert_eq!(
            said.contains(" proxy=proxy.test:443"),
            label.starts_with("a proxy, and"),
            "{label}: {said}"
        );
    }
}

/// A pipe would be waited for, and a device need not end.
#[test]
fn a_path_that_leads_to_no_small_file_is_a_mistake_and_not_waited_for() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("process-no-small-file");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("the folder for tests can be written");
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let large = folder.join("large");
    fs::write(&large, "x".repeat(1_100_000)).expect("it is ours");
    for variable in ["CF_API_TOKEN_FILE", "CF_API_KEY_FILE", "CF_API_TOKEN", "CF_CA_FILE"] {
        for (path, problem) in [
            (&*pipe, "it is a pipe or a device"),
            (Path::new("/dev/zero"), "it is a pipe or a device"),
            (&folder, "it is a directory"),
            (&large, "it has more than"),
        ] {
            let prefix = if variable == "CF_API_TOKEN" { "file:" } else { "" };
            let named = format!("{prefix}{}", path.display());
            // Without the bounds, what reads on for ever would take the machine with it.
            let mut command = Command::new("sh");
            command
                .args(["-c", "ulimit -v 1048576 && exec timeout 60 \"$0\" check"])
                .arg(built_program())
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .envs([("CF_TUNNEL_ID", "home"), ("CF_API_EMAIL", "jo@example.com"), (variable, &*named)]);
            if variable == "CF_CA_FILE" {
                command.env("CF_API_TOKEN", TOKEN);
            }
            let output = output(&mut command);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(64), "{variable} {path:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{variable} {path:?}: {said}");
            assert!(said.starts_with(variable) && said.contains(problem), "{variable} {path:?}: {said}");
        }
    }
}

/// As process 1 of a container, `check` would otherwise ignore the signal until Cloudflare answers.
#[test]
fn a_command_that_waits_for_cloudflare_ends_on_a_signal() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let api = format!("http://{}/client/v4", silent.local_addr().expect("it is bound"));
    let variables = [("CF_API_TOKEN", TOKEN), ("CF_TUNNEL_ID", "home"), ("CF_API_BASE_URL", &*api)];
    let mut process = program().arg("check").envs(variables).spawn().expect("the program was built");
    let _connection = silent.accept().expect("check asks for the token");
    let kill = Command::new("kill").args(["-TERM", &process.id().to_string()]).status();
    assert!(kill.expect("kill is there").success());
    assert_eq!(process.wait().expect("it ends").code(), Some(128 + 15));
}

/// What a log collector reads.
type Line = std::collections::BTreeMap<String, String>;

/// A signal, settings, and whether a second token takes the first one's place.
#[test]
fn a_whole_run_at_trace_level_never_shows_a_token_and_a_signal_ends_it_well() {
    const NEW_TOKEN: &str = "another-token-that-must-not-be-seen";
    for (signal, format) in [("TERM", "text"), ("INT", "json")] {
        let harness = Harness::with_foreign();
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("process-token-{format}"));
        fs::write(&file, TOKEN).expect("the folder for tests can be written");
        let from_file = format!("file:{}", file.display());
        let variables = [
            ("LOG_LEVEL", "trace"),
            ("LOG_FORMAT", format),
            ("CF_API_TOKEN", &from_file),
            ("CF_API_TOKN", "misspelled"),
            ("CF_SERVICE_HOST", "10.0.0.1"),
        ];
        let (process, external_dns) = Process::start_ready(&harness, &variables);
        let desired = [
            published("web.example.com", "http://web:80"),
            published("hand.example.com", "http://web:80"),
            published("forged.example.com", "http://web:80\n{\"level\":\"error\"}"),
        ];
        external_dns.run_loop(&desired).expect("published");
        // What Cloudflare says may repeat what it was sent.
        let repeats = format!("the token {TOKEN}\nmay not do this");
        harness.cloudflare.fault_every(Matcher::any(), Fault::error(403, 10000, &repeats));
        assert_eq!(external_dns.records().err(), Some(500));
        harness.cloudflare.clear_faults();
        harness.cloudflare.add_token(Token::full(NEW_TOKEN));
        harness.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).status = TokenStatus::Disabled);
        fs::write(&file, NEW_TOKEN).expect("it was written before");
        external_dns.run_loop(&[]).expect("withdrawn with the new token");

        let (code, _, said) = process.end_with(signal);
        assert_eq!(code, Some(0), "{signal}");
        let has = |texts: [&str; 2]| said.iter().any(|line| texts.iter().all(|text| line.contains(text)));
        let pair = |key: &str, value: &str| match format {
            "json" => format!("\"{key}\":\"{value}\""),
            _ => format!("{key}={value}"),
        };
        for texts in [
            [&*pair("method", "GET"), &pair("status", "200")],
            ["a new secret", "uses it from now on"],
            ["CF_API_TOKN", "is no setting"],
            ["hand.example.com", &pair("refused", "record_held")],
            [&pair("version", env!("CARGO_PKG_VERSION")), "starting"],
            [&pair("credential", "CF_API_TOKEN"), "starting"],
        ] {
            assert!(has(texts), "{format}: {texts:?} is missing in {said:#?}");
        }
        assert!(!has(["CF_SERVICE_HOST", ""]), "Kubernetes put it there");
        for line in &said {
            assert!(!line.contains(TOKEN) && !line.contains(NEW_TOKEN), "{line}");
            if format == "json" {
                let line: Line = serde_json::from_str(line).expect(line);
                assert!(["level", "target", "message"].iter().all(|key| line.contains_key(*key)), "{line:?}");
                assert_ne!(line["level"], "TRACE", "levels are words in lower case");
            } else {
                let level = line.split(' ').next().unwrap_or_default();
                assert!(["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].contains(&level), "{line}");
            }
        }
        if format == "json" {
            let lines = said.iter().filter_map(|line| serde_json::from_str::<Line>(line).ok());
            let refused = lines.filter(|line| line.get("refused").is_some_and(|word| word == "record_held"));
            let hostnames: Vec<String> = refused.map(|line| line["hostname"].clone()).collect();
            assert_eq!(hostnames, ["hand.example.com"]);
        }
    }
}

/// The end of the log's collector must not be the end of the work.
#[test]
fn a_closed_standard_error_is_no_reason_to_fail() {
    for format in ["text", "json"] {
        let harness = Harness::new();
        let (mut process, external_dns) =
            Process::start_ready(&harness, &[("LOG_LEVEL", "debug"), ("LOG_FORMAT", format)]);
        process.close_standard_error();
        for desired in [&[published("web.example.com", "http://web:80")][..], &[]] {
            external_dns.run_loop(desired).expect("answered");
        }
        let (code, ..) = process.end_with("TERM");
        assert_eq!(code, Some(0), "{format}");
    }
}

/// tiny_http panics over each, in a thread that has nothing else to do.
#[test]
fn a_client_that_resets_at_once_is_no_line_in_the_log() {
    let harness = Harness::new();
    let (process, external_dns) = Process::start_ready(&harness, &[]);
    for _ in 0..300 {
        let mut client = TcpStream::connect(external_dns.api).expect("it listens");
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is connected");
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("an option of every socket");
    }
    external_dns.run_loop(&[published("web.example.com", "http://web:80")]).expect("answered");
    let (code, _, said) = process.end_with("TERM");
    assert_eq!(code, Some(0));
    assert!(!said.iter().any(|line| line.contains("panic")), "{said:#?}");
}

#[test]
fn the_start_says_what_will_be_managed() {
    let harness = Harness::new();
    let variables = [
        ("CF_TUNNEL_ID", "home,office \"2\""),
        ("OWNER_ID", "cluster"),
        ("ADOPT", "tunnel"),
        ("DEFAULT_ACCESS_POLICY", "staff"),
        ("NAMESPACE_GUARD", "true"),
        ("ACCESS_GUARD", "true"),
        ("DRY_RUN", "true"),
        ("MASS_DELETION_LIMIT", "0"),
        ("DEFAULT_SERVICE", "http://{name}:80"),
        ("PUBLISH", "all"),
        ("DOMAIN_FILTER", "example.com"),
        ("LOG_FORMAT", "json"),
    ];
    let office = harness.cloudflare.add_tunnel("office \"2\"");
    let (process, _) = Process::start_ready(&harness, &variables);
    let (.., said) = process.end_with("TERM");
    let lines: Vec<Line> = said.iter().map(|line| serde_json::from_str(line).expect(line)).collect();
    let managing = lines.iter().find(|line| line.contains_key("tunnels")).expect("it is said");
    let tunnels = format!("home ({}),office \"2\" ({office})", harness.tunnel);
    for (key, value) in [
        ("level", "info"),
        ("tunnels", &*tunnels),
        ("account", &harness.cloudflare.account()),
        ("owner", "cluster"),
        ("filter", r#"{"exclude":[],"include":["example.com"]}"#),
    ] {
        assert_eq!(managing.get(key).map(String::as_str), Some(value), "{managing:?}");
    }
    for text in [
        "--registry=noop; --registry=txt works too",
        "DRY_RUN is set",
        "ADOPT is set",
        "--gateway-name, --label-filter, --annotation-filter",
        "loses its annotations gets DEFAULT_SERVICE",
        "MASS_DELETION_LIMIT is 0",
    ] {
        assert!(lines.iter().any(|line| line["message"].contains(text)), "{text} is missing in {said:#?}");
    }
    assert!(lines.iter().any(|line| line.get("zones").is_some_and(|zones| zones == "example.com")));
}
