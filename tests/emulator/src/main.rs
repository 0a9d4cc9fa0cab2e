//! The emulator as a program, for tests in other languages.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use cloudflare_emulator::{Emulator, Permission, Plan, Token, control};
use serde_json::json;

/// The token of the ready-made account, of the shape that Cloudflare's have.
const TOKEN: &str = "emulated-token-0123456789-abcdefghijklmn";

const HELP: &str = "\
Usage: cloudflare-emulator [--listen <address:port>] [--without-tunnels]

A stateful Cloudflare API on loopback. It starts with a small account: the zones example.com (Free) and example.org
(Pro), the tunnel `shop` that was never configured and the tunnel `handmade` with rules and a record made by
hand. One line of JSON on stdout says where and what: base_url, control_url, token, account_id, and the lists
tunnels and zones of id and name. It serves until it is killed.

  --listen <address:port>  where to listen; 127.0.0.1:0 (any free port) unless said
  --without-tunnels        leaves out both tunnels, with the rules and the record
  --help                   this text

";

fn main() -> ExitCode {
    let mut address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut has_tunnels = true;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--without-tunnels" {
            has_tunnels = false;
            continue;
        }
        let value = match argument.split_once('=') {
            Some(("--listen", value)) => Some(value.to_owned()),
            _ if argument == "--listen" => arguments.next(),
            _ if argument == "--help" || argument == "-h" => {
                print!("{HELP}{}", control::HELP);
                return ExitCode::SUCCESS;
            }
            _ => return misused(&format!("unknown argument {argument:?}")),
        };
        match value.as_deref().map(str::parse) {
            Some(Ok(parsed)) => address = parsed,
            _ => return misused("--listen takes an address with a port, as 127.0.0.1:8080"),
        }
    }
    let emulator = match Emulator::start_at(address) {
        Ok(emulator) => emulator,
        Err(error) => {
            eprintln!("cloudflare-emulator: cannot listen on {address}: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", furnish(&emulator, has_tunnels));
    emulator.serve_forever();
    ExitCode::SUCCESS
}

fn misused(mistake: &str) -> ExitCode {
    eprintln!("cloudflare-emulator: {mistake}\n\n{HELP}");
    ExitCode::from(64)
}

/// Makes the small account and says what it holds.
fn furnish(emulator: &Emulator, has_tunnels: bool) -> serde_json::Value {
    emulator.add_token(Token::with_permissions(TOKEN, &Permission::ALL));
    emulator.add_zone("example.com", Plan::Free);
    emulator.add_zone("example.org", Plan::Pro);
    if has_tunnels {
        add_tunnels(emulator);
    }
    emulator.edit(|cloudflare| {
        let named = |id: &str, name: &str| json!({"id": id, "name": name});
        json!({
            "base_url": emulator.base_url(),
            "control_url": emulator.control_url(),
            "token": TOKEN,
            "account_id": cloudflare.accounts().first().map(|account| account.id.as_str()),
            "tunnels": cloudflare.tunnels().iter().map(|tunnel| named(&tunnel.id, &tunnel.name)).collect::<Vec<_>>(),
            "zones": cloudflare.zones().iter().map(|zone| named(&zone.id, &zone.name)).collect::<Vec<_>>(),
        })
    })
}

fn add_tunnels(emulator: &Emulator) {
    emulator.add_tunnel("shop");
    let handmade = emulator.add_tunnel("handmade");
    let rules = json!({"ingress": [
        {"hostname": "intranet.example.com", "service": "http://intranet:8080"},
        {"service": "http_status:404"},
    ]});
    let record = json!({
        "type": "CNAME",
        "name": "intranet",
        "content": format!("{handmade}.cfargotunnel.com"),
        "proxied": true,
        "comment": "made by hand",
    });
    emulator
        .put_configuration(&handmade, &rules.to_string())
        .and_then(|_| emulator.add_record("example.com", record))
        .expect("the ready-made rules and records obey Cloudflare's rules");
}
