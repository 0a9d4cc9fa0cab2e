//! `just live` and `just live-clean`.
#![allow(clippy::panic, reason = "what is wrong is told by the text of the panic, without its place")]

use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cloudflare_emulator::{Emulator, Plan, Token};
use live::proxy::Settings;
use live::run::{NO_POLICY, attempt, connect, look, run};
use live::shape::{Shapes, differences};
use live::{clean, intents, report};
use serde_json::json;

const CLOUDFLARE: &str = "https://api.cloudflare.com/client/v4";

/// Four calls in a second are the limit; this is less than half of it, beside other programs of the account.
const PACE: Duration = Duration::from_millis(600);

/// The webhook believes a list that lacks its record after this time.
const PATIENCE: Duration = Duration::from_secs(120);

const HELP: &str = "Usage: live run|clean [--yes]; docs: CONTRIBUTING.md, On the real Cloudflare";

#[allow(clippy::disallowed_methods, reason = "the edge of a command reads its arguments")]
fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["run", rest @ ..] => attempt(|| try_all(rest == ["--yes"])),
        ["clean", rest @ ..] => attempt(|| clean_up(rest == ["--yes"])),
        _ => Err(HELP.to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(64)
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the edge of a command reads its environment")]
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn settings() -> Settings {
    // The reason is printed once, by `main`, or in the table.
    std::panic::set_hook(Box::new(|_| {}));
    let is_meant = variable("CI").is_none() || variable("LIVE_IN_CI").as_deref() == Some("yes");
    assert!(is_meant, "CI is set: LIVE_IN_CI=yes says that this is meant");
    let needed = |name: &str| variable(name).unwrap_or_else(|| panic!("{name} is not set"));
    let random =
        ring::rand::generate::<[u8; 4]>(&ring::rand::SystemRandom::new()).expect("there is randomness");
    let base_url = variable("LIVE_API_BASE_URL").unwrap_or_else(|| CLOUDFLARE.to_owned());
    Settings {
        base_url: base_url.trim_end_matches('/').to_owned(),
        token: needed("LIVE_API_TOKEN"),
        intents: root().join("target/live-intents.jsonl"),
        pace: PACE,
        account: needed("LIVE_ACCOUNT_ID"),
        domain: needed("LIVE_ZONE"),
        random: random.expose().iter().map(|byte| format!("{byte:02x}")).collect(),
        patience: PATIENCE,
    }
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Ctrl-C and SIGTERM end the steps.
fn stop_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).expect("the signal can be handled");
    }
    flag
}

fn try_all(is_sure: bool) -> bool {
    let settings = settings();
    let there = look(&settings, stop_flag());
    let bounds = there.proxy.state().bounds.clone();
    let (label, first) = (&bounds.label, bounds.hostname(1));
    println!(
        "Creates in the zone {domain} at most 20 records, {label}-1 to -20, three tunnels and, with a team, applications \
         and a tag.\nDeletes all of them at the end, within fifteen minutes and 400 calls. What cannot be undone: the \
         account's audit log keeps each write.\nMeanwhile a visitor asks with\n  curl --resolve {first}:443:$(dig \
         +short {domain} | head -n 1) https://{first}/\nwhich answers 530 while no cloudflared runs for the tunnel.",
        domain = settings.domain
    );
    there.notes.iter().for_each(|note| println!("Note: {note}."));
    assert!(is_sure, "nothing was created: --yes does it");
    let result = run(&there, &|row| println!("{}", report::line(row)));
    let has_team = !result.rows.iter().any(|row| row.outcome == NO_POLICY);
    let differences = differences(&result.shapes, &emulated(&settings, has_team));
    println!("{}", report::summary(&result, &differences));
    let file = root().join("target/live-report.json");
    let text = format!("{:#}\n", report::json(&result, &differences, root()));
    std::fs::write(&file, text).expect("the report can be written");
    println!("{} holds no name and no id.", file.display());
    result.is_good()
}

/// The shapes of the same steps at the emulator.
fn emulated(settings: &Settings, has_team: bool) -> Shapes {
    let emulator = Emulator::start();
    emulator.add_token(Token::with_access(&settings.token));
    emulator.add_zone(&settings.domain, Plan::Free);
    if has_team {
        emulator.set_up_access("team");
        let policy = json!({"name": "live", "decision": "allow", "include": [{"everyone": {}}]});
        emulator.add_policy(&policy).expect("it is one that Cloudflare takes");
    }
    let intents = root().join("target/live-intents-emulated.jsonl");
    let (base_url, account) = (emulator.base_url(), emulator.account());
    let settings = Settings { base_url, account, intents, pace: Duration::ZERO, ..settings.clone() };
    run(&look(&settings, Arc::default()), &|_| {}).shapes
}

fn clean_up(is_sure: bool) -> bool {
    let settings = settings();
    let leftovers = intents::leftovers(&settings.intents);
    println!("open intents in {}: {}", settings.intents.display(), leftovers.len());
    leftovers.iter().for_each(|event| println!("  {:?} {}", event.kind, event.name));
    assert!(is_sure || leftovers.is_empty(), "nothing was deleted: --yes does it");
    let left = clean::clean(&connect(&settings, stop_flag()).0, &leftovers, false);
    left.iter().for_each(|line| println!("left: {line}"));
    left.is_empty()
}
