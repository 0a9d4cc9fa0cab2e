//! The files of `deploy/` and the image against the program: names, ports, paths, user, version. What the real chart,
//! kustomize and compose make of the files is tested in `tests/deploy`, with Go.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use external_dns_cloudflare_tunnel_webhook::config::Config;
use external_dns_cloudflare_tunnel_webhook::config::names::variables;
use external_dns_cloudflare_tunnel_webhook::observe::readiness::Readiness;
use external_dns_cloudflare_tunnel_webhook::observe::routes::route;
use regex::Regex;
use test_support::harness::{Harness, TOKEN, published};
use test_support::process::Process;

const NAME: &str = env!("CARGO_PKG_NAME");

/// Of cloudflared, in the compose file.
const VARIABLES_OF_OTHERS: [&str; 1] = ["TUNNEL_TOKEN_FILE"];

/// Of ExternalDNS's and cloudflared's own metrics.
const PORTS_OF_OTHERS: [u16; 2] = [7979, 2000];

/// Of cloudflared's readiness.
const PATHS_OF_OTHERS: [&str; 1] = ["/ready"];

/// One of our files, without what its comments say.
struct File {
    path: PathBuf,
    lines: Vec<String>,
}

impl File {
    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(&path).expect("it was listed");
        let bare = |line: &str| match line.trim_start().starts_with('#') {
            true => String::new(),
            false => line.to_owned(),
        };
        Self { lines: text.lines().map(bare).collect(), path }
    }

    /// What stands behind each `key:`, without quotes.
    fn values(&self, key: &str) -> impl Iterator<Item = &str> {
        self.lines.iter().filter_map(move |line| {
            let value = line.trim_start().trim_start_matches("- ").strip_prefix(key)?.strip_prefix(':')?;
            Some(value.trim().trim_matches('"')).filter(|value| !value.is_empty())
        })
    }
}

/// Every YAML file of `deploy/` that is ours.
fn files() -> Vec<File> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("deploy/ is there") {
            let path = entry.expect("it can be listed").path();
            if path.is_dir() {
                if !path.ends_with("deploy/chart/charts") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "yaml") {
                files.push(File::read(path));
            }
        }
    }
    files
}

fn repository_file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("it is in the repository")
}

fn defaults() -> Config {
    let least = [("CF_API_TOKEN", "a-token"), ("CF_TUNNEL_ID", "home")];
    let least = least.map(|(name, text)| (name.to_owned(), text.to_owned()));
    Config::read(&least.into()).expect("the rest has defaults")
}

#[test]
fn every_variable_and_flag_is_one_of_the_program() {
    let known: Vec<&str> = variables().collect();
    let variable = Regex::new(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b").expect("the expression is fixed");
    let mut seen = BTreeSet::new();
    for file in files() {
        for line in &file.lines {
            for found in variable.find_iter(line).map(|found| found.as_str()) {
                assert!(
                    known.contains(&found) || VARIABLES_OF_OTHERS.contains(&found),
                    "{}: the program has no {found}",
                    file.path.display()
                );
                seen.insert(found.to_owned());
            }
        }
    }
    for expected in ["CF_API_TOKEN_FILE", "CF_TUNNEL_ID", "OWNER_ID"] {
        assert!(seen.contains(expected), "{expected} is in none of the files: {seen:?}");
    }
    // What the chart gives the program by itself, and what a comment of it offers.
    let chart = repository_file("deploy/chart/values.yaml")
        + &repository_file("deploy/chart/templates/cloudflared.yaml");
    for (offered, meant) in
        [("# DEFAULT_ACCESS_POLICY: ", "DEFAULT_ACCESS_POLICY"), ("--cf-tunnel-id=", "CF_TUNNEL_ID")]
    {
        assert!(chart.contains(offered), "the chart has no {offered}");
        assert!(variables().any(|variable| variable == meant), "the program has no {meant}");
    }
}

#[test]
fn ports_and_probe_paths_are_the_programs_own() {
    let config = defaults();
    let observation = config.metrics_address.port();
    let readiness = Readiness::default();
    let (mut ports, mut paths) = (0, 0);
    for file in files() {
        // What is a template of the chart is none until it is rendered, as it is for kustomize.
        for port in file.values("containerPort").filter(|port| !port.starts_with("{{")) {
            let port: u16 = port.parse().expect("a number");
            assert!(
                port == observation || PORTS_OF_OTHERS.contains(&port),
                "{}: {port}",
                file.path.display()
            );
            ports += 1;
        }
        // The others are files of a volume.
        for path in file.values("path").filter(|path| path.starts_with('/')) {
            assert!(
                route(path, &readiness, String::new).is_some() || PATHS_OF_OTHERS.contains(&path),
                "{}: {path} is not answered",
                file.path.display()
            );
            paths += 1;
        }
    }
    assert!(ports >= 2 && paths >= 4, "{ports} ports and {paths} paths were found");
    assert!(repository_file("Dockerfile.scratch").contains(&format!("\nEXPOSE {observation}\n")));
    // What ExternalDNS asks unless told otherwise, as none of the files does.
    assert!(config.api_addresses.iter().all(|address| address.port() == 8888 && address.ip().is_loopback()));
}

#[test]
fn pod_compose_and_image_run_as_one_user() {
    let dockerfile = repository_file("Dockerfile.scratch");
    let image =
        dockerfile.lines().find_map(|line| line.strip_prefix("USER ")).expect("the image names a user");
    let (user, group) = image.split_once(':').expect("user and group");
    assert!(user.parse::<u32>().expect("Kubernetes checks no names") > 0);
    let mut found = 0;
    for file in files() {
        for (key, expected) in [("runAsUser", user), ("runAsGroup", group), ("user", image)] {
            for value in file.values(key) {
                assert_eq!(value, expected, "{key} in {}", file.path.display());
                found += 1;
            }
        }
    }
    assert!(found >= 5, "{found} were found");
}

#[test]
fn the_files_install_this_version() {
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    let tags =
        Regex::new(&format!(r"/{NAME}(?:\s+(?:tag|newTag): |:)(\S+)")).expect("the expression is fixed");
    let mut found = 0;
    for file in files() {
        for tag in tags.captures_iter(&file.lines.join("\n")) {
            assert_eq!(&tag[1], version, "{}", file.path.display());
            found += 1;
        }
    }
    assert_eq!(
        found, 4,
        "chart, kustomize and twice compose; tests/deploy holds Flux and Argo CD to the chart's version"
    );
    let chart = repository_file("deploy/chart/Chart.yaml");
    assert!(chart.contains(&format!("\nversion: {}\nappVersion: {version}\n", env!("CARGO_PKG_VERSION"))));
}

/// They were 10,000 bytes apart, and no release could have been built.
#[test]
fn a_release_has_the_size_limit_of_the_recipe() {
    let limit = |file: &str, words: &str| {
        let text = repository_file(file);
        let digits = Regex::new(&format!("(?m)^{words}\"?([0-9]+)\"?$")).expect("the expression is fixed");
        digits.captures(&text).expect("it has the limit")[1].to_owned()
    };
    assert_eq!(limit("release/build", "size_limit_bytes="), limit("justfile", "size_limit_bytes := "));
}

/// systemd puts the token into a folder, for which `%d` stands.
#[test]
fn with_the_variables_of_the_guides_systemd_unit_a_hostname_is_published() {
    let guide = repository_file("docs/guides.md");
    let (_, unit) = guide.split_once("```ini\n").expect("the guide has a unit");
    let (unit, _) = unit.split_once("```").expect("it has an end");
    let values = |key: &'static str| unit.lines().filter_map(move |line| line.strip_prefix(key));
    assert!(values("ExecStart=").eq([format!("/usr/local/bin/{NAME}")]), "without arguments: {unit}");

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("systemd");
    fs::create_dir_all(&folder).expect("the folder for tests can be written");
    for credential in values("LoadCredential=") {
        let (name, _) = credential.split_once(':').expect("a name and a file");
        fs::write(folder.join(name), TOKEN).expect("the folder for tests can be written");
    }
    let folder = folder.to_str().expect("the folder for tests has a name in Unicode");
    let of_unit: Vec<(&str, String)> = values("Environment=")
        .flat_map(str::split_whitespace)
        .map(|pair| pair.split_once('=').expect("a name and a value"))
        .map(|(name, value)| (name, value.replace("%d", folder)))
        .collect();
    let harness = Harness::new();
    harness.cloudflare.add_tunnel("homelab");
    let mut variables = vec![("CF_API_TOKEN", ""), ("CF_ACCOUNT_ID", "")];
    variables.extend(of_unit.iter().map(|(name, value)| (*name, &**value)));
    let (process, external_dns) = Process::start_ready(&harness, &variables);
    external_dns.run_loop(&[published("web.example.com", "http://web:80")]).expect("published");
    assert_eq!(harness.cnames().iter().map(|(name, ..)| &**name).collect::<Vec<_>>(), ["web.example.com"]);
    assert_eq!(process.end_with("TERM").0, Some(0));
}
