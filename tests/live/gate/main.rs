//! The crate `live` against the emulator: the run of `just live`, what its guard sends, what each probe finds, and what
//! a killed run leaves.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, reason = "what is unexpected fails the test")]

mod hostile;
mod killed;
mod probes;
mod runs;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cloudflare_emulator::{Emulator, Matcher, Plan, Token};
use live::proxy::Settings;
use live::run::{Look, look};
use serde_json::json;

const TOKEN: &str = "an-api-token-that-must-not-be-seen";
const RANDOM: &str = "0a1b2c3d";

/// An account with a team, and things in it whose names resemble the label of a run.
fn emulator(plan: Plan) -> Emulator {
    let emulator = Emulator::start();
    emulator.add_token(Token::with_access(TOKEN));
    let zone = emulator.add_zone("example.com", plan);
    emulator.set_up_access("team");
    let include = json!([{"everyone": {}}]);
    let staff = json!({"name": "staff", "decision": "allow", "include": include});
    let staff = emulator.add_policy(&staff).unwrap();
    let label = format!("edctw-live-{RANDOM}");
    for name in [&*label, "edctw-live-ffffffff-1", &*format!("{label}-1x"), "home"] {
        let tunnel = emulator.add_tunnel(name);
        emulator.put_configuration(&tunnel, &cloudflare_emulator::catch_all("http_status:503")).unwrap();
    }
    let names = ["LABEL", "LABEL-1.deeper", "LABEL-21", "LABEL-01", "xLABEL-1", "edctw-live-ffffffff-1"];
    for name in names.map(|name| name.replace("LABEL", &label)) {
        let comment = format!("external-dns owner=edctwlive{RANDOM} {label}-1");
        let record = json!({"type": "A", "name": name, "content": "192.0.2.7", "comment": comment});
        emulator.add_record(&zone, record).unwrap();
    }
    emulator.edit(|cloudflare| cloudflare.add_tag("foreign")).unwrap();
    let place = format!("x{label}-5.example.com");
    let application = json!({"type": "self_hosted", "name": format!("{label}-5"), "domain": place,
        "tags": ["foreign"], "policies": [{"id": staff, "precedence": 1}]});
    emulator.add_application(&application).unwrap();
    emulator
}

/// The two tunnels of the steps have a connector each, so that a move goes to its end.
fn connect_tunnels(emulator: &Emulator) {
    for number in 1..=2 {
        emulator.edit_after(Matcher::create_tunnel(), number, |cloudflare| {
            let id = cloudflare.tunnels().last().map(|tunnel| tunnel.id.clone()).unwrap();
            cloudflare.tunnel_mut(&id).connectors = 1;
        });
    }
}

fn settings(emulator: &Emulator, name: &str) -> Settings {
    let intents = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-{name}.jsonl"));
    let _ = std::fs::remove_file(&intents);
    Settings {
        base_url: emulator.base_url(),
        token: TOKEN.to_owned(),
        intents,
        pace: Duration::ZERO,
        account: emulator.account(),
        domain: "example.com".to_owned(),
        random: RANDOM.to_owned(),
        patience: Duration::ZERO,
    }
}

fn look_at(emulator: &Emulator, name: &str) -> Look {
    look(&settings(emulator, name), Arc::default())
}

/// Everything that is there, as text.
fn state(emulator: &Emulator) -> String {
    emulator.edit(|cloudflare| {
        let live: Vec<_> = cloudflare.tunnels().iter().filter(|tunnel| !tunnel.deleted).cloned().collect();
        let records: Vec<_> =
            cloudflare.zones().iter().map(|zone| cloudflare.records(&zone.id).to_vec()).collect();
        format!(
            "{live:#?}\n{records:#?}\n{:#?}\n{:#?}\n{:#?}",
            cloudflare.applications(),
            cloudflare.tags(),
            cloudflare.policies()
        )
    })
}
