//! A hostname that moves to another tunnel, however old its record is: what is answered, what stays meanwhile, and what
//! visitors get on the way.

use external_dns_cloudflare_tunnel_webhook::ingress::{Document, Rule};
use external_dns_cloudflare_tunnel_webhook::model::TunnelId;
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use external_dns_cloudflare_tunnel_webhook::reconcile::plan::Plan;
use test_support::fake_cloudflare::{FakeCloudflare, HOME, OFFICE, tunnel_id};
use test_support::harness::endpoint_of;
use test_support::sweeps;

const NAME: &str = "a.example.com";

const MINUTE: usize = 60;
const ELEVEN_MINUTES: usize = 660;
const YEAR: usize = 31_536_000;
const AGES: [usize; 3] = [MINUTE, ELEVEN_MINUTES, YEAR];

/// The rule for a path: its service, and whether it requires a login.
type Wish = (&'static str, &'static str, bool);

const BASE: Wish = ("", "http://web:80", false);
const ADMIN: Wish = ("^/admin", "http://admin:80", false);
/// The same under another path.
const REWORDED: Wish = ("^/adm", "http://admin:80", false);

fn closed((path, service, _): Wish) -> Wish {
    (path, service, true)
}

fn on(tunnel: &str, wishes: &[Wish]) -> Vec<Endpoint> {
    let endpoint = |(path, service, is_closed): &Wish| {
        let mut properties = vec![("tunnel", tunnel), ("tunnel-path", path), ("tunnel-service", service)];
        if *is_closed {
            let check = [("access-required", "true"), ("access-team-name", "team"), ("access-aud-tag", "a")];
            properties.extend(check);
        }
        endpoint_of("ingress/shop/web", NAME, &properties)
    };
    wishes.iter().map(endpoint).collect()
}

/// Published in the tunnel that it leaves, so long ago.
fn published(wishes: &[Wish], age: usize) -> FakeCloudflare {
    let mut cloudflare = FakeCloudflare::new(&[], &[]);
    cloudflare.run_loop(&on("home", wishes), usize::MAX);
    cloudflare.pass(age);
    cloudflare
}

/// The connectors of the new tunnel do not serve what stands there.
fn without_connector(mut cloudflare: FakeCloudflare) -> FakeCloudflare {
    cloudflare.unready.insert(tunnel_id(OFFICE), "no connector".to_owned());
    cloudflare
}

/// The refusals, each with its path.
fn told(plan: &Plan) -> Vec<(&str, &str)> {
    let told = plan.refusals.iter();
    told.map(|one| (one.reason.label_value(), one.set_identifier.as_deref().unwrap_or("-"))).collect()
}

fn paths(cloudflare: &FakeCloudflare, tunnel: &str) -> Vec<String> {
    let rules = cloudflare.document(&tunnel_id(tunnel)).rules().iter().filter(|rule| rule.hostname() == NAME);
    rules.map(|rule| rule.path().unwrap_or_default().to_owned()).collect()
}

fn led_to(cloudflare: &FakeCloudflare) -> Option<TunnelId> {
    let record = cloudflare.records.iter().find(|record| *record.name == *NAME)?;
    TunnelId::from_hostname(&record.content)
}

/// Under `--registry=crd` what was answered 204 is never asked for again.
#[test]
fn a_move_begins_with_its_first_write_however_old_its_record_is() {
    for age in AGES {
        let mut cloudflare = published(&[BASE], age);
        let desired = on("office", &[BASE]);
        for expected in [&[("moving", "-")][..], &[("moving", "-")], &[]] {
            assert_eq!(told(&cloudflare.run_loop(&desired, usize::MAX)), expected, "{age} s");
        }
        assert_eq!((paths(&cloudflare, HOME).len(), paths(&cloudflare, OFFICE).len()), (0, 1), "{age} s");

        let theirs = ("a.example.com", "A", "192.0.2.1");
        let mut cloudflare = FakeCloudflare::new(&[], &[theirs]).adopting(&["all"]);
        cloudflare.pass(age);
        for expected in [&[("moving", "-")][..], &[]] {
            let plan = cloudflare.run_loop(&on("home", &[BASE]), usize::MAX);
            assert_eq!(told(&plan), expected, "taken over after {age} s");
        }
    }
}

/// However old the record is, a loop that writes the rule or leads the record over tells of a move that goes on.
#[test]
fn a_move_goes_on_with_a_rule_that_comes_late_and_with_the_record_that_is_led_over() {
    let desired = on("office", &[BASE]);
    let mut cloudflare = published(&[BASE], YEAR);
    cloudflare.run_loop(&desired, 1);
    assert_eq!(paths(&cloudflare, OFFICE), [""; 0], "only the comment was written");
    cloudflare.pass(YEAR);
    assert_eq!(told(&cloudflare.run_loop(&desired, usize::MAX)), [("moving", "-")]);
    let mut cloudflare = without_connector(cloudflare);
    cloudflare.pass(YEAR);
    assert_eq!(told(&cloudflare.run_loop(&desired, usize::MAX)), [("moving", "-")]);
    cloudflare.unready.clear();
    assert_eq!(told(&cloudflare.run_loop(&desired, usize::MAX)), [("moving", "-")], "its old rule is left");
    assert_eq!(led_to(&cloudflare), Some(tunnel_id(OFFICE)));
}

/// A path that changes is a creation and a deletion. The old rule was gone before the record was led to the new one.
#[test]
fn a_path_that_is_reworded_in_a_move_stays_until_its_hostname_has_moved() {
    for age in AGES {
        let mut cloudflare = without_connector(published(&[BASE, closed(ADMIN)], age));
        let desired = on("office", &[BASE, closed(REWORDED)]);
        assert_eq!(told(&cloudflare.run_loop(&desired, usize::MAX)), [("moving", "-")], "{age} s");
        cloudflare.pass(YEAR);
        for _ in 0..2 {
            let plan = cloudflare.run_loop(&desired, usize::MAX);
            assert_eq!(told(&plan), [("moving", "-")]);
            assert_eq!(paths(&cloudflare, HOME), ["^/admin", ""], "{age} s");
        }
        cloudflare.unready.clear();
        for _ in 0..2 {
            cloudflare.run_loop(&desired, usize::MAX);
        }
        assert_eq!((paths(&cloudflare, HOME).len(), paths(&cloudflare, OFFICE).len()), (0, 2), "{age} s");
    }
}

#[test]
fn a_path_that_is_reworded_while_a_move_waits_stays_until_its_hostname_has_moved() {
    let mut cloudflare = without_connector(published(&[BASE, ADMIN], YEAR));
    cloudflare.run_loop(&on("office", &[BASE, ADMIN]), usize::MAX);
    cloudflare.pass(ELEVEN_MINUTES);
    let desired = on("office", &[BASE, REWORDED]);
    assert_eq!(told(&cloudflare.run_loop(&desired, usize::MAX)), [("moving", "-")], "it begins anew");
    cloudflare.pass(ELEVEN_MINUTES);
    let plan = cloudflare.run_loop(&desired, usize::MAX);
    assert_eq!(told(&plan), [("moving", "-")]);
    assert_eq!(
        (paths(&cloudflare, HOME), paths(&cloudflare, OFFICE)),
        (vec!["^/admin".into(), String::new()], vec!["^/adm".into(), String::new()])
    );
}

/// The path may be what moves under another name, and the rule behind it may lack its check. Under `--registry=crd`
/// what was answered 204 is never asked for again.
#[test]
fn a_path_that_is_deleted_stays_until_its_hostname_has_moved_and_is_unfinished_until_then() {
    for (base, admin) in [(BASE, ADMIN), (BASE, closed(ADMIN)), (closed(BASE), closed(ADMIN))] {
        let desired = on("office", &[base]);
        let mut cloudflare = without_connector(published(&[base, admin], YEAR));
        for _ in 0..3 {
            assert_eq!(told(&cloudflare.run_loop(&desired, usize::MAX)), [("moving", "-")]);
            assert_eq!(paths(&cloudflare, HOME), ["^/admin", ""]);
            cloudflare.pass(YEAR);
        }
        cloudflare.unready.clear();
        cloudflare.run_loop(&desired, usize::MAX);
        cloudflare.pass(MINUTE);
        cloudflare.run_loop(&desired, usize::MAX);
        assert_eq!((paths(&cloudflare, HOME).len(), paths(&cloudflare, OFFICE).len()), (0, 1));
    }
}

/// A move on its way.
#[derive(Clone, Copy, Debug)]
struct Way {
    age: usize,
    /// Before this loop eleven minutes pass.
    waits_at: usize,
    /// In this loop the connectors of the new tunnel serve what stands there, and from then on.
    ready_at: usize,
    /// Up to this loop the hostname moves as it was; then its paths change.
    changes_at: usize,
    /// This loop ends after so many writes.
    ends: Option<(usize, usize)>,
}

const NEVER: usize = usize::MAX;
const LOOPS: usize = 10;

fn ways() -> Vec<Way> {
    let ends = (0..4).flat_map(|nth| (0..3).map(move |writes| Some((nth, writes)))).chain([None]);
    let mut ways = Vec::new();
    for ends in ends {
        for age in AGES {
            for waits_at in [1, 2, 5] {
                for ready_at in [0, 2, 5, NEVER] {
                    ways.extend([0, 1, 2].map(|changes_at| Way {
                        age,
                        waits_at,
                        ready_at,
                        changes_at,
                        ends,
                    }));
                }
            }
        }
    }
    ways
}

fn takes(path: &str, url: &str) -> bool {
    url.starts_with(path.trim_start_matches('^'))
}

/// Whether a login is required of a visitor; `None` if there is no answer.
fn wished(wishes: &[Wish], url: &str) -> Option<bool> {
    let taking = wishes.iter().filter(|(path, ..)| takes(path, url));
    taking.max_by_key(|(path, ..)| path.len()).map(|(.., is_closed)| *is_closed)
}

fn got(document: &Document, url: &str) -> Option<bool> {
    let mut rules = document.rules().iter().filter(|rule| rule.hostname() == NAME);
    rules.find(|rule| takes(rule.path().unwrap_or_default(), url)).map(Rule::requires_access)
}

/// Plays the loops of a move, and says what is wrong of it; false if something of it is refused.
fn play(before: &[Wish], after: &[Wish], way: Way) -> Result<bool, String> {
    let [home, office] = [HOME, OFFICE].map(tunnel_id);
    let mut cloudflare = published(before, way.age);
    let mut served = cloudflare.documents.clone();
    for nth in 0..LOOPS {
        if nth == way.waits_at || nth + 4 >= LOOPS {
            cloudflare.pass(ELEVEN_MINUTES);
        }
        served.insert(home.clone(), cloudflare.document(&home).clone());
        if nth >= way.ready_at {
            served.insert(office.clone(), cloudflare.document(&office).clone());
            cloudflare.unready.clear();
        } else {
            cloudflare.unready.insert(office.clone(), "no connector".to_owned());
        }
        let desired = on("office", if nth < way.changes_at { before } else { after });
        let plan = cloudflare.plan(&cloudflare.changes(&desired));
        let labels: Vec<_> = told(&plan).into_iter().map(|(label, _)| label).collect();
        if labels.iter().any(|label| *label != "moving") {
            return Ok(false);
        }
        if plan.is_empty() && plan.refusals.is_empty() && nth >= way.changes_at {
            break;
        }
        let is_begun = paths(&cloudflare, OFFICE).is_empty();
        if is_begun && !labels.contains(&"moving") {
            return Err(format!("loop {nth} begins the move and tells {labels:?}"));
        }
        let led_before = led_to(&cloudflare);
        let (mut limit, mut is_done) = (0, false);
        while !is_done {
            let mut state = cloudflare.clone();
            is_done = state.apply(&plan, limit);
            let tunnels = led_before.iter().chain(led_to(&state).iter()).cloned().collect::<Vec<_>>();
            for (url, tunnel) in
                ["/", "/admin/x"].into_iter().flat_map(|url| tunnels.iter().map(move |id| (url, id)))
            {
                let wishes = [wished(before, url), wished(after, url)];
                let got = [&served[tunnel], state.document(tunnel)].map(|document| got(document, url));
                if wishes.iter().all(Option::is_some) && got.contains(&None) {
                    return Err(format!("{url} is lost after {limit} writes of loop {nth}"));
                }
                if wishes == [Some(true); 2] && got.contains(&Some(false)) {
                    return Err(format!("{url} is open after {limit} writes of loop {nth}"));
                }
            }
            if is_done || way.ends == Some((nth, limit)) {
                cloudflare = state;
                break;
            }
            limit += 1;
        }
        let is_waiting = labels.contains(&"moving") && way.ready_at != NEVER;
        if nth + 2 >= LOOPS && (!plan.is_empty() || is_waiting) {
            return Err(format!("loop {nth} does not end: {labels:?}, {} hostnames", plan.hosts.len()));
        }
    }
    let moved = paths(&cloudflare, HOME).is_empty() && paths(&cloudflare, OFFICE).len() == after.len();
    if moved || way.ready_at == NEVER { Ok(true) } else { Err("it is not moved in the end".to_owned()) }
}

/// Each kind of a hostname with each other one.
fn hostnames() -> Vec<Vec<Wish>> {
    let bases = [None, Some(BASE), Some(closed(BASE))];
    let paths = [None, Some(ADMIN), Some(closed(ADMIN)), Some(REWORDED), Some(closed(REWORDED))];
    let both = bases.iter().flat_map(|base| paths.map(|path| base.iter().copied().chain(path).collect()));
    both.filter(|wishes: &Vec<Wish>| !wishes.is_empty()).collect()
}

/// Invariant 7 of docs/how-it-works.md, over every small move: no visitor that is served before and after is lost, none
/// that needs a login before and after is let in without one, and each move ends.
#[test]
fn no_visitor_is_lost_or_let_in_by_a_move_whatever_its_age_its_paths_and_its_faults() {
    let (mut wrong, mut played, mut moved) = (Vec::new(), 0, 0);
    let is_reworded = |wishes: &Vec<Wish>| wishes.iter().any(|(path, ..)| *path == REWORDED.0);
    for (nth, before) in hostnames().into_iter().filter(|one| !is_reworded(one)).enumerate() {
        for after in hostnames() {
            for way in sweeps::part(nth, sweeps::part(after.len() + nth / 5, ways())) {
                played += 1;
                match play(&before, &after, way) {
                    Ok(is_moved) => moved += usize::from(is_moved),
                    Err(problem) => wrong.push(format!("{problem}: {before:?} to {after:?}, {way:?}")),
                }
            }
        }
    }
    let shown = wrong.iter().take(5).collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{} of {played}: {shown:#?}", wrong.len());
    assert!(moved * 2 > played, "{moved} of {played} moved");
}

/// Its visitors would be led to that path before it goes, and neither its old rule nor what is asked for now is there.
#[test]
fn a_record_is_led_to_no_tunnel_in_which_a_path_of_it_is_still_to_be_deleted() {
    for age in AGES {
        let mut cloudflare = published(&[BASE], age);
        cloudflare.run_loop(&on("office", &[BASE, ADMIN]), usize::MAX);
        cloudflare.pass(age);
        for _ in 0..4 {
            let before = cloudflare.clone();
            let plan = cloudflare.run_loop(&on("office", &[BASE]), usize::MAX);
            let leads = led_to(&before) != led_to(&cloudflare);
            let deletes = paths(&before, OFFICE) != paths(&cloudflare, OFFICE);
            assert!(!leads || !deletes, "{age} s: {plan:?}");
            cloudflare.pass(MINUTE);
        }
        assert_eq!(
            (led_to(&cloudflare), paths(&cloudflare, OFFICE).len()),
            (Some(tunnel_id(OFFICE)), 1),
            "{age} s"
        );
    }
}
