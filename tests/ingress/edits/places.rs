//! Where in the list a rule of ours stands.

use super::*;

#[test]
fn a_rule_stands_directly_before_the_first_foreign_rule_that_covers_it() {
    for (label, before, rule, after) in [
        (
            "only the catch-all covers it",
            vec!["x.example.com - foreign", "- - rest"],
            ("a.example.com", ""),
            vec!["x.example.com - foreign", "a.example.com - own", "- - rest"],
        ),
        (
            "a wildcard covers it, a foreign path rule of its host does not",
            vec!["a.example.com ^/x foreign", "*.example.com - foreign", "- - rest"],
            ("a.example.com", ""),
            vec!["a.example.com ^/x foreign", "a.example.com - own", "*.example.com - foreign", "- - rest"],
        ),
        (
            "the same path text of all hosts covers it",
            vec!["- ^/x foreign", "- - rest"],
            ("a.example.com", "^/x"),
            vec!["a.example.com ^/x own", "- ^/x foreign", "- - rest"],
        ),
        (
            "a wider prefix covers it, a narrower one does not",
            vec!["* ^/api/v2/x(/|$) foreign", "* ^/api(/|$) foreign", "- - rest"],
            ("a.example.com", "^/api/v2(/|$)"),
            vec![
                "* ^/api/v2/x(/|$) foreign",
                "a.example.com ^/api/v2(/|$) own",
                "* ^/api(/|$) foreign",
                "- - rest",
            ],
        ),
        (
            "a wildcard in upper case, or with a dot, matches nothing and covers nothing",
            vec![
                "*.Example.com - foreign",
                "*.example.com. - foreign",
                "a.example.com ^/x foreign",
                "- - rest",
            ],
            ("a.example.com", ""),
            vec![
                "*.Example.com - foreign",
                "*.example.com. - foreign",
                "a.example.com ^/x foreign",
                "a.example.com - own",
                "- - rest",
            ],
        ),
        (
            "where nothing covers it, it stands last and a catch-all behind it",
            vec!["x.example.com - foreign"],
            ("a.example.com", ""),
            vec!["x.example.com - foreign", "a.example.com - own", "- - http_status:404"],
        ),
    ] {
        let edited = edit(&list(&before), &[put(wanted(rule.0, rule.1, "http://own"))]);
        assert_eq!(lines(&edited.document), after, "{label}");
    }
}

#[test]
fn our_rules_stand_from_narrow_to_wide() {
    let sorted = [
        "a.example.com ^/api/v2/ own",
        "b.example.com ^/api/v1 own",
        "a.example.com ^/api(/|$) own",
        r"a.example.com \.(jpg|png)$ own",
        "a.example.com ^/ own",
        "a.example.com - own",
        "b.example.com - own",
        "*.b.example.com - own",
        "*.example.com ^/x own",
        "*.example.com - own",
        "- - rest",
    ];
    let puts: Vec<_> = sorted[..10]
        .iter()
        .map(|line| {
            let [host, path, _] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            put(wanted(host, if path == "-" { "" } else { path }, "http://own"))
        })
        .collect();
    let together = edit(&list(&["- - rest"]), &puts);
    assert_eq!(lines(&together.document), sorted);

    let one_by_one = puts
        .iter()
        .rev()
        .fold(list(&["- - rest"]), |list, put| edit(&list, std::slice::from_ref(put)).document);
    assert_eq!(lines(&one_by_one), sorted);
}

#[test]
fn a_rule_of_ours_that_stands_well_is_not_moved() {
    for (label, rules) in [
        (
            "a foreign rule that overlaps it was put behind it",
            vec!["a.example.com - own", "* ^/x foreign", "- - rest"],
        ),
        (
            "hosts that share nothing are in another order",
            vec!["b.example.com - own", "a.example.com - own", "- - rest"],
        ),
        (
            "a wildcard that has no host in common with it stands in front",
            vec!["*.example.net - own", "a.example.com - own", "- - rest"],
        ),
        (
            "a foreign rule stands between two of ours",
            vec!["a.example.com ^/x own", "* ^/x foreign", "a.example.com - own", "- - rest"],
        ),
        (
            "a wider path that shares no request with it stands in front",
            vec!["a.example.com ^/b own", "a.example.com ^/api own", "- - rest"],
        ),
    ] {
        let document = list(&rules);
        let puts: Vec<_> = document
            .rules()
            .iter()
            .filter(|rule| is_own(rule))
            .map(|rule| put(wanted(rule.hostname(), rule.path().unwrap_or_default(), "http://own")))
            .collect();
        let edited = edit(&document, &puts);
        assert!(edited.changed.is_empty(), "{label}: {:?}", lines(&edited.document));
        for rule in document.rules().iter().filter(|rule| is_own(rule)) {
            assert!(
                !document.marked(&is_own).needs_reordering(&hostname(rule.hostname()), rule.path()),
                "{label}"
            );
        }
    }
}

#[test]
fn a_rule_of_ours_that_is_shadowed_is_moved_and_no_other() {
    for (label, before, (host, path), after) in [
        (
            "behind a foreign rule that covers it",
            vec![
                "z.example.com - own",
                "*.example.com - foreign",
                "a.example.com - own",
                "b.example.com - own",
                "- - rest",
            ],
            ("a.example.com", ""),
            vec![
                "a.example.com - own",
                "z.example.com - own",
                "*.example.com - foreign",
                "b.example.com - own",
                "- - rest",
            ],
        ),
        (
            "behind a wider one of ours",
            vec!["*.example.com - own", "a.example.com - own", "- - rest"],
            ("a.example.com", ""),
            vec!["a.example.com - own", "*.example.com - own", "- - rest"],
        ),
        (
            "behind a wider one of ours, with a foreign rule between them",
            vec!["* ^/x foreign", "*.example.com - own", "* ^/y foreign", "a.example.com - own", "- - rest"],
            ("a.example.com", ""),
            vec!["* ^/x foreign", "a.example.com - own", "*.example.com - own", "* ^/y foreign", "- - rest"],
        ),
        (
            "behind a wider path of ours, with a foreign rule of another host between them",
            vec![
                "a.example.com ^/app own",
                "b.example.com - foreign",
                "a.example.com ^/app/admin own",
                "- - rest",
            ],
            ("a.example.com", "^/app/admin"),
            vec![
                "a.example.com ^/app/admin own",
                "a.example.com ^/app own",
                "b.example.com - foreign",
                "- - rest",
            ],
        ),
        (
            "behind a wider one of ours and a foreign rule that keeps its requests, so that the wider one moves",
            vec!["*.example.com ^/x own", "* ^/y foreign", "a.example.com - own", "- - rest"],
            ("a.example.com", ""),
            vec!["* ^/y foreign", "a.example.com - own", "*.example.com ^/x own", "- - rest"],
        ),
        (
            "spelled so that it matches nothing",
            vec!["*.Example.com - own", "a.example.com - foreign", "- - rest"],
            ("*.example.com", ""),
            vec!["a.example.com - foreign", "*.example.com - own", "- - rest"],
        ),
    ] {
        let document = list(&before);
        assert!(document.marked(&is_own).needs_reordering(&hostname(host), Some(path)), "{label}");
        let edited = edit(&document, &[put(wanted(host, path, "http://own"))]);
        assert_eq!(lines(&edited.document), after, "{label}");
        assert!(!edited.document.marked(&is_own).needs_reordering(&hostname(host), Some(path)), "{label}");
    }
}

/// One that is spelled wrong moves when it is put, and the place of the other depends on where it is then.
#[test]
fn the_order_of_edits_does_not_matter_where_their_places_depend_on_each_other() {
    let document = list(&["*.b.example.com - own", "_X.example.com ^/api(/|$) own", "- - rest"]);
    let edits = [
        put(wanted("_x.example.com", "", "http://own")),
        put(wanted("_x.example.com", "^/api(/|$)", "http://own")),
    ];
    let expected =
        ["_x.example.com ^/api(/|$) own", "_x.example.com - own", "*.b.example.com - own", "- - rest"];
    let reversed: Vec<_> = edits.iter().rev().cloned().collect();
    assert_eq!(lines(&edit(&document, &edits).document), expected);
    assert_eq!(lines(&edit(&document, &reversed).document), expected);
}

/// Its visitors would get the foreign rule's answer, without its login.
#[test]
fn no_rule_moves_one_that_requires_a_login_behind_a_foreign_rule() {
    let login = [
        ("webhook/access-required", "true"),
        ("webhook/access-team-name", "team"),
        ("webhook/access-aud-tag", "a"),
    ];
    let guarded = |host, path| WantedRule {
        origin_request: origin_request(&login),
        ..wanted(host, path, "http://own")
    };
    let moves = |standing: &[WantedRule], foreign: &str, new: &str, path: &str| {
        let standing: Vec<RuleEdit> = standing.iter().cloned().map(put).collect();
        let document = edit(&list(&["- - rest"]), &standing).document;
        let foreign = format!(r#"{{"hostname":"*","path":"{foreign}","service":"http://foreign"}}"#);
        let config = text(&document)
            .replace(r#"{"service":"http://rest"}"#, &(foreign + r#",{"service":"http://rest"}"#));
        let document = super::document(&config);
        let edited = edit(&document, &[put(wanted(new, path, "http://own"))]);
        assert_eq!(
            document.marked(&is_own).conflict(&hostname(new), Some(path), &|_| true).as_ref(),
            edited.refused.first().map(|(_, refusal)| refusal)
        );
        let owned = document.marked(&is_own);
        let losing = owned.losing(&hostname(new), Some(path));
        let losing = losing.iter().map(|(rule, _)| rule.hostname().to_owned()).collect::<Vec<_>>();
        (!edited.changed.is_empty(), edited.refused.first().map(|(_, refusal)| refusal.to_string()), losing)
    };
    let wide = "*.example.com";
    let standing = [guarded(wide, "^/admin")];
    let (changed, refusal, losing) = moves(&standing, "^/admin/old", "a.example.com", "");
    let refusal = refusal.expect("it is refused");
    assert!(!changed && losing == [wide], "{losing:?}");
    assert!(
        refusal.contains(r#"the rule for "*.example.com" "^/admin", which requires a login"#),
        "{refusal}"
    );
    assert!(refusal.contains(r#"the foreign rule for "*" "^/admin/old""#), "{refusal}");
    let (changed, refusal, _) = moves(&[guarded(wide, "old$")], "^/admin/old", wide, "^/admin");
    assert!(!changed && refusal.is_some(), "it has the hostname of the new rule");
    for (label, standing, foreign, new, path, losing) in [
        (
            "the foreign rule takes none of its requests",
            standing.to_vec(),
            "^/blog",
            "a.example.com",
            "",
            vec![],
        ),
        (
            "the new rule stands in front of the foreign one",
            standing.to_vec(),
            "^/admin/old",
            "a.example.com",
            "^/shop",
            vec![],
        ),
        (
            "it covers the new rule, which stands in front of both",
            vec![guarded(wide, "")],
            "^/admin/old",
            "a.example.com",
            "",
            vec![],
        ),
        (
            "it requires no login",
            vec![wanted(wide, "^/admin", "http://own")],
            "^/admin/old",
            "a.example.com",
            "",
            vec![wide],
        ),
    ] {
        assert_eq!(
            moves(&standing, foreign, new, path),
            (true, None, losing.into_iter().map(str::to_owned).collect()),
            "{label}"
        );
    }
}

/// Point 3 of ingress/order.rs, and Invariant 3: the wider rule of ours, which would be a reason to stand in front of
/// the foreign one, goes in the same request.
#[test]
fn a_rule_that_goes_leads_no_new_rule_in_front_of_a_foreign_one() {
    let before = ["*.example.com ^/api/v2(/|$) own", "*.example.com ^/api(/|$) foreign", "- - rest"];
    let after = ["*.example.com ^/api(/|$) foreign", "a.example.com - own", "- - rest"];
    let (new, gone) =
        (put(wanted("a.example.com", "", "http://own")), remove("*.example.com", "^/api/v2(/|$)"));
    let one_by_one =
        edit(&edit(&list(&before), std::slice::from_ref(&gone)).document, std::slice::from_ref(&new));
    assert_eq!(lines(&one_by_one.document), after, "in two requests");
    let at_once = edit(&list(&before), &[new, gone]);
    assert_eq!(lines(&at_once.document), after, "in one request");
}
