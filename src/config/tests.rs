use super::*;
use crate::fixture::operator_settings;
use crate::ingress::OriginRequest;

fn read(given: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let given = given.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Config::read(&given.collect())
}

/// The only mistake, which begins with the setting's name.
fn mistake(given: &[(&str, &str)]) -> String {
    match read(given).expect_err("it is a mistake").as_slice() {
        [mistake] => mistake.clone(),
        mistakes => panic!("{given:?}: {mistakes:?}"),
    }
}

const MINIMUM: [(&str, &str); 2] = [("CF_API_TOKEN", "secret-token"), ("CF_TUNNEL_ID", "home")];

fn with<'a>(variable: &'a str, value: &'a str) -> Vec<(&'a str, &'a str)> {
    MINIMUM.into_iter().chain([(variable, value)]).collect()
}

#[test]
fn a_token_and_a_tunnel_are_enough() {
    let config = read(&MINIMUM).expect("the minimum");
    let read = config.provider.operator;
    let defaults =
        OperatorSettings { own_addresses: read.own_addresses.clone(), ..operator_settings("default") };
    assert_eq!(
        format!("{read:?}"),
        format!("{:?}", OperatorSettings { move_grace: Duration::from_secs(30), ..defaults })
    );
    assert_eq!(config.request_timeout, limits::REQUEST_TIMEOUT_DEFAULT);
    assert_eq!(config.api_addresses, ["127.0.0.1:8888".parse().unwrap(), "[::1]:8888".parse().unwrap()]);
    assert_eq!(config.metrics_address, "[::]:8080".parse().unwrap());
    assert_eq!(config.warnings, [""; 0]);
}

#[test]
fn a_time_is_read_as_in_an_annotation() {
    for (text, seconds) in [("90", 90), ("90s", 90), ("1m30s", 90), ("1h", 3600)] {
        let config = read(&with("MOVE_GRACE", text)).expect(text);
        assert_eq!(config.provider.operator.move_grace, Duration::from_secs(seconds), "{text}");
    }
}

#[test]
fn a_variable_counts_before_a_line_of_settings_and_a_line_before_a_further_name() {
    let lines = "\n MASS_DELETION_LIMIT = 7 \r\n \nDRY_RUN=true\n\nADOPT=\nCF_ACCOUNT_ID=0123456789abcdef0123456789abcdef\n\
                 REGEXP_DOMAIN_FILTER=^a=b$\n";
    let mut given = with("SETTINGS", lines);
    given.extend([("DRY_RUN", "false"), ("CLOUDFLARE_TUNNEL_ID", "office")]);
    let config = read(&given).expect("all of it is well");
    assert_eq!((config.provider.operator.mass_deletion_limit, config.provider.dry_run), (7, false));
    assert!(config.provider.account.is_some());
    let further = [("SETTINGS", "DOMAIN_FILTER=example.com"), ("DOMAIN_FILTERS", "example.org")];
    let both: Vec<_> = MINIMUM.into_iter().chain(further).collect();
    assert_eq!(mistake(&both), "DOMAIN_FILTER and DOMAIN_FILTERS differ; keep DOMAIN_FILTER");
    let whole = "CF_API_TOKEN=secret-token\nCF_TUNNEL_ID=home\nMETRICS_PORT=1";
    assert_eq!(read(&[("SETTINGS", whole)]).expect("the minimum").metrics_address.port(), 1);
}

/// If a misspelled line that limits what is published were ignored, it would leave open what was to be closed.
#[test]
fn a_line_of_settings_that_names_none_is_a_mistake_that_names_the_nearest_and_shows_no_secret() {
    for (lines, expected) in [
        ("DRYRUN=true", "SETTINGS has \"DRYRUN\", which is no setting; the nearest is DRY_RUN"),
        ("log-lvel=info", "SETTINGS has \"log-lvel\", which is no setting; the nearest is LOG_LEVEL"),
        ("SETTING=x", "SETTINGS has no NAME=value of a setting in its line 1"),
        ("SETTINGS=x", "SETTINGS has no NAME=value of a setting in its line 1"),
        ("DRY_RUN=true\nsecret==", "SETTINGS has no NAME=value of a setting in its line 2"),
        ("\n=secret", "SETTINGS has no NAME=value of a setting in its line 1"),
        ("DRY_RUN", "SETTINGS has no NAME=value of a setting in its line 1"),
        ("DRY_RUN=true\nDRY_RUN=false", "SETTINGS has DRY_RUN twice: keep one"),
        ("DRY_RUN=2e+06", "DRY_RUN is \"2e+06\": allowed are true and false"),
    ] {
        assert_eq!(mistake(&with("SETTINGS", lines)), expected);
    }
}

/// Cloudflare would answer that the headers are invalid, and what to do about that is not to make another token.
#[test]
fn a_secret_in_quotation_marks_is_a_mistake_that_says_so() {
    for token in ["\"secret-token\"", "'secret-token'", "\"secret-token", "secret-token'"] {
        let mistake = mistake(&[("CF_API_TOKEN", token), ("CF_TUNNEL_ID", "home")]);
        assert_eq!(mistake, "CF_API_TOKEN has quotation marks: remove them");
    }
}

/// Cloudflare's new forms of credentials tell what they are, and would only be answered that they are invalid.
#[test]
fn a_secret_in_the_place_of_another_kind_is_a_mistake_that_says_so() {
    let secret = |prefix: &str| format!("{prefix}_0123456789");
    let (key, user, account) = (secret("cfk"), secret("cfut"), secret("cfat"));
    let tunnel = ("CF_TUNNEL_ID", "home");
    let key_of = |text| [("CF_API_KEY", text), ("CF_API_EMAIL", "jo@example.com"), tunnel];
    for (given, expected) in [
        (&[("CF_API_TOKEN", &*key), tunnel][..], "CF_API_TOKEN holds a key (cfk_): its place is CF_API_KEY"),
        (&key_of(&user), "CF_API_KEY holds a token (cfut_): its place is CF_API_TOKEN"),
        (&key_of(&account), "CF_API_KEY holds a token (cfat_): its place is CF_API_TOKEN"),
        (
            &[("CF_API_TOKEN", &*account), tunnel],
            "CF_ACCOUNT_ID is missing: a token of an account (cfat_) works only together with the id of that account",
        ),
    ] {
        assert_eq!(mistake(given), expected);
    }
    assert!(read(&[("CF_API_TOKEN", &*account), tunnel, ("CF_ACCOUNT_ID", &"a".repeat(32))]).is_ok());
    assert!(read(&[("CF_API_TOKEN", &*user), tunnel]).is_ok() && read(&key_of(&key)).is_ok());
}

/// Each setting that can be wrong by itself, with a wrong value and the part of the mistake that names the allowed
/// ones.
#[test]
fn a_mistake_names_the_setting_what_was_given_and_what_is_allowed() {
    for (variable, given, allowed) in [
        ("CF_API_EMAIL", "Jo Doe <jo@example.com>", "an email address has only visible"),
        ("CF_API_BASE_URL", "api.cloudflare.com", "https://api.cloudflare.com/client/v4"),
        ("CF_CA_FILE", "/nowhere", "cannot be read"),
        ("CF_CA_FILE", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "certificate"),
        ("DOMAIN_FILTER", "*.example.com", ".example.com"),
        ("DOMAIN_FILTER", "example", ".com"),
        ("EXCLUDE_DOMAIN_FILTER", "https://example.com", "example.com"),
        ("REGEXP_DOMAIN_FILTER", "(?!x)", "look-around are not supported"),
        ("REGEXP_DOMAIN_FILTER_EXCLUSION", "a)", "closing ')'"),
        ("OWNER_ID", "an owner whose name is far too long for a comment", "has room for"),
        ("OWNER_ID", "\"home\"", "must not contain quotation marks"),
        ("OWNER_ID", "'home'", "must not contain quotation marks"),
        ("OWNER_ID", "home,office", "must not contain quotation marks or commas"),
        ("ADOPT", "\"tunnel\"", "tunnel, access, owner=<id> and all"),
        ("ADOPT", "owner=\"home\"", "tunnel, access, owner=<id> and all"),
        ("ADOPT", "owner='home'", "tunnel, access, owner=<id> and all"),
        ("ADOPT", "everything", "tunnel, access, owner=<id> and all"),
        ("ADOPT", "owner=", "tunnel, access, owner=<id> and all"),
        ("NAMESPACE_GUARD", "1", "true and false"),
        ("ACCESS_GUARD", "on", "true and false"),
        ("CLUSTER_DOMAIN", "*.local", "wildcard"),
        ("ACCESS_GUARD", "on", "true and false"),
        ("DEFAULT_ACCESS_POLICY", "staff,,on-call", "an entry of the list is empty"),
        ("ACCESS_OPT_OUT", "no", "true and false"),
        ("ACCESS_POLICIES", ",", "without an entry"),
        ("DEFAULT_SERVICE", "http://web:80/path", "a service has no path"),
        ("DEFAULT_SERVICE", "http://{nmae}:80", "braces stand around something other"),
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
        ("LOG_FORMAT", "JSON", "json and text"),
    ] {
        let mistake = mistake(&with(variable, given));
        let (head, rest) = mistake.split_once(&format!("{given:?}: ")).unwrap_or_else(|| panic!("{mistake}"));
        assert!(head.starts_with(&format!("{variable} ")) && rest.contains(allowed), "{mistake}");
    }
}

/// `example,com` has a comma in place of its dot. As ExternalDNS reads it, every name below `com` would be served.
#[test]
fn a_whole_top_level_domain_is_served_only_if_it_is_written_with_a_dot() {
    for given in ["example,com", "com", "example.com,org.", "bücher"] {
        mistake(&with("DOMAIN_FILTER", given));
    }
    let config = read(&with("DOMAIN_FILTER", ".com,example.org")).expect("it is written with a dot");
    for (name, is_served) in [("shop.example.com", true), ("shop.example.org", true), ("example.net", false)]
    {
        assert_eq!(config.provider.operator.filter.matches(name), is_served, "{name}");
    }
    // A filter may exclude names that are not of the internet.
    assert!(read(&with("EXCLUDE_DOMAIN_FILTER", "internal,local")).is_ok());
}

/// A variable may hold 128 KiB, and long log lines are cut.
#[test]
fn a_mistake_does_not_repeat_a_long_text() {
    for text in [&"(".repeat(120_000), &"x y,".repeat(30_000), &format!("http://{}", "/".repeat(120_000))] {
        for variable in names::variables() {
            for line in read(&with(variable, text)).map_or_else(|mistakes| mistakes, |config| config.warnings)
            {
                assert!(line.len() < 1_000, "{variable}: {} bytes: {}", line.len(), &line[..200]);
            }
        }
    }
}

#[test]
fn a_mistake_or_a_warning_never_shows_a_secret() {
    for variables in [
        &[("CF_API_TOKEN", "hunter2 hunter2")][..],
        &[("CF_API_TOKEN", "hünter2hunter2")],
        &[("CF_API_TOKEN_FILE", "hunter2hunter2")],
        &[("CF_API_TOKEN", "file:hunter2hunter2")],
        &[("CF_API_TOKEN", "hunter2hunter2"), ("CF_API_KEY", "hunter2hunter2")],
        &[("CF_API_TOKEN", "a"), ("CF_API_TOKEN_FILE", "hunter2hunter2")],
        &[("CF_API_KEY", "hunter2hunter2")],
        &[("CF_API_TOKN", "hunter2hunter2")],
        &[("CF_API_TOKEN", "a"), ("CF_API_BASE_URL", "https://jo:hunter2hunter2@proxy.test")],
        &[("CF_API_TOKEN", "a"), ("CF_API_BASE_URL", "https://proxy.test/?token=hunter2hunter2")],
    ] {
        let said = read(variables).map_or_else(|mistakes| mistakes, |config| config.warnings).concat();
        assert!(!said.is_empty() && !said.contains("unter2"), "{variables:?}: {said}");
    }
}

/// `OWNER_ID` stands in the comment of every record.
#[test]
fn a_setting_with_the_token_in_it_is_a_mistake() {
    let token = "a-token-of-forty-characters-as-they-have";
    let within = &format!("{token}.test");
    for (variable, value) in [
        ("OWNER_ID", token),
        ("CF_TUNNEL_ID", token),
        ("ORIGIN_HTTP_HOST_HEADER", within),
        ("DOMAIN_FILTER", "a.example.com"),
    ] {
        let given = [("CF_API_TOKEN", token), ("CF_TUNNEL_ID", "home"), (variable, value)];
        let text = "contains the token or the key";
        let is_refused = read(&given).is_err_and(|mistakes| mistakes.iter().any(|one| one.contains(text)));
        assert_eq!(is_refused, value.contains(token), "{variable}");
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
fn a_mistake_in_a_default_names_the_setting_what_was_given_and_what_is_allowed() {
    for (variable, given, allowed) in [
        ("ORIGIN_CONNECT_TIMEOUT", "500ms", "30s"),
        ("ORIGIN_KEEP_ALIVE_CONNECTIONS", "many", "whole number"),
        ("ORIGIN_PROXY_PORT", "65536", "65535"),
        ("ORIGIN_NO_TLS_VERIFY", "yes", "true and false"),
        ("ORIGIN_HTTP_HOST_HEADER", "two words", "without blanks"),
        ("ORIGIN_SERVER_NAME", "https://app.example.com", "a host, without https://"),
        ("ORIGIN_CA_POOL", "/etc\u{7}/ca.pem", "without control"),
        ("ORIGIN_CA_POOL", "ca.pem", "absolute paths such as /etc/ca.pem"),
        ("ORIGIN_PROXY_TYPE", "http", "socks"),
        ("ORIGIN_IP_RULES", "10.0.0.0/8", "\"prefix\""),
        ("ORIGIN_IP_RULES", r#"[{"prefix":"ten","allow":true}]"#, "\"prefix\""),
    ] {
        let mistake = mistake(&with(variable, given));
        let is_shown = mistake.contains(&format!("{given:?}")) || mistake.contains("\"ten\"");
        assert!(mistake.starts_with(variable) && is_shown && mistake.contains(allowed), "{mistake}");
    }
}

#[test]
fn only_absolute_paths_are_listed_as_files_of_authorities() {
    let config = read(&with("ORIGIN_CA_POOLS", " /etc/a.pem, /etc/b.pem ,")).expect("a list");
    assert_eq!(
        config.provider.operator.ca_pools,
        ["/etc/a.pem".into(), "/etc/b.pem".into()] as [Box<str>; 2]
    );
    assert_eq!(
        config.provider.operator.origin_defaults,
        OriginRequest::default(),
        "it is the default of no option"
    );
    for given in ["ca.pem", "/etc/a.pem,../ca.pem", "~/ca.pem", "/etc/\u{7}.pem", ","] {
        assert!(mistake(&with("ORIGIN_CA_POOLS", given)).starts_with("ORIGIN_CA_POOLS "), "{given}");
    }
}

/// The default service of the first two differs from object to object, and is checked there.
#[test]
fn the_default_service_is_not_this_programs_own_port() {
    let with = |service, port| [&with("DEFAULT_SERVICE", service)[..], &[("SERVER_PORT", port)]].concat();
    for (service, port) in
        [("http://{name}:8888", "8888"), ("http://localhost:80", "8888"), ("http://web", "80")]
    {
        read(&with(service, port)).expect(service);
    }
    for (service, port) in
        [("http://127.1.2.3:8888", "8888"), ("http://localhost", "80"), ("tcp://[::1]:8080", "8888")]
    {
        let mistake = mistake(&with(service, port));
        assert!(
            mistake.starts_with("DEFAULT_SERVICE ") && mistake.contains("the webhook's own"),
            "{mistake}"
        );
    }
}

#[test]
fn everything_is_published_only_to_a_default_service() {
    let all = [&with("PUBLISH", "all")[..], &[("DEFAULT_SERVICE", "http://web")]].concat();
    assert!(read(&all).expect("both are there").provider.operator.publish_all);
    let mistake = mistake(&with("PUBLISH", "all"));
    assert!(mistake.starts_with("PUBLISH ") && mistake.contains("DEFAULT_SERVICE"), "{mistake}");
    let config = read(&with("DEFAULT_SERVICE", "http://web")).expect("it is enough");
    assert!(!config.provider.operator.publish_all, "unless it is asked for");
}

#[test]
fn lists_and_expressions_exclude_each_other() {
    let mut variables = with("DOMAIN_FILTER", "example.com");
    variables.push(("REGEXP_DOMAIN_FILTER_EXCLUSION", "^internal"));
    assert!(mistake(&variables).contains("keep the expressions or the lists"));
}

/// It is no path, so the limits of paths do not hold for it.
#[test]
fn an_expression_of_domains_may_be_long() {
    let names: Vec<String> = (0..100).map(|number| format!("app-{number}\\.example\\.com")).collect();
    let expression = format!("^({})$", names.join("|"));
    assert!(read(&with("REGEXP_DOMAIN_FILTER", &expression)).is_ok(), "{} bytes", expression.len());
}

#[test]
fn a_port_that_kubernetes_put_there_is_ignored_with_a_warning() {
    let config = read(&with("SERVER_PORT", "tcp://10.0.0.1:8889")).expect("it is no mistake");
    assert_eq!(config.api_addresses.first().map(SocketAddr::port), Some(8888));
    let [warning] = &config.warnings[..] else { panic!("{:?}", config.warnings) };
    assert!(warning.contains("SERVER_PORT") && warning.contains("Kubernetes"), "{warning}");
    let config = read(&with("ORIGIN_PROXY_PORT", "tcp://10.0.0.1:8888")).expect("it is no mistake");
    assert_eq!(
        (config.warnings.len(), config.provider.operator.origin_defaults),
        (1, OriginRequest::default())
    );
}

/// `serve` would end without a word about the settings, because the address is in use.
#[test]
fn the_two_ports_are_not_one() {
    let with = |ports: [&'static str; 2], hosts: [&'static str; 2]| {
        let [api, metrics] = ports;
        let [api_host, metrics_host] = hosts;
        let given = [("METRICS_PORT", metrics), ("SERVER_HOST", api_host), ("METRICS_HOST", metrics_host)];
        [&with("SERVER_PORT", api)[..], &given].concat()
    };
    for hosts in [["", ""], ["127.0.0.1", "127.0.0.1"], ["127.0.0.1", "0.0.0.0"]] {
        let mistake = mistake(&with(["8080", "8080"], hosts));
        assert!(mistake.starts_with("SERVER_PORT and METRICS_PORT are equal (8080)"), "{mistake}");
    }
    for (ports, hosts) in
        [(["8080", "8081"], ["", ""]), (["0", "0"], ["", ""]), (["8080", "8080"], ["127.0.0.1", "127.0.0.2"])]
    {
        read(&with(ports, hosts)).expect("two listeners");
    }
}

#[test]
fn an_unusual_setting_is_warned_of() {
    for (variable, value, advice) in [
        ("SERVER_HOST", "0.0.0.0", "leave SERVER_HOST out, or let only ExternalDNS reach the port"),
        ("DRY_RUN", "true", "writes are logged, but not done"),
        ("ADOPT", "tunnel", "unset ADOPT once that is done"),
        ("MASS_DELETION_LIMIT", "0", "may delete all hostnames at once"),
    ] {
        let config = read(&with(variable, value)).expect("it is possible");
        let [warning] = &config.warnings[..] else { panic!("{:?}", config.warnings) };
        assert!(warning.contains(advice), "{warning}");
    }
    let all = [&with("PUBLISH", "all")[..], &[("DEFAULT_SERVICE", "http://web")]].concat();
    assert!(read(&all).expect("it is possible").warnings[0].starts_with("PUBLISH is all"));
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

/// A token may be in the wrong variable: an account's id is logged, and a tunnel's name is shown at `/readyz`.
#[test]
fn a_token_in_the_place_of_an_id_or_a_name_is_a_mistake_that_does_not_repeat_it() {
    const LONG: &str = "eyJhIjoiMDIzZTEwNWY0ZWNlZjhhZDljYTMxYTgzNzJkMGMzNTMiLCJ0IjoiNmZmNDJhZTItNzY1ZC00YWRmLTgxMTItMzFjNTVjMTU1MWVmIiwicyI6Ik5rTXpNekkifQ";
    for variable in ["CF_ACCOUNT_ID", "ZONE_ID_FILTER", "CF_TUNNEL_ID"] {
        let mistake = mistake(&with(variable, LONG));
        assert!(mistake.starts_with(&format!("{variable} ")) && !mistake.contains(LONG), "{mistake}");
    }
    assert!(mistake(&with("CF_ACCOUNT_ID", &"A".repeat(32))).contains("in lower case"));
}

/// A template with empty values leaves such a list. Without a filter, everything would be served.
#[test]
fn a_list_of_nothing_but_separators_is_a_mistake() {
    for variable in ["DOMAIN_FILTER", "ZONE_ID_FILTER", "CF_ACCOUNT_ID", "ADOPT"] {
        assert!(mistake(&with(variable, " , ")).starts_with(variable));
    }
    let several = "0123456789abcdef0123456789abcdef,fedcba9876543210fedcba9876543210";
    assert!(mistake(&with("CF_ACCOUNT_ID", several)).contains("several accounts"));
}

#[test]
fn credentials_are_given_once_and_a_key_with_its_address() {
    for (given, expected) in [
        (&[][..], "CF_API_TOKEN is missing"),
        (
            &[("CF_API_TOKEN", "a"), ("CF_API_TOKEN_FILE", "/b")],
            "CF_API_TOKEN and CF_API_TOKEN_FILE are both set",
        ),
        (
            &[("CF_API_TOKEN", "a"), ("CF_API_KEY", "b")],
            "CF_API_TOKEN and CF_API_KEY are both set; keep CF_API_TOKEN",
        ),
        (&[("CF_API_KEY", "a")], "CF_API_EMAIL is missing"),
        (
            &[("CF_API_TOKEN", "file:/nowhere")],
            "CF_API_TOKEN names the file \"/nowhere\", which cannot be read",
        ),
        (&[("CF_API_TOKEN", "/run/token")], "CF_API_TOKEN is a path: write file: before it"),
        // What has no slash may be the token.
        (
            &[("CF_API_TOKEN", "file:a")],
            "CF_API_TOKEN names a file in the working folder, which cannot be read",
        ),
        (
            &[("CF_API_TOKEN_FILE", "a")],
            "CF_API_TOKEN_FILE names a file in the working folder, which cannot be read",
        ),
    ] {
        let mistake = mistake(&[given, &[("CF_TUNNEL_ID", "home")]].concat());
        assert!(mistake.starts_with(expected), "{mistake}");
    }
}

#[test]
fn a_missing_setting_is_told_beside_the_wrong_name_that_it_has() {
    let said = read(&[("CF_API_TOKN", "secret-token"), ("CF_TUNNEL_ID", "home")]).expect_err("missing");
    let [missing, warning] = said.as_slice() else { panic!("{said:?}") };
    assert!(missing.starts_with("CF_API_TOKEN is missing"), "{missing}");
    assert!(warning.contains("CF_API_TOKN") && warning.contains("the nearest is CF_API_TOKEN"), "{warning}");
}

/// The names of wrangler, Terraform and other webhooks. An address of the API under a further name would send the token
/// elsewhere.
#[test]
fn a_further_name_counts_where_no_setting_of_its_group_has_its_own() {
    let account = "a".repeat(32);
    let given = [
        ("CLOUDFLARE_API_TOKEN", "further-token"),
        ("CLOUDFLARE_ACCOUNT_ID", &*account),
        ("CLOUDFLARE_TUNNEL_ID", "home"),
        ("DOMAIN_FILTERS", "example.com"),
        ("EXCLUDE_DOMAIN_FILTERS", "no.example.com"),
        ("CLOUDFLARE_BASE_URL", "https://elsewhere.test"),
    ];
    let config = read(&given).expect("they are taken");
    assert_eq!((config.warnings, config.credential_variable), (Vec::new(), "CLOUDFLARE_API_TOKEN"));
    assert_eq!(config.client.credentials.secret.expose(), "further-token");
    assert_eq!(*config.client.base_url.host, *"api.cloudflare.com");
    assert_eq!(config.provider.account.map(|id| id.to_string()), Some(account.clone()));
    assert_eq!(config.provider.tunnels, ["home".into()]);
    let filter = config.provider.operator.filter;
    let served = ["a.example.com", "no.example.com", "a.test"].map(|name| filter.matches(name));
    assert_eq!(served, [true, false, false]);

    let key = [("CLOUDFLARE_API_KEY", "further-key"), ("CLOUDFLARE_EMAIL", "jo@example.com"), given[2]];
    assert_eq!(read(&key).expect("they are taken").credential_variable, "CLOUDFLARE_API_KEY");

    // A token of one user beside the account of another would be half of each.
    for (own, ignored) in [
        (("CF_API_TOKEN", "own-token-of-mine"), vec!["CLOUDFLARE_ACCOUNT_ID", "CLOUDFLARE_API_TOKEN"]),
        (("CF_TUNNEL_ID", "office"), vec!["CLOUDFLARE_TUNNEL_ID"]),
        (("DOMAIN_FILTER", "example.com"), vec!["DOMAIN_FILTERS"]),
    ] {
        let mut config = read(&[&given[..], &[own]].concat()).expect("one of the two counts");
        config.warnings.sort();
        let told = ignored.iter().map(|name| format!("{name} is ignored, because {} is set", own.0));
        assert_eq!(config.warnings, told.collect::<Vec<_>>());
    }
    let config = read(&[&given[..], &[("CF_API_TOKEN", "own-token-of-mine")]].concat()).expect("a token");
    assert_eq!((config.credential_variable, config.provider.account), ("CF_API_TOKEN", None));
}

#[test]
fn a_filter_under_two_names_with_two_values_is_a_mistake_and_so_is_a_wrong_value_under_a_further_name() {
    for (name, further) in
        [("DOMAIN_FILTER", "DOMAIN_FILTERS"), ("EXCLUDE_DOMAIN_FILTER", "EXCLUDE_DOMAIN_FILTERS")]
    {
        let both = [&with(name, "example.com")[..], &[(further, "example.org")]].concat();
        assert_eq!(mistake(&both), format!("{name} and {further} differ; keep {name}"));
        let wrong = mistake(&with(further, "*.example.com"));
        assert!(wrong.starts_with(&format!("{further} has \"*.example.com\": ")), "{wrong}");
    }
    let two = [("CLOUDFLARE_API_TOKEN", "token"), ("CLOUDFLARE_API_KEY", "key"), ("CF_TUNNEL_ID", "home")];
    let expected = "CLOUDFLARE_API_TOKEN and CLOUDFLARE_API_KEY are both set; keep CLOUDFLARE_API_TOKEN";
    assert_eq!(mistake(&two), expected);
}

#[test]
fn what_is_shared_among_namespaces_has_a_host_and_needs_the_guard() {
    let given =
        |services| [with("SHARED_SERVICES", services).as_slice(), &[("NAMESPACE_GUARD", "true")]].concat();
    let config = read(&given("http://gw.infra.svc:80, tcp://db.infra.svc:5432")).expect("services");
    assert_eq!(config.provider.operator.shared_services.len(), 2);
    for (services, allowed) in [
        ("gw.infra.svc:80", "needs a scheme"),
        ("http://gw.infra.svc/path", "has no path"),
        ("http://{name}.infra.svc", "neither a host name"),
        ("unix:/run/gw.sock", "services with a host"),
        ("bastion", "services with a host"),
    ] {
        let mistake = mistake(&given(services));
        assert!(mistake.starts_with("SHARED_SERVICES ") && mistake.contains(allowed), "{mistake}");
    }
    let mistake = mistake(&with("SHARED_SERVICES", "http://gw.infra.svc:80"));
    assert!(mistake.starts_with("SHARED_SERVICES ") && mistake.contains("NAMESPACE_GUARD=true"), "{mistake}");
}

#[test]
fn a_namespaces_domains_are_pairs_and_need_the_guard() {
    let given =
        |pairs| [with("NAMESPACE_DOMAINS", pairs).as_slice(), &[("NAMESPACE_GUARD", "true")]].concat();
    let config =
        read(&given("*={namespace}.example.com, shop=.Shop.example, shop=example.org")).expect("pairs");
    assert_eq!(config.provider.operator.namespace_domains.len(), 3);
    for pairs in [
        "shop.example.com",
        "=example.com",
        "Shop=example.com",
        "shop/web=example.com",
        "shop=",
        "shop=com",
        "*={namespace}",
        "shop=*.example.com",
        "shop={name}.example.com",
        "shop=https://example.com",
    ] {
        let mistake = mistake(&given(pairs));
        assert!(
            mistake.starts_with("NAMESPACE_DOMAINS has ") && mistake.contains("allowed are"),
            "{mistake}"
        );
    }
    let mistake = mistake(&with("NAMESPACE_DOMAINS", "shop=example.com"));
    assert!(
        mistake.starts_with("NAMESPACE_DOMAINS ") && mistake.contains("NAMESPACE_GUARD=true"),
        "{mistake}"
    );
}
