//! A secret in a file that changes while the program runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use external_dns_cloudflare_tunnel_webhook::clock::{Deadline, SystemClock};
use external_dns_cloudflare_tunnel_webhook::cloudflare::{Batch, Client, ClientSettings, Credentials};
use external_dns_cloudflare_tunnel_webhook::model::{AccountId, RecordId, ZoneId};
use external_dns_cloudflare_tunnel_webhook::secret::Secret;

use crate::secrets::{record, said_of};
use crate::server::{EMPTY_LIST, Server, Then, answer, client_of, settings};

const OLD: &str = "old-token-0123456789";
const NEW: &str = "new-token-0123456789";
const REFUSED: &str = r#"{"success":false,"errors":[{"code":10000,"message":"Authentication error"}],"messages":[],"result":null}"#;

/// An empty folder of its own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("credential-file").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A file with the old token, a client that was made with it, and a server that refuses some tokens.
struct Fixture {
    path: PathBuf,
    server: Server,
    client: Client,
}

impl Fixture {
    fn new(path: PathBuf) -> Self {
        Self::with(path, |_, stream| {
            answer(stream, 200, "", EMPTY_LIST);
            Then::Keep
        })
    }

    fn with(
        path: PathBuf,
        behaviour: impl Fn(usize, &mut std::net::TcpStream) -> Then + Send + Sync + 'static,
    ) -> Self {
        if !path.exists() {
            fs::write(&path, format!("{OLD}\n")).unwrap();
        }
        let server = Server::start(behaviour);
        let credentials = Credentials { secret: Secret::parse(OLD).unwrap(), email: None };
        let settings = settings(&format!("http://{}", server.address), credentials);
        let client = client_of(ClientSettings { credential_file: Some(path.clone()), ..settings });
        Self { path, server, client }
    }

    fn deadline() -> Deadline {
        Deadline::after(&SystemClock, Duration::from_secs(10))
    }

    /// The tokens of the calls that one read makes.
    fn read(&self) -> Vec<String> {
        let before = self.server.requests().len();
        let _ = self.client.records(&ZoneId::new("z1"), Self::deadline());
        self.tokens_since(before)
    }

    fn tokens_since(&self, before: usize) -> Vec<String> {
        let requests = self.server.requests();
        let token = |request: &String| {
            let (_, rest) = request.split_once("Bearer ").unwrap();
            rest.lines().next().unwrap().to_owned()
        };
        requests[before..].iter().map(token).collect()
    }

    /// Whether each of so many looks took something.
    fn looks(&self, count: usize) -> Vec<bool> {
        (0..count).map(|_| self.client.read_credential_file()).collect()
    }
}

/// As the kubelet lays a secret out: `token -> ..data/token`, `..data -> ..2026_1`.
fn mounted(folder: &Path) -> PathBuf {
    fs::create_dir(folder.join("..2026_1")).unwrap();
    fs::write(folder.join("..2026_1/token"), OLD).unwrap();
    symlink("..2026_1", folder.join("..data")).unwrap();
    symlink("..data/token", folder.join("token")).unwrap();
    folder.join("token")
}

/// And as it changes it: a new folder, to which the link is swung over at once.
fn swing(folder: &Path) {
    fs::create_dir(folder.join("..2026_2")).unwrap();
    fs::write(folder.join("..2026_2/token"), NEW).unwrap();
    symlink("..2026_2", folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    fs::remove_dir_all(folder.join("..2026_1")).unwrap();
}

#[test]
fn a_changed_secret_is_taken_at_the_next_look() {
    type Change = fn(&Path);
    let by_rename: Change = |folder| {
        fs::write(folder.join("next"), format!(" {NEW}\r\n")).unwrap();
        fs::rename(folder.join("next"), folder.join("token")).unwrap();
    };
    let by_rewriting: Change = |folder| fs::write(folder.join("token"), NEW).unwrap();
    for (label, is_mounted, change) in
        [("rename", false, by_rename), ("symlink", true, swing as Change), ("rewrite", false, by_rewriting)]
    {
        let folder = folder(label);
        let fixture = Fixture::new(if is_mounted { mounted(&folder) } else { folder.join("token") });
        assert_eq!(fixture.looks(2), [false, false], "{label}: nothing has changed");
        change(&folder);
        assert_eq!(fixture.read(), [OLD], "{label}");
        assert_eq!(fixture.looks(2), [true, false], "{label}");
        assert_eq!(fixture.read(), [NEW], "{label}");
    }
}

/// What is done to a path by hand.
type Damage = fn(&Path);

#[test]
fn a_file_that_is_of_no_use_for_a_while_changes_nothing_and_is_told_of_once() {
    record();
    let damages: [(&str, Damage); 9] = [
        ("missing", |path| fs::remove_file(path).unwrap()),
        ("empty", |path| fs::write(path, "").unwrap()),
        ("two-lines", |path| fs::write(path, format!("{NEW}\n{NEW}\n")).unwrap()),
        ("not-text", |path| fs::write(path, [0xff, 0x00, 0xfe]).unwrap()),
        ("too-large", |path| fs::write(path, "x".repeat(5_000)).unwrap()),
        ("nothing", |path| fs::remove_file(path).and_then(|()| symlink("/dev/null", path)).unwrap()),
        ("endless", |path| fs::remove_file(path).and_then(|()| symlink("/dev/zero", path)).unwrap()),
        ("folder", |path| fs::remove_file(path).and_then(|()| symlink(".", path)).unwrap()),
        ("pipe", |path| {
            fs::remove_file(path).unwrap();
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }),
    ];
    for (label, damage) in damages {
        let fixture = Fixture::new(folder(label).join("token"));
        damage(&fixture.path);
        assert_eq!(fixture.looks(4), [false; 4], "{label}");
        assert_eq!(fixture.read(), [OLD], "{label}");
        let shown = fixture.path.to_str().unwrap();
        assert_eq!(said_of(shown).len(), 1, "{label}: {:?}", said_of(shown));

        let _ = fs::remove_file(&fixture.path);
        fs::write(&fixture.path, NEW).unwrap();
        assert_eq!(fixture.looks(1), [true], "{label}");
        assert_eq!(fixture.read(), [NEW], "{label}");
        let lines = said_of(shown);
        assert!(lines.last().unwrap().contains("a new secret"), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains(OLD) && !line.contains(NEW)), "{lines:?}");
    }
}

/// A server for which only the new token is good.
fn refusing(name: &str) -> Fixture {
    let path = folder(name).join("token");
    let known = path.clone();
    Fixture::with(path, move |number, stream| {
        // The first call comes with the old one, and where the file has another one, so does no later call.
        if number == 0 || fs::read_to_string(&known).unwrap().starts_with(OLD) {
            answer(stream, 403, "", REFUSED);
        } else {
            answer(stream, 200, "", EMPTY_LIST);
        }
        Then::Keep
    })
}

#[test]
fn a_read_that_is_refused_is_made_again_with_what_the_file_holds_by_now() {
    let fixture = refusing("read");
    fs::write(&fixture.path, NEW).unwrap();
    assert_eq!(fixture.read(), [OLD, NEW]);
    assert_eq!(fixture.read(), [NEW]);
}

/// The watch checks a new token, whichever call finds it.
#[test]
fn a_new_secret_is_in_doubt_even_if_a_call_to_access_finds_it() {
    let fixture = refusing("access");
    fixture.client.settle_doubt();
    fs::write(&fixture.path, NEW).unwrap();
    fixture.client.access_tags(&AccountId::new("a1"), Fixture::deadline()).unwrap();
    assert!(fixture.client.is_in_doubt());
}

#[test]
fn a_half_written_secret_is_refused_and_read_again() {
    let fixture = refusing("halves");
    fs::write(&fixture.path, &NEW[..9]).unwrap();
    assert_eq!(fixture.looks(1), [true]);
    fs::write(&fixture.path, NEW).unwrap();
    assert_eq!(fixture.read(), [&NEW[..9], NEW]);
}

#[test]
fn a_read_that_is_refused_is_made_once_while_the_file_is_the_same() {
    let fixture = refusing("same");
    assert_eq!(fixture.read(), [OLD]);
    fs::remove_file(&fixture.path).unwrap();
    fs::write(&fixture.path, OLD).unwrap();
    assert_eq!(fixture.read(), [OLD]);
}

/// A write is sent at most once, and the next loop is soon.
#[test]
fn a_write_that_is_refused_is_not_repeated_and_the_next_call_has_the_new_secret() {
    let fixture = refusing("write");
    fs::write(&fixture.path, NEW).unwrap();
    let batch = Batch { deletes: vec![RecordId::new("r1")], ..Batch::default() };
    assert!(fixture.client.batch(&ZoneId::new("z1"), &batch, Fixture::deadline()).is_err());
    assert_eq!(fixture.tokens_since(0), [OLD]);
    assert_eq!(fixture.read(), [NEW]);
}
