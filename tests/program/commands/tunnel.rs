//! `tunnel`: finds or makes, and writes the tunnel token or says why not. Neither the API token nor any secret of a
//! tunnel is ever shown.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;

use cloudflare_emulator::{Call, ConfigSource, Emulator, Fault, Matcher, NewTunnel, Permission, Plan, Token};
use external_dns_cloudflare_tunnel_webhook::commands::{self, Report};
use external_dns_cloudflare_tunnel_webhook::config::Config;
use serde::Deserialize;
use test_support::clock::ManualClock;
use test_support::harness::TOKEN;
use test_support::log::Log;
use test_support::process::program;

use super::{Said, said};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcome {
    id: String,
    name: String,
    new: bool,
    token_file: Option<String>,
}

/// An account with a zone, without a tunnel, and a folder for the token.
struct Account {
    cloudflare: Emulator,
    folder: PathBuf,
}

impl Account {
    fn new(name: &str) -> Self {
        let cloudflare = Emulator::start();
        cloudflare.add_token(Token::full(TOKEN));
        cloudflare.add_zone("example.com", Plan::Free);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tunnel-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("the folder for tests can be written");
        Self { cloudflare, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.join("token")
    }

    /// No secret that a tunnel of the account has is in what the command said.
    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Said {
        let output = program()
            .arg("tunnel")
            .args(arguments)
            .envs([
                ("CF_API_TOKEN", TOKEN),
                ("CF_TUNNEL_ID", "home"),
                ("CF_API_BASE_URL", &*self.cloudflare.base_url()),
                ("LOG_LEVEL", "trace"),
            ])
            .envs(variables.iter().copied())
            .output()
            .expect("the program was built");
        let said = said(&output, &[]);
        for secret in self.cloudflare.secrets() {
            assert!(
                !said.out.contains(&secret) && !said.errors.contains(&secret),
                "{}{}",
                said.out,
                said.errors
            );
        }
        said
    }

    /// With `--token-file` and `--json`.
    fn fetch(&self, variables: &[(&str, &str)]) -> (Said, Option<Outcome>) {
        let file = self.file();
        let said = self.run(&["--json", "--token-file", file.to_str().expect("UTF-8")], variables);
        let outcome = (said.code == Some(0)).then(|| serde_json::from_str(&said.out).expect("it is JSON"));
        (said, outcome)
    }

    /// The live tunnels: name and id.
    fn tunnels(&self) -> Vec<(String, String)> {
        self.cloudflare.edit(|cloudflare| {
            let live = cloudflare.tunnels().iter().filter(|tunnel| !tunnel.deleted);
            live.map(|tunnel| (tunnel.name.clone(), tunnel.id.clone())).collect()
        })
    }

    /// What cloudflared would do with the file: the tunnel that it connects for.
    fn connects(&self) -> Result<String, String> {
        let token = fs::read_to_string(self.file()).map_err(|error| error.to_string())?;
        self.cloudflare.run_connector(&token).map_err(str::to_owned)
    }

    fn writes(&self) -> Vec<String> {
        self.cloudflare.take_calls().iter().filter(|call| call.is_write()).map(|call| call.line()).collect()
    }
}

#[test]
fn a_tunnel_is_made_once_and_found_from_then_on() {
    let account = Account::new("made");
    let (said, made) = account.fetch(&[]);
    let made = made.unwrap_or_else(|| panic!("{}", said.errors));
    assert!(made.new && made.name == "home" && made.token_file == account.file().to_str().map(str::to_owned));
    assert_eq!(account.tunnels(), [("home".to_owned(), made.id.clone())]);
    assert_eq!(account.connects(), Ok(made.id.clone()));
    assert_eq!(fs::metadata(account.file()).unwrap().permissions().mode() & 0o7777, 0o400);
    assert_eq!(account.writes().len(), 1);
    // Visitors of a new tunnel wait for its first rule, which the program writes.
    let source = account.cloudflare.edit(|cloudflare| cloudflare.tunnel("home").config_source);
    assert_eq!(source, ConfigSource::Cloudflare);

    // By its name and by its id; the token is the same.
    let token = fs::read(account.file()).unwrap();
    for wanted in ["home", &*made.id, &*made.id.to_uppercase(), "home,office"] {
        let (said, found) = account.fetch(&[("CF_TUNNEL_ID", wanted)]);
        let found = found.unwrap_or_else(|| panic!("{wanted}: {}", said.errors));
        assert!(!found.new && found.id == made.id, "{wanted}");
        assert_eq!(fs::read(account.file()).unwrap(), token);
    }
    assert_eq!(account.writes(), [""; 0]);
    assert_eq!(fs::read_dir(&account.folder).unwrap().count(), 1, "nothing is left beside the file");
}

#[test]
fn without_a_file_nothing_is_fetched_and_the_table_says_what_was_done() {
    let account = Account::new("table");
    let said = account.run(&[], &[]);
    let [(_, id)] = &*account.tunnels() else { panic!("{}", said.errors) };
    assert_eq!(said.out, format!("tunnel      home\nid          {id}\nstate       created\ntoken file  -\n"));
    assert!(account.cloudflare.take_calls().iter().all(|call| !call.path.ends_with("/token")));
    let said = account.run(&[], &[("CF_TUNNEL_ID", id)]);
    assert!(said.out.contains("state       found\n"), "{}", said.out);
}

#[test]
fn a_path_that_is_none_is_a_mistake() {
    let account = Account::new("path");
    for arguments in [&["--token-file", "-"][..], &["--token-file="], &["--token-file", "--json"]] {
        let said = account.run(arguments, &[]);
        assert_eq!((said.code, &*said.out), (Some(64), ""), "{arguments:?}");
        assert!(said.errors.contains("--token-file"), "{}", said.errors);
    }
    assert_eq!(account.writes().len(), 0, "a mistake in the arguments makes nothing");
}

#[test]
fn a_deleted_tunnel_of_the_name_is_no_obstacle() {
    let account = Account::new("deleted");
    let gone = account.cloudflare.add_tunnel("home");
    account.cloudflare.edit(|cloudflare| cloudflare.tunnel_mut(&gone).deleted = true);
    let (said, made) = account.fetch(&[]);
    let made = made.unwrap_or_else(|| panic!("{}", said.errors));
    assert!(made.new && made.id != gone);
    assert_eq!(account.connects(), Ok(made.id));
}

#[test]
fn what_is_in_doubt_is_refused_with_what_to_do_and_makes_nothing() {
    let elsewhere = Account::new("elsewhere");
    let without_path = elsewhere.cloudflare.base_url().replace("/client/v4", "");
    for (label, prepare, variables, expected) in [
        (
            "a file's, which may be written elsewhere",
            (|account| {
                let local = NewTunnel { config_source: ConfigSource::Local, ..NewTunnel::named("home") };
                account.cloudflare.edit(|cloudflare| cloudflare.add_tunnel_with(local));
            }) as fn(&Account),
            &[("ALLOW_LOCAL_CONFIG", "true")][..],
            "migrate it in the dashboard",
        ),
        (
            "other capitals",
            |account: &Account| drop(account.cloudflare.add_tunnel("Home")),
            &[],
            "use its id",
        ),
        (
            "an id",
            |_: &Account| {},
            &[("CF_TUNNEL_ID", "6ff42ae2-765d-4adf-8112-31c55c1551ef")],
            "looks like an id",
        ),
        (
            "no permission",
            |account: &Account| {
                account.cloudflare.edit(|cloudflare| {
                    cloudflare.token_mut(TOKEN).permissions =
                        vec![Permission::ZoneRead, Permission::TunnelRead];
                });
            },
            &[],
            "Cloudflare Tunnel: Edit",
        ),
        (
            "no permission to read the token",
            |account: &Account| {
                account.cloudflare.add_tunnel("home");
                account.cloudflare.edit(|cloudflare| {
                    cloudflare.token_mut(TOKEN).permissions =
                        vec![Permission::ZoneRead, Permission::TunnelRead];
                });
            },
            &[],
            "Cloudflare Tunnel: Edit",
        ),
        ("no account", |_: &Account| {}, &[("DOMAIN_FILTER", "example.net")], "correct DOMAIN_FILTER"),
        (
            "another path of the API",
            |_: &Account| {},
            &[("CF_API_BASE_URL", &*without_path)],
            "correct the path of CF_API_BASE_URL",
        ),
        (
            "a revoked token",
            |account: &Account| {
                account.cloudflare.edit(|cloudflare| cloudflare.token_mut(TOKEN).permissions.clear());
            },
            &[],
            "credentials not accepted",
        ),
    ] {
        let account = Account::new(&format!("doubt-{}", label.replace([' ', '\'', ','], "-")));
        prepare(&account);
        let before = account.tunnels();
        let (said, outcome) = account.fetch(variables);
        assert!(outcome.is_none() && said.code == Some(1) && said.out.is_empty(), "{label}: {}", said.out);
        assert!(said.errors.contains(expected), "{label}: {}", said.errors);
        assert_eq!(account.tunnels(), before, "{label}");
        assert!(!account.file().exists(), "{label}");
    }
}

#[test]
fn two_at_once_end_with_one_tunnel() {
    for round in 0..5 {
        let account = Account::new(&format!("race-{round}"));
        // New tunnels are listed late, so that the run that loses has to look again.
        account.cloudflare.edit(|cloudflare| cloudflare.whims_mut().unlisted_calls = round);
        let ids = thread::scope(|scope| {
            [(); 3].map(|()| scope.spawn(|| account.run_here().expect("nothing fails"))).map(|run| {
                let report = run.join().expect("it ends");
                serde_json::from_str::<Outcome>(&report.text).expect("it is JSON").id
            })
        });
        let tunnels = account.tunnels();
        assert_eq!(tunnels.len(), 1, "{tunnels:?}");
        assert!(ids.iter().all(|id| *id == tunnels[0].1), "{ids:?}");
        assert_eq!(account.connects(), Ok(tunnels[0].1.clone()));
    }
}

impl Account {
    fn config(&self, dry_run: &str) -> Config {
        let base_url = self.cloudflare.base_url();
        let variables = [
            ("CF_API_TOKEN", TOKEN),
            ("CF_TUNNEL_ID", "home"),
            ("CF_API_BASE_URL", &base_url),
            ("DRY_RUN", dry_run),
        ];
        let variables = variables.map(|(name, text)| (name.to_owned(), text.to_owned()));
        Config::read(&variables.into()).expect("the configuration is right")
    }

    /// The command in this process, where its pauses take no time.
    fn run_here(&self) -> Result<Report, String> {
        let config = self.config("false");
        let file = self.file();
        let log = Log::default();
        let clock = log.marking(Arc::<ManualClock>::default());
        let outcome = commands::tunnel(config, clock, Some(&file), true, &mut |_| {});
        for secret in self.cloudflare.secrets().iter().map(String::as_str).chain([TOKEN]) {
            assert_eq!(log.lines_with(&[secret]), [""; 0]);
        }
        outcome
    }

    /// One tunnel at most, and a file only after a success, with which cloudflared connects for it.
    fn expect_no_doubt(&self, outcome: &Result<Report, String>, label: &str) {
        let tunnels = self.tunnels();
        assert!(tunnels.len() <= 1, "{label}: {tunnels:?}");
        match outcome {
            Ok(_) => assert_eq!(self.connects(), Ok(tunnels[0].1.clone()), "{label}"),
            Err(_) => assert!(!self.file().exists(), "{label}"),
        }
    }
}

/// The calls of a run that makes the tunnel: the token, the zones, the tunnels, the new tunnel, its tunnel token.
const CALLS: usize = 5;

/// A call that hangs takes its time, and is seen in `tests/real_time/hanging_calls.rs`.
#[test]
fn whatever_fails_at_any_call_there_is_one_tunnel_and_the_next_run_succeeds() {
    let done_but = |fault| Fault::DoneBut(Box::new(fault));
    let mut cases = Vec::new();
    for nth in 1..=CALLS {
        for fault in [
            Fault::limited(300),
            Fault::status(500),
            Fault::status(404),
            Fault::error(403, 10000, "Authentication error"),
            Fault::error(404, 1054, "not found"),
            Fault::error(409, 1013, "You already have a tunnel with this name"),
            Fault::Reset,
            Fault::Truncated,
            Fault::Garbage,
            Fault::DoneButUnanswered,
            done_but(Fault::status(502)),
            done_but(Fault::Garbage),
            done_but(Fault::limited(300)),
        ] {
            cases.push((nth, fault));
        }
    }
    let run = |index: usize, nth: usize, fault: &Fault| {
        let label = format!("call {nth}: {fault:?}");
        let account = Account::new(&format!("fault-{index}"));
        account.cloudflare.fault_at(nth, fault.clone());
        let first = account.run_here();
        account.expect_no_doubt(&first, &label);
        account.cloudflare.clear_faults();
        let _ = fs::remove_file(account.file());
        let second = account.run_here();
        account.expect_no_doubt(&second, &label);
        assert!(second.is_ok(), "{label}: {second:?}");
    };
    let cases: Vec<(usize, (usize, Fault))> = cases.into_iter().enumerate().collect();
    thread::scope(|scope| {
        for part in cases.chunks(cases.len().div_ceil(8)) {
            scope.spawn(move || part.iter().for_each(|(index, (nth, fault))| run(*index, *nth, fault)));
        }
    });
}

/// A client that makes a tunnel may see it in the list only later, and get its token only later too.
#[test]
fn what_is_listed_late_is_waited_for() {
    let account = Account::new("late");
    account.cloudflare.edit(|cloudflare| cloudflare.whims_mut().unlisted_calls = 4);
    account.cloudflare.fault(Matcher::create_tunnel(), 1, Fault::DoneButUnanswered);
    account.cloudflare.fault(Matcher::get_run_token(), 1, Fault::error(404, 1054, "not found"));
    let outcome = account.run_here();
    account.expect_no_doubt(&outcome, "late");
    assert!(outcome.is_ok(), "{outcome:?}");
    let posts = account.cloudflare.take_calls();
    assert_eq!(posts.iter().filter(|call: &&Call| call.is_write()).count(), 1);
}

#[test]
fn a_name_that_is_taken_and_never_listed_is_an_error_that_says_so() {
    let account = Account::new("taken");
    account.cloudflare.fault_every(
        Matcher::create_tunnel(),
        Fault::error(409, 1013, "You already have a tunnel with this name"),
    );
    let Err(problem) = account.run_here() else { panic!("there is none") };
    assert!(problem.contains("WARP Connector") && problem.contains("\"home\""), "{problem}");
    assert!(!account.file().exists());
}

#[test]
fn an_answer_about_another_tunnel_is_not_believed() {
    for (label, fields) in [
        ("another name", r#""name":"other","config_src":"cloudflare""#),
        ("deleted", r#""name":"home","config_src":"cloudflare","deleted_at":"2026-01-01T00:00:00Z""#),
        ("a file's", r#""name":"home","config_src":"local""#),
        ("without config_src", r#""name":"home""#),
    ] {
        let account = Account::new(&format!("lie-{}", label.replace([' ', '\''], "-")));
        let id = "00000000-0000-4000-8000-000000000000";
        let body =
            format!(r#"{{"success":true,"errors":[],"messages":[],"result":{{"id":"{id}",{fields}}}}}"#);
        let lie = Fault::Status { code: 200, headers: Vec::new(), body };
        account.cloudflare.fault(Matcher::create_tunnel(), 1, Fault::DoneBut(Box::new(lie)));
        let outcome = account.run_here();
        account.expect_no_doubt(&outcome, label);
        assert!(outcome.is_ok_and(|report| report.text.contains(r#""new":false"#)), "{label}");
    }
}

#[test]
fn a_refusal_says_why_and_what_else_to_do() {
    let account = Account::new("refused");
    let refusal = Fault::error(400, 1030, "maximum number of tunnels");
    account.cloudflare.fault(Matcher::create_tunnel(), 1, refusal);
    let Err(problem) = account.run_here() else { panic!("it is refused") };
    assert!(problem.contains("delete a tunnel that is not needed"), "{problem}");

    account.run_here().expect("nothing fails");
    let refusal = Fault::error(403, 10000, "Authentication error");
    account.cloudflare.fault_every(Matcher::get_run_token(), refusal);
    let Err(problem) = account.run_here() else { panic!("it is refused") };
    assert!(problem.contains("Authentication error"), "{problem}");
}

/// The API token is shown once; nothing brings it back.
#[test]
fn only_an_earlier_run_token_is_replaced() {
    let account = Account::new("replaced");
    let file = account.file();
    let path = file.to_str().expect("UTF-8");
    fs::write(&file, TOKEN).expect("it can be written");
    let variable = format!("file:{path}");
    let said = account.run(&["--token-file", path], &[("CF_API_TOKEN", &variable)]);
    assert_eq!(said.code, Some(1), "{}", said.errors);
    assert!(said.errors.contains("name another file"), "{}", said.errors);
    assert_eq!(fs::read_to_string(&file).unwrap(), TOKEN);
    assert_eq!(account.tunnels(), [], "it is looked at before anything is made");
    for before in ["", "\n"] {
        fs::write(&file, before).expect("it can be written");
        assert_eq!(account.run(&["--token-file", path], &[]).code, Some(0), "{before:?}");
    }
    assert_eq!(account.run(&["--token-file", path], &[]).code, Some(0), "an earlier one");
}

/// A pod of cloudflared that is lost during a dry run comes back by this.
#[test]
fn a_dry_run_fetches_the_token_of_a_tunnel_that_is_there() {
    let account = Account::new("dry-run");
    let id = account.cloudflare.add_tunnel("home");
    let (said, outcome) = account.fetch(&[("DRY_RUN", "true")]);
    assert!(outcome.is_some_and(|outcome| !outcome.new && outcome.id == id), "{}", said.errors);
    assert_eq!(account.connects(), Ok(id));
    assert_eq!(account.writes(), [""; 0]);
}

#[test]
fn a_dry_run_makes_no_tunnel_and_says_so_once_a_minute_until_the_tunnel_is_there() {
    let account = Account::new("dry-run-waits");
    let said = account.run(&[], &[("DRY_RUN", "true")]);
    assert!(said.code == Some(1) && said.errors.contains("\"home\" is not created"), "{}", said.errors);

    let clock = Log::default().marking(Arc::new(ManualClock::stopped()));
    let mut told = Vec::new();
    let begun = clock.now();
    let outcome =
        commands::tunnel(account.config("true"), clock.clone(), Some(&account.file()), true, &mut |text| {
            told.push((clock.now() - begun, text.to_owned()));
            if told.len() == 3 {
                assert_eq!(account.writes(), [""; 0]);
                account.cloudflare.add_tunnel("home");
            }
        });
    assert!(outcome.is_ok(), "{outcome:?}");
    let minutes: Vec<u64> = told.iter().map(|(after, _)| after.as_secs()).collect();
    assert_eq!(minutes, [0, 60, 120]);
    let text = "DRY_RUN is set, so the tunnel \"home\" is not created; looking for it again in 60 s";
    assert!(told.iter().all(|(_, told)| told == text), "{told:?}");
    assert!(account.connects().is_ok());
    assert_eq!(account.writes(), [""; 0]);
}

/// Process 1 of a container has no other end than the kubelet's patience.
#[test]
fn a_dry_run_that_waits_for_its_tunnel_ends_at_once_on_sigterm() {
    let account = Account::new("dry-run-ends");
    let file = account.file();
    let mut waiting = program()
        .args(["tunnel", "--token-file", file.to_str().expect("UTF-8")])
        .envs([("CF_API_TOKEN", TOKEN), ("CF_TUNNEL_ID", "home"), ("DRY_RUN", "true")])
        .env("CF_API_BASE_URL", account.cloudflare.base_url())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let lines = BufReader::new(waiting.stderr.take().expect("it is piped")).lines();
    let mut lines = lines.map(|line| line.expect("UTF-8"));
    assert!(lines.any(|line| line.contains("is not created")));
    let id = waiting.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().expect("kill is there").success());
    assert_eq!(waiting.wait().expect("it ends").code(), Some(143));
    assert!(!file.exists());
}

#[test]
fn the_api_token_is_no_name() {
    let account = Account::new("token-as-name");
    for command in ["tunnel", "check"] {
        let output = program()
            .arg(command)
            .envs([("CF_API_TOKEN", TOKEN), ("CF_TUNNEL_ID", TOKEN)])
            .env("CF_API_BASE_URL", account.cloudflare.base_url())
            .output()
            .expect("the program was built");
        let said = said(&output, &[]);
        assert!(said.code == Some(64) && said.errors.contains("CF_TUNNEL_ID"), "{}", said.errors);
    }
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_that_says_which() {
    let account = Account::new("unwritable");
    symlink("/proc/self/fd/1", account.folder.join("stdout")).expect("links can be made");
    // A machine's own device is nothing for a test that may run as root and fail.
    let _socket = UnixListener::bind(account.folder.join("socket")).expect("sockets can be made");
    for (path, expected) in [
        (account.folder.join("none/token"), "create its folder first"),
        (account.folder.clone(), "it is a directory"),
        (account.folder.join("socket"), "No such device"),
        (account.folder.join("stdout"), "a pipe or a device"),
    ] {
        let path = path.to_str().expect("UTF-8");
        let said = account.run(&["--token-file", path], &[]);
        assert_eq!((said.code, &*said.out), (Some(1), ""), "{path}");
        assert!(said.errors.contains(path) && said.errors.contains(expected), "{}", said.errors);
    }
    assert_eq!(account.tunnels().len(), 1);
}
