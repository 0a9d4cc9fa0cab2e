use std::collections::BTreeMap;

use super::values::CA_POOLS;
use super::*;
use crate::cloudflare::Credentials;
use crate::ingress::{OriginOption, OriginRequest};
use crate::secret::Secret;

#[derive(Default)]
struct FakeEnvironment {
    variables: BTreeMap<&'static str, &'static str>,
    files: BTreeMap<&'static str, &'static str>,
}

impl Environment for FakeEnvironment {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).map(ToString::to_string)
    }

    fn names(&self) -> Vec<String> {
        self.variables.keys().map(ToString::to_string).collect()
    }

    fn read(&self, path: &Path, _: u64) -> io::Result<Vec<u8>> {
        let contents = path.to_str().and_then(|path| self.files.get(path));
        contents.map(|text| text.as_bytes().to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn environment(variables: &[(&'static str, &'static str)]) -> FakeEnvironment {
    FakeEnvironment {
        variables: variables.iter().copied().collect(),
        files: [("/run/token", "from-a-file\n")].into(),
    }
}

fn read(variables: &[(&'static str, &'static str)]) -> Result<Config, Vec<Mistake>> {
    Config::read(&Arguments::default(), &environment(variables))
}

const MINIMUM: [(&str, &str); 2] = [("CF_API_TOKEN", "secret-token"), ("CF_TUNNEL_ID", "home")];

fn with(variable: &'static str, value: &'static str) -> Vec<(&'static str, &'static str)> {
    MINIMUM.into_iter().chain([(variable, value)]).collect()
}

#[test]
fn a_token_and_a_tunnel_are_enough() {
    let config = read(&MINIMUM).expect("the minimum");
    assert_eq!(config.client.base_url, API_BASE_URL_DEFAULT);
    assert_eq!(&*config.provider.policy.owner, "default");
    assert_eq!(config.api_addresses, ["127.0.0.1:8888".parse().unwrap(), "[::1]:8888".parse().unwrap()]);
    assert_eq!(config.observation_address, "[::]:8080".parse().unwrap());
    assert_eq!(config.warnings, [""; 0]);
}

/// Templates write `--owner-id=` for an unset value, and a stamp needs an owner.
#[test]
fn an_empty_flag_is_an_absent_one() {
    let arguments = Arguments { owner_id: Some(" ".to_owned()), ..Arguments::default() };
    let environment = environment(&with("OWNER_ID", "cluster"));
    let config = Config::read(&arguments, &environment).expect("nothing is wrong");
    assert_eq!(&*config.provider.policy.owner, "cluster");
}

#[test]
fn a_token_in_the_place_of_its_file_is_not_repeated() {
    let mistakes = read(&[("CF_API_TOKEN_FILE", "secret-token"), ("CF_TUNNEL_ID", "home")])
        .expect_err("there is no such file");
    let text = mistakes.iter().map(ToString::to_string).collect::<String>();
    assert!(text.contains("CF_API_TOKEN_FILE") && !text.contains("secret-token"), "{text}");
    let mistakes =
        read(&[("CF_API_TOKEN", "file:/run/none"), ("CF_TUNNEL_ID", "home")]).expect_err("no file");
    assert!(mistakes[0].problem.contains("/run/none"), "{mistakes:?}");
    // It may be the token. Where it was looked for can be said.
    let mistakes = read(&[("CF_API_TOKEN", "file:none"), ("CF_TUNNEL_ID", "home")]).expect_err("no file");
    let expected = "names a file in the working folder, which cannot be read";
    assert!(mistakes[0].problem.starts_with(expected), "{mistakes:?}");
}

/// Cloudflare would answer that the headers are invalid, and what to do about that is not to make another token.
#[test]
fn a_secret_in_quotation_marks_is_a_mistake_that_says_so() {
    for token in ["\"secret-token\"", "'secret-token'", "\"secret-token", "secret-token'"] {
        let mistakes = read(&[("CF_API_TOKEN", token), ("CF_TUNNEL_ID", "home")]).expect_err(token);
        let [Mistake { variable: "CF_API_TOKEN", problem }] = &mistakes[..] else { panic!("{mistakes:?}") };
        assert_eq!(problem, "has quotation marks: take them off");
    }
}

/// Each setting that can be wrong by itself, with a wrong value and the part of the mistake that names the allowed
/// ones.
#[test]
fn a_mistake_names_the_setting_what_was_given_and_what_is_allowed() {
    let mut tried: Vec<&str> = Vec::new();
    for (variable, given, allowed) in [
        ("CF_ACCOUNT_ID", "example.com", "32 hexadecimal digits"),
        ("CF_API_EMAIL", "Jo Doe <jo@example.com>", "without blanks"),
        ("CF_API_BASE_URL", "api.cloudflare.com", "https://api.cloudflare.com/client/v4"),
        ("CF_CA_FILE", "/nowhere", "cannot be read"),
        ("CF_CA_FILE", "/run/token", "certificate"),
        ("DOMAIN_FILTER", "*.example.com", ".example.com"),
        ("DOMAIN_FILTER", "example", ".com"),
        ("EXCLUDE_DOMAIN_FILTER", "https://example.com", "example.com"),
        ("REGEXP_DOMAIN_FILTER", "(?!x)", "no look-around"),
        ("REGEXP_DOMAIN_FILTER_EXCLUSION", "a)", "at character"),
        ("ZONE_ID_FILTER", "example.com", "32 hexadecimal digits"),
        ("OWNER_ID", "an owner whose name is far too long for a comment", "has room for"),
        ("ADOPT", "everything", "tunnel, access, owner=<id> and all"),
        ("ADOPT", "owner=", "tunnel, access, owner=<id> and all"),
        ("NAMESPACE_GUARD", "1", "true and false"),
        ("ACCESS_GUARD", "on", "true and false"),
        ("CLUSTER_DOMAIN", "*.local", "wildcard"),
        ("ACCESS_GUARD", "on", "true and false"),
        ("DEFAULT_ACCESS_POLICY", "staff,,on-call", ": it names no policy between its commas"),
        ("ACCESS_OPT_OUT", "no", "true and false"),
        ("ACCESS_POLICIES", ",", "without an entry"),
        ("DEFAULT_SERVICE", "http://web:80/path", ": a service has no path"),
        ("DEFAULT_SERVICE", "http://{nmae}:80", ": braces stand around something else"),
        ("PUBLISH", "everything", "all and annotated"),
        ("DRY_RUN", "yes", "true and false"),
        ("MASS_DELETION_LIMIT", "true", "a whole number"),
        ("MASS_DELETION_LIMIT", "-1", "0 to withhold no deletion"),
        ("MOVE_GRACE", "3601s", "from 0s to 3600s"),
        ("MOVE_GRACE", "30ms", "whole seconds"),
        ("ALLOW_LOCAL_CONFIG", "on", "true and false"),
        ("REQUEST_TIMEOUT", "15s", "from 2s to 14s"),
        ("REQUEST_TIMEOUT", "soon", "from 2s to 14s"),
        ("SERVER_HOST", "nowhere", "an IP address and localhost"),
        ("SERVER_PORT", "http", "0 to 65535"),
        ("METRICS_HOST", "0.0.0.0:80", "an IP address and localhost"),
        ("METRICS_PORT", "70000", "0 to 65535"),
        ("LOG_LEVEL", "loud", "error, warn, info, debug and trace"),
        ("LOG_FORMAT", "JSON", "text and json"),
    ] {
        let mistakes = read(&with(variable, given)).expect_err(given);
        let [Mistake { variable: named, problem }] = &mistakes[..] else { panic!("{mistakes:?}") };
        assert!(*named == variable && problem.contains(&format!("{given:?}")), "{variable} {problem}");
        let (_, rest) = problem.split_once(&format!("{given:?}")).expect("it is there");
        assert!(rest.contains(allowed), "{variable} {problem}");
        tried.push(variable);
    }
    // The remaining settings are secrets or their files, accept anything, or have a test of their own.
    let untried: Vec<&str> =
        names::settings().filter(|name| !tried.contains(name) && !name.starts_with("ORIGIN_")).collect();
    assert_eq!(
        untried,
        ["CF_API_TOKEN", "CF_API_KEY", "CF_API_TOKEN_FILE", "CF_API_KEY_FILE", "CF_TUNNEL_ID"]
    );
}

/// Ignored, they would leave open what was to be closed.
#[test]
fn a_misspelled_setting_that_limits_what_is_published_is_a_mistake() {
    for (name, meant) in [
        ("NAMESPACE_GUARD_ENABLED", "NAMESPACE_GUARD"),
        ("ACESS_GUARD", "ACCESS_GUARD"),
        ("DEFAULT_ACCESS_POLICIES", "DEFAULT_ACCESS_POLICY"),
        ("MASS_DELETE_LIMIT", "MASS_DELETION_LIMIT"),
        ("DRYRUN", "DRY_RUN"),
        ("DRY_RUNN", "DRY_RUN"),
        ("OWNERID", "OWNER_ID"),
        ("EXCLUDE_DOMAIN_FILTERS", "EXCLUDE_DOMAIN_FILTER"),
    ] {
        let mistakes = read(&with(name, "x")).expect_err(name);
        let [Mistake { variable, problem }] = &mistakes[..] else { panic!("{mistakes:?}") };
        assert!(*variable == meant && problem.contains(name), "{variable} {problem}");
    }
    assert!(read(&with("METRIC_PORT", "x")).is_ok(), "any other is a warning");
}

/// `example,com` has a comma in place of its dot. As ExternalDNS reads it, every name below `com` would be served.
#[test]
fn a_whole_top_level_domain_is_served_only_if_it_is_written_with_a_dot() {
    for given in ["example,com", "com", "example.com,org.", "bücher"] {
        let mistakes = read(&with("DOMAIN_FILTER", given)).expect_err(given);
        assert_eq!(mistakes.len(), 1, "{mistakes:?}");
    }
    let config = read(&with("DOMAIN_FILTER", ".com,example.org")).expect("it is written with a dot");
    for (name, is_served) in [("shop.example.com", true), ("shop.example.org", true), ("example.net", false)]
    {
        assert_eq!(config.provider.policy.filter.matches(name), is_served, "{name}");
    }
    // Names that are not of the internet are left out so.
    assert!(read(&with("EXCLUDE_DOMAIN_FILTER", "internal,local")).is_ok());
}

/// A variable may hold 128 KiB, and long log lines are cut.
#[test]
fn a_mistake_does_not_repeat_a_long_text() {
    for text in [&"(".repeat(120_000), &"x y,".repeat(30_000), &format!("http://{}", "/".repeat(120_000))] {
        for variable in names::settings() {
            let text: &'static str = text.clone().leak();
            let said = match read(&with(variable, text)) {
                Ok(config) => config.warnings,
                Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
            };
            for line in said {
                assert!(line.len() < 1_000, "{variable}: {} bytes: {}", line.len(), &line[..200]);
            }
        }
    }
}

#[test]
fn a_default_that_the_help_names_is_the_one_that_counts() {
    let plain = format!("{:?}", read(&MINIMUM).expect("the minimum"));
    let mut tried = 0;
    for (variable, help) in Arguments::HELP {
        let Some((default, _)) = help.split_once("(default: ").and_then(|(_, rest)| rest.split_once(')'))
        else {
            continue;
        };
        // Prose such as "both loopback addresses".
        if default.contains(' ') || ["all", "nothing", "Cloudflare's"].contains(&default) {
            continue;
        }
        let said = format!("{:?}", read(&with(variable, default)).expect(variable));
        assert_eq!(said, plain, "{variable}={default}");
        tried += 1;
    }
    assert!(tried >= 11, "{tried}");
}

#[test]
fn a_mistake_or_a_warning_never_shows_a_secret() {
    for variables in [
        &[("CF_API_TOKEN", "hunter2 hunter2")][..],
        &[("CF_API_TOKEN", "hünter2hunter2")],
        &[("CF_API_TOKEN_FILE", "hunter2hunter2")],
        &[("CF_API_TOKEN", "file:hunter2hunter2")],
        &[("CF_API_TOKEN", "hunter2hunter2"), ("CF_API_KEY", "hunter2hunter2")],
        &[("CF_API_TOKEN", "a"), ("CLOUDFLARE_API_TOKEN", "hunter2hunter2")],
        &[("CF_API_KEY", "hunter2hunter2")],
        &[("CF_API_TOKN", "hunter2hunter2")],
        &[("CF_API_TOKEN", "a"), ("CF_API_BASE_URL", "https://jo:hunter2hunter2@proxy.test")],
        &[("CF_API_TOKEN", "a"), ("CF_API_BASE_URL", "https://proxy.test/?token=hunter2hunter2")],
    ] {
        let said = match read(variables) {
            Ok(config) => config.warnings.join("\n"),
            Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
        };
        assert!(!said.is_empty() && !said.contains("unter2"), "{variables:?}: {said}");
    }
}

#[test]
fn a_configuration_shows_no_secret_for_debugging() {
    for variable in ["CF_API_TOKEN", "CF_API_KEY"] {
        let variables = [("CF_TUNNEL_ID", "home"), ("CF_API_EMAIL", "jo@example.com"), (variable, "hunter2")];
        let config = read(&variables).expect("it is complete");
        let shown = format!("{config:?} {config:#?}");
        assert!(shown.contains("redacted") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn of_two_names_that_differ_the_first_counts_with_a_warning() {
    for (second, given, warnings) in [
        ("CF_TUNNEL", "home", 0),
        ("CF_TUNNEL", "office", 1),
        ("CLOUDFLARE_TUNNEL_NAME", "office", 1),
        ("CF_API_TOKEN_FILE", "/run/token", 1),
        ("CLOUDFLARE_API_TOKEN", "another-token", 1),
        ("CLOUDFLARE_API_TOKEN", "", 0),
    ] {
        let config = read(&with(second, given)).expect("it is no mistake");
        assert_eq!(config.warnings.len(), warnings, "{second}={given} {:?}", config.warnings);
        assert!(config.warnings.iter().all(|warning| warning.contains(second) && warning.contains("counts")));
        let token = Secret::parse("secret-token").expect("a well-formed secret");
        assert_eq!(config.client.credentials, Credentials::Token(token), "{second}");
        assert_eq!(config.provider.tunnels, ["home".into()], "{second}");
        assert_eq!(config.credential_file, None, "{second}");
    }
}

#[test]
fn every_option_of_a_rule_has_a_setting_for_its_default() {
    let settings = Arguments::VARIABLES.iter().filter(|variable| variable.starts_with("ORIGIN_"));
    let settings: Vec<&str> = settings.copied().filter(|variable| *variable != CA_POOLS).collect();
    assert_eq!(settings, OriginOption::all().map(OriginOption::setting).collect::<Vec<_>>());
    for option in OriginOption::all() {
        let (_, help) = Arguments::HELP.iter().find(|(name, _)| *name == option.setting()).expect("a flag");
        let annotation = option.property().replace('/', "-");
        let expected = format!("default of {annotation} [{}]", option.setting());
        assert_eq!(help.trim(), expected);
    }
}

#[test]
fn a_mistake_in_a_default_names_the_setting_what_was_given_and_what_is_allowed() {
    for (variable, given, allowed) in [
        ("ORIGIN_CONNECT_TIMEOUT", "500ms", "30s"),
        ("ORIGIN_KEEP_ALIVE_CONNECTIONS", "many", "whole number"),
        ("ORIGIN_PROXY_PORT", "65536", "65535"),
        ("ORIGIN_NO_TLS_VERIFY", "yes", "true and false"),
        ("ORIGIN_HTTP_HOST_HEADER", "two words", "without blanks"),
        ("ORIGIN_CA_POOL", "/etc\u{7}/ca.pem", "without control"),
        ("ORIGIN_CA_POOL", "ca.pem", "absolute paths such as /etc/ca.pem"),
        ("ORIGIN_PROXY_TYPE", "http", "socks"),
        ("ORIGIN_IP_RULES", "10.0.0.0/8", "\"prefix\""),
        ("ORIGIN_IP_RULES", r#"[{"prefix":"ten","allow":true}]"#, "\"prefix\""),
    ] {
        let mistakes = read(&with(variable, given)).expect_err(given);
        let [Mistake { variable: named, problem }] = &mistakes[..] else { panic!("{mistakes:?}") };
        let shown = format!("{given:?}");
        let is_shown = problem.contains(&*shown) || problem.contains("\"ten\"");
        assert!(*named == variable && is_shown && problem.contains(allowed), "{variable} {problem}");
    }
}

#[test]
fn only_absolute_paths_are_listed_as_files_of_authorities() {
    let config = read(&with("ORIGIN_CA_POOLS", " /etc/a.pem, /etc/b.pem ,")).expect("a list");
    assert_eq!(config.provider.policy.ca_pools, ["/etc/a.pem".into(), "/etc/b.pem".into()] as [Box<str>; 2]);
    assert_eq!(
        config.provider.policy.origin_defaults,
        OriginRequest::default(),
        "it is the default of no option"
    );
    for given in ["ca.pem", "/etc/a.pem,../ca.pem", "~/ca.pem", "/etc/\u{7}.pem", ","] {
        let mistakes = read(&with("ORIGIN_CA_POOLS", given)).expect_err(given);
        let [Mistake { variable: "ORIGIN_CA_POOLS", problem: _ }] = &mistakes[..] else {
            panic!("{mistakes:?}")
        };
    }
}

/// The default service of the first two differs from object to object, and is checked there.
#[test]
fn the_default_service_is_not_this_programs_own_port() {
    let default_service = |service: &'static str, port: &'static str| {
        let mut variables = with("DEFAULT_SERVICE", service);
        variables.push(("SERVER_PORT", port));
        read(&variables)
    };
    for (service, port) in
        [("http://{name}:8888", "8888"), ("http://localhost:80", "8888"), ("http://web", "80")]
    {
        default_service(service, port).expect(service);
    }
    for (service, port) in
        [("http://127.1.2.3:8888", "8888"), ("http://localhost", "80"), ("tcp://[::1]:8080", "8888")]
    {
        let mistakes = default_service(service, port).expect_err(service);
        let [Mistake { variable: "DEFAULT_SERVICE", problem }] = &mistakes[..] else {
            panic!("{mistakes:?}")
        };
        assert!(problem.contains("this program's own"), "{problem}");
    }
}

#[test]
fn everything_is_published_only_to_a_default_service() {
    let publish = |default: &'static [(&'static str, &'static str)]| {
        let all = with("PUBLISH", "all").into_iter().chain(default.iter().copied());
        read(&all.collect::<Vec<_>>())
    };
    let config = publish(&[("DEFAULT_SERVICE", "http://web")]).expect("both are there");
    assert!(config.provider.policy.publish_all);
    let mistakes = publish(&[]).expect_err("there is nothing to publish it to");
    let [Mistake { variable: "PUBLISH", problem }] = &mistakes[..] else { panic!("{mistakes:?}") };
    assert!(problem.contains("DEFAULT_SERVICE"), "{problem}");
    let config = read(&with("DEFAULT_SERVICE", "http://web")).expect("it is enough");
    assert!(!config.provider.policy.publish_all, "unless it is asked for");
}

#[test]
fn lists_and_expressions_exclude_each_other() {
    let mut variables = with("DOMAIN_FILTER", "example.com");
    variables.push(("REGEXP_DOMAIN_FILTER_EXCLUSION", "^internal"));
    let mistakes = read(&variables).expect_err("ExternalDNS would end on both");
    assert_eq!(mistakes.len(), 1, "{mistakes:?}");
}

#[test]
fn a_token_comes_from_a_file_in_both_ways() {
    for token in [("CF_API_TOKEN", "file:/run/token"), ("CLOUDFLARE_API_TOKEN_FILE", "/run/token")] {
        let config = read(&[token, ("CF_TUNNEL", "home")]).expect("the file is there");
        let expected = Secret::parse("from-a-file").expect("a well-formed secret");
        assert_eq!(config.client.credentials, Credentials::Token(expected), "{token:?}");
        assert_eq!(config.credential_file.as_deref(), Some(Path::new("/run/token")), "{token:?}");
    }
}

#[test]
fn a_port_that_kubernetes_put_there_is_ignored_with_a_warning() {
    for (variable, other, port) in [
        ("SERVER_PORT", ("CF_X", ""), 8888),
        ("PORT", ("CF_X", ""), 8888),
        ("SERVER_PORT", ("PORT", "9999"), 9999),
    ] {
        let mut variables = with(variable, "tcp://10.0.0.1:8888");
        variables.push(other);
        variables.retain(|(_, value)| !value.is_empty());
        let config = read(&variables).expect("it is no mistake");
        assert_eq!(config.api_addresses.first().map(SocketAddr::port), Some(port), "{variables:?}");
        let [warning] = &config.warnings[..] else { panic!("{:?}", config.warnings) };
        assert!(warning.contains(variable) && warning.contains("Kubernetes"), "{warning}");
    }
    let config = read(&with("ORIGIN_PROXY_PORT", "tcp://10.0.0.1:8888")).expect("it is no mistake");
    assert_eq!(
        (config.warnings.len(), config.provider.policy.origin_defaults),
        (1, OriginRequest::default())
    );
}

#[test]
fn a_setting_that_opens_more_than_usual_is_warned_of() {
    for (variable, value, advice) in [
        ("SERVER_HOST", "0.0.0.0", "leave SERVER_HOST out, or let only ExternalDNS reach the port"),
        ("ADOPT", "all", "take it off as soon as that is done"),
    ] {
        let config = read(&with(variable, value)).expect("it is possible");
        let [warning] = &config.warnings[..] else { panic!("{:?}", config.warnings) };
        assert!(warning.contains(advice), "{warning}");
    }
}

#[test]
fn a_token_that_would_be_sent_unencrypted_is_warned_of() {
    for (url, warnings) in
        [("http://proxy.test/client/v4", 1), ("http://127.0.0.1:1/v4", 0), ("https://proxy.test", 0)]
    {
        let config = read(&with("CF_API_BASE_URL", url)).expect("it is possible");
        assert_eq!(config.warnings.len(), warnings, "{url}");
    }
}

#[test]
fn a_flag_counts_before_the_environment() {
    let arguments = Arguments { cf_tunnel_id: Some("from-the-flag".into()), ..Arguments::default() };
    let config = Config::read(&arguments, &environment(&MINIMUM)).expect("both are well-formed");
    assert_eq!(config.provider.tunnels, ["from-the-flag".into()]);
}

/// A token may be in the wrong variable: an account's id is logged, and a tunnel's name is shown at `/readyz`.
#[test]
fn a_token_in_the_place_of_an_id_or_a_name_is_a_mistake_that_does_not_repeat_it() {
    const LONG: &str = "eyJhIjoiMDIzZTEwNWY0ZWNlZjhhZDljYTMxYTgzNzJkMGMzNTMiLCJ0IjoiNmZmNDJhZTItNzY1ZC00YWRmLTgxMTItMzFjNTVjMTU1MWVmIiwicyI6Ik5rTXpNekkifQ";
    for variable in ["CF_ACCOUNT_ID", "ZONE_ID_FILTER", "CF_TUNNEL_ID"] {
        let mistakes = read(&with(variable, LONG)).expect_err("it is a mistake");
        let [mistake] = &mistakes[..] else { panic!("{variable}: {mistakes:?}") };
        assert_eq!(mistake.variable, variable);
        assert!(!mistake.problem.contains(LONG), "{mistake}");
    }
}

/// A template with empty values leaves such a list. Without a filter, everything would be served.
#[test]
fn a_list_of_nothing_but_separators_is_a_mistake() {
    for variable in ["DOMAIN_FILTER", "ZONE_ID_FILTER", "CF_ACCOUNT_ID", "ADOPT"] {
        let mistakes = read(&with(variable, " , ")).expect_err("it is a mistake");
        assert_eq!(mistakes.iter().map(|mistake| mistake.variable).collect::<Vec<_>>(), [variable]);
    }
    let several = "0123456789abcdef0123456789abcdef,fedcba9876543210fedcba9876543210";
    assert!(read(&with("CF_ACCOUNT_ID", several)).is_err());
}
