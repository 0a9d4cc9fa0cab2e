//! Other people and programs write the same tunnels and zones, at any time. What is ours is mended, what is theirs is
//! never touched, and everything comes to rest.

mod drift;
mod instances;

use cloudflare_emulator::{Cloudflare, Fault, Matcher};
use external_dns_cloudflare_tunnel_webhook::model::endpoint::Endpoint;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use test_support::external_dns::ExternalDns;
use test_support::harness::{Harness, endpoint, published};
use test_support::sweeps;

use crate::shared_account::{SharedAccount, is_stamped, stamp, visits};

/// What another program or person does to the tunnel `home` and the zone `example.com`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit {
    AddsARuleInFront,
    AddsARuleAtTheEnd,
    ChangesARuleOfTheirs,
    TakesTheHostnameThatComes,
    TakesTheHostnameThatComesWithOurService,
    CoversEverything,
    ReplacesOurRule,
    AddsAFieldToOurRule,
    DeletesOurRule,
    DeletesOurRecord,
    EditsOurStampAway,
    AddsARemarkToOurStamp,
    LeadsOurRecordElsewhere,
    MakesOurRecordAnAddress,
    UnproxiesOurRecord,
    AddsAnAddressOnTheHostnameThatComes,
}

const EDITS: [Edit; 16] = [
    Edit::AddsARuleInFront,
    Edit::AddsARuleAtTheEnd,
    Edit::ChangesARuleOfTheirs,
    Edit::TakesTheHostnameThatComes,
    Edit::TakesTheHostnameThatComesWithOurService,
    Edit::CoversEverything,
    Edit::ReplacesOurRule,
    Edit::AddsAFieldToOurRule,
    Edit::DeletesOurRule,
    Edit::DeletesOurRecord,
    Edit::EditsOurStampAway,
    Edit::AddsARemarkToOurStamp,
    Edit::LeadsOurRecordElsewhere,
    Edit::MakesOurRecordAnAddress,
    Edit::UnproxiesOurRecord,
    Edit::AddsAnAddressOnTheHostnameThatComes,
];

const ADDED: &str = r#"{"hostname": "added.example.com","service":"http://added:80","y":[1, 2]}"#;
const TAKEN: &str = r#"{"service":"http://taken:80","hostname":"comes.example.com"}"#;
const TAKEN_WITH_NOTE: &str =
    r#"{"note":"ours too", "hostname":"comes.example.com","service":"http://comes:80"}"#;
const COVER: &str = r#"{"hostname":"*.example.com","service":"http://cover:80"}"#;

impl Edit {
    fn apply(self, cloudflare: &mut Cloudflare) {
        match self {
            Self::AddsARuleInFront => edit_rules(cloudflare, |rules| rules.insert(0, ADDED.to_owned())),
            Self::AddsARuleAtTheEnd => {
                edit_rules(cloudflare, |rules| rules.insert(rules.len() - 1, ADDED.to_owned()))
            }
            Self::ChangesARuleOfTheirs => edit_rules(cloudflare, |rules| {
                let theirs =
                    rules.iter_mut().find(|rule| rule.contains("\"hand.example.com\"")).expect("theirs");
                *theirs = theirs.replace("http://theirs:80", "http://theirs:81");
            }),
            Self::TakesTheHostnameThatComes => {
                edit_rules(cloudflare, |rules| rules.insert(0, TAKEN.to_owned()))
            }
            Self::TakesTheHostnameThatComesWithOurService => {
                edit_rules(cloudflare, |rules| rules.insert(0, TAKEN_WITH_NOTE.to_owned()));
            }
            Self::CoversEverything => edit_rules(cloudflare, |rules| rules.insert(0, COVER.to_owned())),
            Self::ReplacesOurRule => edit_rules(cloudflare, |rules| {
                for rule in rules.iter_mut().filter(|rule| rule.contains("\"stays.example.com\"")) {
                    *rule = r#"{"hostname":"stays.example.com","service":"http://replaced:80","originRequest":{"noTLSVerify":true}}"#.to_owned();
                }
            }),
            Self::AddsAFieldToOurRule => edit_rules(cloudflare, |rules| {
                for rule in rules.iter_mut().filter(|rule| rule.contains("\"stays.example.com\"")) {
                    *rule = rule.replacen('{', r#"{"note":[1],"#, 1);
                }
            }),
            Self::DeletesOurRule => {
                edit_rules(cloudflare, |rules| rules.retain(|rule| !rule.contains("\"stays.example.com\"")))
            }
            Self::DeletesOurRecord => {
                let id = stays(cloudflare);
                cloudflare.delete_record("example.com", &id).expect("it is there");
            }
            Self::EditsOurStampAway => patch(cloudflare, &json!({"comment": "mine"})),
            Self::AddsARemarkToOurStamp => {
                let records = cloudflare.records("example.com").iter();
                let mut stays = records.filter(|record| record.name == "stays.example.com");
                let comment = stays.next().and_then(|record| record.comment.clone()).unwrap_or_default();
                patch(cloudflare, &json!({"comment": format!("{comment} | mine")}));
            }
            Self::LeadsOurRecordElsewhere => patch(cloudflare, &json!({"content": "elsewhere.test"})),
            Self::MakesOurRecordAnAddress => {
                patch(cloudflare, &json!({"type": "A", "content": "192.0.2.99", "proxied": false}))
            }
            Self::UnproxiesOurRecord => patch(cloudflare, &json!({"proxied": false})),
            Self::AddsAnAddressOnTheHostnameThatComes => {
                // Where ours is there already, Cloudflare rejects theirs.
                let record = json!({"name": "comes.example.com", "type": "A", "content": "192.0.2.98"});
                let _ = cloudflare.add_record("example.com", record);
            }
        }
    }

    /// Whether it is an edit of the document, which a PUT of ours that was read before overwrites: Cloudflare offers
    /// no precondition.
    fn is_of_the_document(self) -> bool {
        match self {
            Self::AddsARuleInFront
            | Self::AddsARuleAtTheEnd
            | Self::ChangesARuleOfTheirs
            | Self::TakesTheHostnameThatComes
            | Self::TakesTheHostnameThatComesWithOurService
            | Self::CoversEverything
            | Self::ReplacesOurRule
            | Self::AddsAFieldToOurRule
            | Self::DeletesOurRule => true,
            Self::DeletesOurRecord
            | Self::EditsOurStampAway
            | Self::AddsARemarkToOurStamp
            | Self::LeadsOurRecordElsewhere
            | Self::MakesOurRecordAnAddress
            | Self::UnproxiesOurRecord
            | Self::AddsAnAddressOnTheHostnameThatComes => false,
        }
    }
}

impl Edit {
    /// Whether nothing says any more that our rule is ours. Without our record the wildcard's leads to it.
    fn orphans_our_rule(self) -> bool {
        matches!(self, Self::EditsOurStampAway | Self::DeletesOurRecord)
    }
}

fn edit_rules(cloudflare: &mut Cloudflare, edit: impl FnOnce(&mut Vec<String>)) {
    let mut rules = rules(cloudflare);
    edit(&mut rules);
    let frame = r#""originRequest":{ "connectTimeout": 10 },"warp-routing":{"enabled": false}"#;
    let document = format!(r#"{{{frame},"ingress":[{}]}}"#, rules.join(","));
    cloudflare.put_configuration("home", &document).expect("cloudflared takes it");
}

fn rules(cloudflare: &Cloudflare) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Document<'a> {
        #[serde(borrow)]
        ingress: Vec<&'a RawValue>,
    }
    let config = cloudflare.configuration("home").expect("it is configured");
    let document: Document<'_> = serde_json::from_str(config.get()).expect("a document");
    document.ingress.into_iter().map(|rule| rule.get().to_owned()).collect()
}

fn stays(cloudflare: &Cloudflare) -> String {
    let records = cloudflare.records("example.com").iter();
    let mut found = records.filter(|record| record.name == "stays.example.com");
    found.next().expect("it is published").id.clone()
}

fn patch(cloudflare: &mut Cloudflare, fields: &Value) {
    let id = stays(cloudflare);
    cloudflare.patch_record("example.com", &id, fields).expect("Cloudflare takes it");
}

fn is_theirs(rule: &str) -> bool {
    ["hand.example.com", "\"http://wild:80\"", "http_status", "added", "taken", "ours too", "cover"]
        .iter()
        .any(|mark| rule.contains(mark))
}

fn before() -> Vec<Endpoint> {
    vec![
        published("stays.example.com", "http://stays:80"),
        published("changes.example.com", "http://old:80"),
        published("goes.example.com", "http://goes:80"),
    ]
}

fn desired() -> Vec<Endpoint> {
    vec![
        published("stays.example.com", "http://stays:80"),
        published("changes.example.com", "http://new:80"),
        published("comes.example.com", "http://comes:80"),
    ]
}

/// Loops of ExternalDNS until two in a row wrote nothing. Where something is refused, they ask for it for ever.
fn run_until_idle(
    external_dns: ExternalDns,
    account: &SharedAccount,
    desired: &[Endpoint],
) -> Result<(), String> {
    let mut quiet = 0;
    for _ in 0..7 {
        account.cloudflare().take_calls();
        external_dns.run_loop(desired).map_err(|status| format!("a loop got {status}"))?;
        quiet = if account.cloudflare().count_calls().writes == 0 { quiet + 1 } else { 0 };
        if quiet == 2 {
            return Ok(());
        }
    }
    Err("it does not come to rest".to_owned())
}

/// Invariant 3 of docs/how-it-works.md.
#[test]
fn whatever_another_program_writes_between_two_calls_ours_is_mended_and_theirs_is_kept() {
    let calls = {
        let account = SharedAccount::new();
        let program = account.harness.start();
        run_until_idle(program.external_dns(), &account, &before()).expect("published");
        account.cloudflare().take_calls();
        program.external_dns().run_loop(&desired()).expect("changed");
        account.cloudflare().take_calls()
    };
    let writes: Vec<usize> =
        (1..).zip(&calls).filter(|(_, call)| call.is_write()).map(|(nth, _)| nth).collect();
    let [stamp, publish, _unstamp] = writes[..] else {
        panic!("two batches and a configuration: {calls:#?}")
    };
    let mut failures = Vec::new();
    for (kind, edit) in EDITS.into_iter().enumerate() {
        for nth in sweeps::part(kind, (1..=calls.len() + 1).collect()) {
            let moment = Moment {
                nth,
                // Right before a PUT is between it and its GET.
                is_overwritten: edit.is_of_the_document() && nth == publish,
                is_before_our_record: nth <= stamp,
                is_after_our_rule: nth > publish,
            };
            if let Err(problem) = edit_at(edit, moment) {
                failures.push(format!("{edit:?} before call {nth} of {}: {problem}", calls.len()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// When the edit comes: before the loop's n-th call from 1, or before the first call of the next loop.
#[derive(Clone, Copy, Debug)]
struct Moment {
    nth: usize,
    is_overwritten: bool,
    is_before_our_record: bool,
    is_after_our_rule: bool,
}

fn edit_at(edit: Edit, moment: Moment) -> Result<(), String> {
    let account = SharedAccount::new();
    let cloudflare = account.cloudflare();
    let program = account.harness.start();
    let external_dns = program.external_dns();
    run_until_idle(external_dns, &account, &before())?;
    cloudflare.edit_before(Matcher::any(), moment.nth, move |cloudflare| edit.apply(cloudflare));
    // A record that is there already may be our own, so ExternalDNS is to ask again.
    let may_ask_again = edit == Edit::AddsAnAddressOnTheHostnameThatComes;
    match external_dns.run_loop(&desired()) {
        Err(503) if may_ask_again => {}
        answer => drop(answer.map_err(|status| format!("the loop got {status}"))?),
    }
    run_until_idle(external_dns, &account, &desired())?;
    if cloudflare.waiting_faults() > 0 {
        return Err("nothing was edited".to_owned());
    }

    let (expected, visits_expected) = theirs_alone(Some(edit).filter(|_| !moment.is_overwritten));
    let (theirs, ours): (Vec<String>, Vec<String>) =
        cloudflare.edit(|cloudflare| rules(cloudflare)).into_iter().partition(|rule| is_theirs(rule));
    if theirs != expected {
        return Err(format!("theirs are {theirs:#?} instead of {expected:#?}"));
    }
    for ((asked, got), (_, wanted)) in visits(cloudflare).into_iter().zip(visits_expected) {
        if got != wanted {
            return Err(format!("a visitor of {asked} gets {got} instead of {wanted}"));
        }
    }

    let stamped =
        |rule: &String| cloudflare.edit(|cloudflare| is_stamped(cloudflare, &account.harness.tunnel, rule));
    for rule in &ours {
        let is_orphan = edit.orphans_our_rule() && rule.contains("stays.example.com");
        if stamped(rule) == is_orphan {
            return Err(format!("stamped is {is_orphan} of our rule {rule}"));
        }
    }
    let takes =
        matches!(edit, Edit::TakesTheHostnameThatComes | Edit::TakesTheHostnameThatComesWithOurService);
    let is_doubled = takes && moment.is_after_our_rule;
    if let Some(rule) =
        theirs.iter().filter(|_| !is_doubled).find(|rule| rule.contains("hostname") && stamped(rule))
    {
        return Err(format!("a stamp of ours names their rule {rule}"));
    }

    let comes = match edit {
        Edit::TakesTheHostnameThatComes if !moment.is_overwritten => "http://taken:80",
        Edit::AddsAnAddressOnTheHostnameThatComes if moment.is_before_our_record => "A 192.0.2.98",
        _ => "http://comes:80",
    };
    for (name, wanted) in [
        ("stays.example.com", "http://stays:80"),
        ("changes.example.com", "http://new:80"),
        ("comes.example.com", comes),
    ] {
        let got = account.harness.service_at(name, "/");
        if got != wanted {
            return Err(format!("a visitor of {name} gets {got} instead of {wanted}"));
        }
    }

    run_until_idle(external_dns, &account, &[])?;
    if is_doubled {
        // Which of the two is ours cannot be told, so both stay until an operator takes theirs away.
        if !names_of_ours(&account).contains(&"comes.example.com".to_owned()) {
            return Err("the record of a doubled rule is gone".to_owned());
        }
        cloudflare.edit(|cloudflare| {
            edit_rules(cloudflare, |rules| rules.retain(|rule| rule != TAKEN && rule != TAKEN_WITH_NOTE))
        });
        run_until_idle(external_dns, &account, &[])?;
    }
    let expected: Vec<String> = if is_doubled { theirs_alone(None).0 } else { expected };
    let left: Vec<String> = cloudflare
        .edit(|cloudflare| rules(cloudflare))
        .into_iter()
        .filter(|rule| !edit.orphans_our_rule() || !rule.contains("stays.example.com"))
        .collect();
    if left != expected || !names_of_ours(&account).is_empty() {
        return Err(format!("after the withdrawal: {left:#?} and {:?}", names_of_ours(&account)));
    }
    Ok(())
}

fn names_of_ours(account: &SharedAccount) -> Vec<String> {
    let records = account.cloudflare().records(&account.harness.zone).into_iter();
    records.filter(|record| stamp(record).is_some()).map(|record| record.name).collect()
}

/// Their rules, and what visitors of foreign hostnames get, where we never were.
fn theirs_alone(edit: Option<Edit>) -> (Vec<String>, Vec<(String, String)>) {
    let account = SharedAccount::new();
    if let Some(edit) = edit.filter(|edit| edit.is_of_the_document()) {
        account.cloudflare().edit(|cloudflare| edit.apply(cloudflare));
    }
    (account.cloudflare().edit(|cloudflare| rules(cloudflare)), visits(account.cloudflare()))
}

/// The digest is stamped, the rule was never written: whatever stands in its place when it is tried again is theirs.
#[test]
fn a_rule_that_takes_the_place_of_one_that_could_not_be_written_is_not_replaced() {
    for edit in [Edit::TakesTheHostnameThatComes, Edit::TakesTheHostnameThatComesWithOurService] {
        let account = SharedAccount::new();
        let cloudflare = account.cloudflare();
        let program = account.harness.start();
        run_until_idle(program.external_dns(), &account, &before()).expect("published");
        cloudflare.fault(Matcher::put_configuration(), 1, Fault::error(403, 10000, "Authentication error"));
        let _ = program.external_dns().run_loop(&desired());
        assert_eq!(cloudflare.waiting_faults(), 0, "the rule was refused");
        assert!(!names_of_ours(&account).contains(&"comes.example.com".to_owned()), "its record is gone");
        // Both snapshots of the loop are taken; the document is read once more before it is written.
        cloudflare.edit_after(Matcher::get_configuration(), 2, move |cloudflare| edit.apply(cloudflare));
        let _ = program.external_dns().run_loop(&desired());
        let _ = run_until_idle(program.external_dns(), &account, &desired());
        let rules = cloudflare.edit(|cloudflare| rules(cloudflare));
        let theirs = rules.iter().filter(|rule| [TAKEN, TAKEN_WITH_NOTE].contains(&rule.as_str())).count();
        assert_eq!(theirs, 1, "{edit:?}: {rules:?}");
        let ours = names_of_ours(&account);
        assert!(!ours.contains(&"comes.example.com".to_owned()), "{edit:?}: our record stays");
    }
}

/// Nothing of a hostname is withdrawn beside a refused rule of it, also if the refusal comes of the write itself.
#[test]
fn a_path_stays_if_a_foreign_rule_takes_its_next_path_right_before_the_write() {
    for nth in 1..4 {
        let harness = Harness::new();
        let program = harness.start();
        let at = |path: &str| {
            endpoint("a.example.com", &[("tunnel-service", "http://web:80"), ("tunnel-path", path)])
        };
        program.external_dns().run_loop(&[at("^/old")]).expect("published");
        let tunnel = harness.tunnel.clone();
        harness.cloudflare.edit_before(Matcher::get_configuration(), nth, move |cloudflare| {
            let rules = json!({"ingress": [
                {"hostname": "a.example.com", "path": "^/new", "service": "http://theirs:80"},
                {"hostname": "a.example.com", "path": "^/old", "service": "http://web:80"},
                {"service": "http_status:404"},
            ]});
            cloudflare.put_configuration(&tunnel, &rules.to_string()).expect("cloudflared takes it");
        });
        for number in 0..3 {
            let _ = program.external_dns().run_loop(&[at("^/new")]);
            assert_eq!(harness.service_at("a.example.com", "/old"), "http://web:80", "{nth}, loop {number}");
            assert_eq!(
                harness.service_at("a.example.com", "/new"),
                "http://theirs:80",
                "{nth}, loop {number}"
            );
        }
    }
}

#[test]
fn of_two_paths_that_foreign_rules_take_right_before_the_write_none_waits_for_the_other() {
    let harness = Harness::new();
    let program = harness.start();
    let at =
        |path: &str| endpoint("a.example.com", &[("tunnel-service", "http://web:80"), ("tunnel-path", path)]);
    let tunnel = harness.tunnel.clone();
    harness.cloudflare.edit_before(Matcher::get_configuration(), 3, move |cloudflare| {
        let rules = json!({"ingress": [
            {"hostname": "a.example.com", "path": "^/one", "service": "http://theirs:80"},
            {"hostname": "a.example.com", "path": "^/two", "service": "http://theirs:80"},
            {"service": "http_status:404"},
        ]});
        cloudflare.put_configuration(&tunnel, &rules.to_string()).expect("cloudflared takes it");
    });
    let _ = program.external_dns().run_loop(&["^/one", "^/two", "^/three"].map(at));
    assert_eq!(harness.log.lines_with(&["refused=rule_conflict", "a.example.com"]).len(), 2);
    let without_them = ["refused=waiting", "plans the hostname anew", "a.example.com"];
    let waiting = harness.log.lines_with(&without_them);
    assert_eq!(waiting.len(), 1, "{waiting:#?}");
    let _ = program.external_dns().run_loop(&["^/one", "^/two"].map(at));
    assert_eq!(harness.log.lines_with(&without_them).len(), 1);
}
