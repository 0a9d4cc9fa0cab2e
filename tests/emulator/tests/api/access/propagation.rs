//! What is changed takes its time to the edge, and visitors of all kinds are watched.

use std::time::Duration;

use cloudflare_emulator::{Visitor, Watched};
use serde_json::json;

use super::{Scene, app};

const URL: &str = "https://www.example.com/";

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A clock that stands, and `www` through a tunnel.
fn published() -> Scene {
    let scene = Scene::new();
    scene.emulator.stop_clock();
    let tunnel = scene.emulator.add_tunnel("shop");
    let target = format!("{tunnel}.cfargotunnel.com");
    let record = json!({"type": "CNAME", "name": "www", "content": target, "proxied": true});
    scene.emulator.add_record("example.com", record).unwrap();
    scene.emulator.put_configuration("shop", r#"{"ingress": [{"service": "http://web"}]}"#).unwrap();
    scene
}

/// From when, in milliseconds since the first look, the visitor got what.
fn story(watched: &Watched) -> Vec<(u128, &'static str)> {
    let begun = watched.changes[0].from;
    let word = |text: String| match text.split(' ').next().unwrap() {
        "http://web" => "served",
        "turned" => "out",
        _ => "other",
    };
    watched
        .changes
        .iter()
        .map(|change| ((change.from - begun).as_millis(), word(change.got[0].to_string())))
        .collect()
}

#[test]
fn visitors_with_and_without_a_login_are_watched_while_applications_are_on_their_way() {
    let scene = published();
    let emulator = &scene.emulator;
    emulator.delay_applications(ms(300));
    emulator.watch_as(&[Visitor::WithoutLogin, Visitor::WithLogin], &[URL]);
    scene.made(&app("web", &["www.example.com"], &json!([scene.staff])));
    assert!(emulator.visit("www.example.com", "/").is_served(), "on its way");
    emulator.advance_clock(ms(1000));
    assert!(!emulator.visit("www.example.com", "/").is_served());
    let decide = |decision: &str| {
        emulator.edit(|cloudflare| decision.clone_into(&mut cloudflare.policy_mut("staff").decision));
        emulator.visit("www.example.com", "/").is_served()
    };
    assert!(decide("bypass") && !decide("allow"), "by hand, with nothing under way");
    emulator.edit(|cloudflare| cloudflare.delete_application("web"));
    emulator.advance_clock(ms(1000));
    let watched = emulator.watched();
    let [without, with] = watched.as_slice() else { panic!("two visitors in {watched:?}") };
    assert_eq!((without.visitor, with.visitor), (Visitor::WithoutLogin, Visitor::WithLogin));
    let by_hand = [(1000, "served"), (1000, "out")];
    assert_eq!(story(without), [&[(0, "served"), (300, "out")], &by_hand[..], &[(1300, "served")]].concat());
    assert!(story(with).iter().all(|(_, got)| *got == "served"), "{with}");
    assert!(story(with).contains(&(300, "served")), "with an audience from now on");
    assert_eq!((without.lost_time(), with.lost_time()), (ms(1000), ms(0)), "{without}\n{with}");
    assert!(with.to_string().starts_with("https://www.example.com/ with_login\n"), "{with}");
}

#[test]
fn nothing_overtakes_and_without_a_delay_all_is_there_at_once() {
    let scene = published();
    let emulator = &scene.emulator;
    emulator.watch(&[URL]);
    scene.made(&app("web", &["www.example.com"], &json!([scene.staff])));
    emulator.delay_applications(ms(300));
    emulator.edit(|cloudflare| cloudflare.delete_application("web"));
    emulator.delay_applications(ms(0));
    scene.made(&app("web", &["www.example.com"], &json!([scene.staff])));
    emulator.advance_clock(ms(1000));
    assert_eq!(story(&emulator.watched()[0]), [(0, "served"), (0, "out"), (300, "served"), (300, "out")]);
}
