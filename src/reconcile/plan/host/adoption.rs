//! Decides what becomes ours, as far as `ADOPT` allows. It is planned as if it were ours already, except for the order:
//! a rule that is taken over is not changed before its digest is stamped.

use std::collections::BTreeMap;

use super::adopted::{Adopted, AdoptedRule};
use super::needs::{need_of_rule, needs_of_records, rule_in_place};
use super::standing::Standing;
use super::{Desired, obstacle};
use crate::ingress::WantedRule;
use crate::model::{Record, RecordId, TunnelId};
use crate::ordered::inserted;
use crate::reconcile::adopt::{Adopt, Need};
use crate::reconcile::claim_state::ClaimState;
use crate::reconcile::plan::Adoption;
use crate::reconcile::stamp::{Digest, Stamp};

/// The state after taking over everything allowed for the `desired` endpoints; `None` if nothing is allowed.
pub(super) fn adopting<'a>(standing: &Standing<'a>, desired: &[Desired<'_>]) -> Option<Standing<'a>> {
    let adopt = &standing.policy().adopt;
    if desired.is_empty() || *adopt == Adopt::default() {
        return None;
    }
    let needs = needs_of_records(standing, desired)?;
    if !needs.iter().all(|need| adopt.reaches(need)) {
        return None;
    }
    let standing = with_records(standing);
    let rules = desired.iter().flat_map(|desired| rules_for(&standing, desired)).collect();
    Some(with_rules(standing, rules))
}

/// Adds the records in the way as our own, with the claims of their stamps.
fn with_records<'a>(standing: &Standing<'a>) -> Standing<'a> {
    let (records, owner) = (&standing.foreign_records, &standing.policy().owner);
    let stamp = standing.stamp.clone();
    let stamp = records.iter().fold(stamp, |stamp, record| Some(merged_stamp(stamp, record, owner)));
    let standing_ours = Standing {
        hostname: standing.hostname.clone(),
        own_records: standing.own_records.iter().chain(records).copied().collect(),
        outer_records: standing.outer_records.clone(),
        foreign_records: Vec::new(),
        stamp,
        claims: BTreeMap::new(),
        adopted: Adopted::default(),
        ..*standing
    };
    let claims = standing_ours.claim_states();
    let is_new = |digest: &&Digest| !standing.claims.contains_key(digest);
    let digests = inserted(claims.keys().filter(is_new).copied());
    let adopted = Adopted { records: records.clone(), digests, rules: Vec::new() };
    Standing { claims, adopted, ..standing_ours }
}

/// Another owner's claims become ours, and a person's text in the comment becomes our stamp's remark.
fn merged_stamp(stamp: Option<Stamp>, record: &Record, owner: &str) -> Stamp {
    match (stamp, Stamp::of(record)) {
        (Some(stamp), None) => stamp,
        (Some(mut stamp), Some(theirs)) => {
            stamp.claims.merge(&theirs.claims);
            stamp
        }
        (None, Some(mut theirs)) => {
            theirs.owner = owner.into();
            theirs
        }
        (None, None) => {
            let mut stamp = Stamp::new(owner);
            stamp.set_remark(&record.comment);
            stamp
        }
    }
}

fn with_rules<'a>(mut standing: Standing<'a>, rules: Vec<AdoptedRule<'a>>) -> Standing<'a> {
    standing.claims.extend(rules.iter().map(|AdoptedRule { digest, tunnel, rule, is_kept: _ }| {
        (*digest, ClaimState::Standing { tunnel: tunnel.clone(), rule })
    }));
    standing.adopted.rules = rules;
    standing
}

/// The rules to take over where one is desired: in its tunnel, and in the one that visitors are led to now.
fn rules_for<'a>(standing: &Standing<'a>, desired: &Desired<'_>) -> Vec<AdoptedRule<'a>> {
    let Some(wanted) = &desired.publication.rule else {
        return Vec::new();
    };
    let target = desired.tunnel();
    let led_to = standing.led_to().filter(|_| !standing.adopted.records.is_empty());
    let other = led_to.filter(|led_to| led_to != target);
    let other = other.or_else(|| obstacle::visited_instead_of(standing, target));
    let tunnels = [target.clone()].into_iter().chain(other);
    tunnels.filter_map(|tunnel| adopted_rule(standing, tunnel, target, wanted)).collect()
}

fn adopted_rule<'a>(
    standing: &Standing<'a>,
    tunnel: TunnelId,
    target: &TunnelId,
    wanted: &WantedRule,
) -> Option<AdoptedRule<'a>> {
    let adopt = &standing.policy().adopt;
    let digest = Digest::of(&tunnel, wanted.path_text());
    if standing.has(digest) || obstacle::twin(standing, &tunnel, wanted.path_text()).is_some() {
        return None;
    }
    let rule = rule_in_place(standing, &tunnel, wanted)?;
    let need = if tunnel == *target || !standing.has_record() {
        need_of_rule(standing, &tunnel, rule, wanted)
    } else {
        Need::Tunnel
    };
    if obstacle::takes_back(standing, &tunnel, rule, wanted) || !adopt.reaches(&need) {
        return None;
    }
    let is_kept = need == Need::Identical && !adopt.reaches(&Need::Tunnel);
    Some(AdoptedRule { digest, tunnel, rule, is_kept })
}

/// The things that become ours together with the `desired` paths.
pub(super) fn adoptions(standing: &Standing<'_>, desired: &[Desired<'_>]) -> Vec<Adoption> {
    let Adopted { records, rules, digests: _ } = &standing.adopted;
    let is_desired =
        |adopted: &&AdoptedRule<'_>| desired.iter().any(|desired| desired.path() == adopted.rule.path());
    let records = records.iter().map(|record| record_adoption(record));
    records.chain(rules.iter().filter(is_desired).map(rule_adoption)).collect()
}

fn record_adoption(Record { kind, content, comment, .. }: &Record) -> Adoption {
    let mut was = format!("record {kind} {content:?}");
    if !comment.is_empty() {
        was.push_str(&format!(" with the comment {comment:?}"));
    }
    Adoption { path: None, was }
}

fn rule_adoption(AdoptedRule { tunnel, rule, .. }: &AdoptedRule<'_>) -> Adoption {
    let was = format!("rule of tunnel {tunnel} with service {:?}", rule.service());
    Adoption { path: Some(rule.path().unwrap_or_default().into()), was }
}

/// The comments of the records that are taken over.
pub(super) fn comments_before(standing: &Standing<'_>) -> Vec<(RecordId, Box<str>)> {
    let records = standing.adopted.records.iter();
    records.map(|record| (record.id.clone(), record.comment.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Fixture, HOME, NAME, OFFICE, SERVICE, digest, tunnel};
    use super::*;

    /// Somebody's CNAME to the tunnel, with somebody's rule.
    fn theirs(service: &str) -> Fixture {
        let fixture = Fixture::new().record(NAME, "CNAME", &tunnel(HOME).hostname(), "a text");
        fixture.rule(HOME, "", service).asks(HOME, "", SERVICE)
    }

    fn takes_over(fixture: &Fixture) -> bool {
        adopting(&fixture.standing(), &fixture.desired()).is_some()
    }

    #[test]
    fn nothing_is_taken_over_where_it_is_off() {
        assert!(!takes_over(&theirs(SERVICE)));
    }

    #[test]
    fn each_mode_takes_over_as_much_as_it_says() {
        let address = || Fixture::new().record(NAME, "A", "192.0.2.1", "").asks(HOME, "", SERVICE);
        let owned = || {
            let comment = "external-dns owner=other rules=-";
            Fixture::new().record(NAME, "CNAME", "somewhere.test", comment).asks(HOME, "", SERVICE)
        };
        for (mode, identical, tunnel, owner, all) in [
            ("identical", true, false, false, false),
            ("tunnel", true, true, false, false),
            ("owner=other", false, false, true, false),
            ("all", true, true, true, true),
        ] {
            let is = [theirs(SERVICE), theirs("http://old:80"), owned(), address()];
            assert_eq!(
                is.map(|fixture| takes_over(&fixture.adopt(mode))),
                [identical, tunnel, owner, all],
                "{mode}"
            );
        }
    }

    #[test]
    fn name_servers_and_what_cloudflare_manages_stay() {
        let fixture = Fixture::new().record(NAME, "NS", "ns.other.test", "").asks(HOME, "", SERVICE);
        assert!(!takes_over(&fixture.adopt("all")));
    }

    #[test]
    fn what_is_taken_over_is_planned_for_as_ours_and_is_not_stamped_yet() {
        let fixture = theirs("http://old:80").adopt("all");
        let standing = adopting(&fixture.standing(), &fixture.desired()).expect("it is taken over");
        assert_eq!((standing.own_records.len(), standing.foreign_records.len()), (1, 0));
        let digest = digest(HOME, "");
        assert!(standing.has(digest) && !standing.is_stamped(digest));
        let was: Vec<String> =
            adoptions(&standing, &fixture.desired()).into_iter().map(|adoption| adoption.was).collect();
        let record = format!("record CNAME {:?} with the comment \"a text\"", tunnel(HOME).hostname());
        assert_eq!(was, [record, format!("rule of tunnel {HOME} with service \"http://old:80\"")]);
        assert_eq!(&*comments_before(&standing)[0].1, "a text");
    }

    #[test]
    fn another_owners_claims_become_ours() {
        let comment = format!("external-dns owner=other rules={}", digest(HOME, ""));
        let fixture = Fixture::new().record(NAME, "CNAME", &tunnel(HOME).hostname(), &comment);
        let fixture = fixture.rule(HOME, "", SERVICE).asks(HOME, "", SERVICE).adopt("owner=other");
        let standing = adopting(&fixture.standing(), &fixture.desired()).expect("it is taken over");
        assert_eq!(standing.stamp.as_ref().map(|stamp| &*stamp.owner), Some("default"));
        assert!(standing.has(digest(HOME, "")) && !standing.is_stamped(digest(HOME, "")));
    }

    #[test]
    fn a_rule_that_may_only_be_taken_over_as_it_is_is_kept() {
        for (mode, is_kept) in [("identical", true), ("tunnel", false)] {
            let fixture = theirs(SERVICE).adopt(mode);
            let standing = adopting(&fixture.standing(), &fixture.desired()).expect("it is taken over");
            assert_eq!(standing.adopted.is_kept(digest(HOME, "")), is_kept, "{mode}");
        }
    }

    #[test]
    fn no_rule_of_a_tunnel_that_is_left_counts_as_identical() {
        for (modes, is_taken) in [("identical,owner=other", false), ("tunnel,owner=other", true)] {
            let comment = "external-dns owner=other rules=-";
            let fixture = Fixture::new().record(NAME, "CNAME", &tunnel(OFFICE).hostname(), comment);
            let fixture = fixture.rule(OFFICE, "", SERVICE).asks(HOME, "", SERVICE).adopt(modes);
            let standing = adopting(&fixture.standing(), &fixture.desired()).expect("it is taken over");
            assert_eq!(standing.has(digest(OFFICE, "")), is_taken, "{modes}");
        }
    }

    #[test]
    fn the_rule_that_visitors_are_led_to_is_taken_over_with_the_record() {
        let fixture = Fixture::new().record(NAME, "CNAME", &tunnel(OFFICE).hostname(), "");
        let fixture = fixture.rule(OFFICE, "", "http://old:80").asks(HOME, "", SERVICE).adopt("tunnel");
        let standing = adopting(&fixture.standing(), &fixture.desired()).expect("it is taken over");
        assert!(standing.has(digest(OFFICE, "")));
    }
}
