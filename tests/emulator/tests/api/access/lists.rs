//! Lists of applications, and the organization.

use std::time::Duration;

use cloudflare_emulator::NeverSetUp;
use serde_json::{Value, json};

use super::{Scene, app};
use crate::client::read;

#[test]
fn the_list_is_paged() {
    let scene = Scene::new();
    for name in ["a", "b", "ab"] {
        scene.made(&app(name, &[&format!("{name}.example.com")], &json!([])));
    }
    assert_eq!(scene.listed("?per_page=2"), ["a", "b"]);
    assert_eq!(scene.listed("?per_page=2&page=2"), ["ab"]);
    assert_eq!(scene.get("apps?per_page=2").json()["result_info"]["total_count"], 3);
    for unknown in ["per_page=1001", "name=a"] {
        assert_eq!(scene.get(&format!("apps?{unknown}")).code(), 12130, "{unknown}");
    }
}

#[test]
fn a_new_application_is_listed_later_and_answers_by_its_id() {
    let scene = Scene::new();
    scene.emulator.stop_clock();
    scene.emulator.edit(|cloudflare| {
        cloudflare.whims_mut().unlisted_application_time = Duration::from_secs(30);
    });
    let made = scene.made(&app("web", &["www.example.com"], &json!([])));
    let path = format!("apps/{}", made["id"].as_str().unwrap());
    assert!(scene.listed("").is_empty());
    assert_eq!(scene.get(&path).result(), made);
    assert_eq!(scene.refused(&app("web", &["www.example.com"], &json!([]))).1, 11010, "it is there");
    scene.emulator.advance_clock(Duration::from_secs(29));
    assert!(scene.listed("").is_empty());
    scene.emulator.advance_clock(Duration::from_secs(1));
    assert_eq!(scene.listed(""), ["web"]);
    scene.emulator.add_application(&app("hand", &["hand.example.com"], &json!([]))).unwrap();
    assert_eq!(scene.listed(""), ["web", "hand"], "made by hand, it is listed at once");
}

#[test]
fn applications_of_a_zone_and_of_the_account_are_apart() {
    let scene = Scene::new();
    scene.made(&app("account", &["www.example.com"], &json!([])));
    let zone = format!("/zones/{}/access", scene.zone);
    let old = app("zone", &["old.example.com"], &json!([scene.staff]));
    let add = |body: &Value| scene.emulator.edit(|it| it.add_zone_application("example.com", body));
    let id = add(&old).unwrap();
    assert_eq!(scene.listed(""), ["account"]);
    assert_eq!(super::names(&read(&scene.emulator, &format!("{zone}/apps")).result()), ["zone"]);
    assert_eq!(scene.get(&format!("apps/{id}")).code(), 11021);
    scene.emulator.add_zone("example.org", cloudflare_emulator::Plan::Free);
    let foreign = app("zone", &["www.example.org"], &json!([]));
    assert_eq!(add(&foreign).unwrap_err().code, 12130, "another zone of the account");
    assert_eq!(read(&scene.emulator, &format!("{zone}/policies")).code(), 7003);
}

#[test]
fn an_account_says_its_team_or_that_access_was_never_set_up() {
    let scene = Scene::new();
    let organization = || scene.get("organizations");
    assert_eq!(organization().result()["auth_domain"], "shop.cloudflareaccess.com");
    scene.emulator.set_up_access("new-shop");
    assert_eq!(organization().result()["auth_domain"], "new-shop.cloudflareaccess.com");
    let account = scene.emulator.account();
    let never = |how: NeverSetUp| {
        scene.emulator.edit(|cloudflare| {
            let organization = cloudflare.organization_mut(&account);
            (organization.team, organization.never_set_up) = (None, how);
        });
    };
    let new = app("web", &["www.example.com"], &json!([]));
    for (how, status, code) in [(NeverSetUp::NotEnabled, 403, 9999), (NeverSetUp::NotFound, 404, 10404)] {
        never(how);
        for path in ["organizations", "apps", "policies", "tags"] {
            assert_eq!((scene.get(path).status, scene.get(path).code()), (status, code), "{path}");
        }
        assert_eq!(scene.call("POST", "apps", &new).code(), code);
    }
    never(NeverSetUp::WithoutDomain);
    assert_eq!(organization().result()["auth_domain"], Value::Null);
    assert!(scene.listed("").is_empty());
    assert_eq!(scene.call("POST", "apps", &new).code(), 9999);
}
