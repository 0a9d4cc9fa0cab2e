//! Paths of one hostname, of which some are protected.

use super::*;

#[test]
fn a_lost_path_beside_a_protected_one_opens_nothing_however_often_it_is_asked_for() {
    let path = |more: &[(&str, &str)]| {
        let all = [("tunnel-service", SECRET)];
        endpoint(NAME, &all.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let stage = Stage::new(&[]);
    stage.run(&[path(&[("tunnel-path-prefix", "/admin"), ("access-policy", "staff")])]);
    assert_eq!(stage.policies(), [["staff"]]);
    for desired in [
        path(&[]),
        path(&[("tunnel-path-prefix", "/admin")]),
        path(&[("tunnel-path", "^/admin")]),
        path(&[("tunnel-path-prefix", "/adm")]),
    ] {
        for _ in 0..2 {
            stage.run(std::slice::from_ref(&desired));
            assert_eq!(stage.leaks(), [""; 0], "{desired:?}");
        }
    }
    stage.run(&[path(&[("tunnel-path-prefix", "/admin"), ("access-policy", "staff")])]);
    assert_eq!(stage.policies(), [["staff"]]);
}

#[test]
fn an_open_rest_and_a_protected_path_are_published_together_and_one_after_the_other() {
    let rest = |policy: &[(&str, &str)]| {
        let all = [("tunnel-service", "http://open:80")];
        endpoint(NAME, &all.iter().chain(policy).copied().collect::<Vec<_>>())
    };
    let path = [("tunnel-service", SECRET), ("tunnel-path-prefix", "/admin"), ("access-policy", "staff")];
    let path = endpoint(NAME, &path);
    for (label, steps) in [
        ("together", vec![vec![rest(&[]), path.clone()]]),
        ("together, with the word", vec![vec![rest(&[("access-policy", "none")]), path.clone()]]),
        ("the rest first", vec![vec![rest(&[])], vec![rest(&[]), path.clone()]]),
        ("the path first", vec![vec![path.clone()], vec![rest(&[("access-policy", "none")]), path]]),
    ] {
        let stage = Stage::new(&[]);
        for step in steps {
            stage.run(&step);
        }
        assert_eq!(stage.leaks(), [""; 0], "{label}");
        assert_eq!(stage.policies(), [["staff"]], "{label}");
        let visit = |visitor, path| stage.cloudflare().visit_as(visitor, NAME, path);
        assert!(visit(Visitor::WithoutLogin, "/").is_served(), "{label}");
        assert!(matches!(visit(Visitor::WithoutLogin, "/admin"), Visit::TurnedAway { .. }), "{label}");
        assert!(visit(Visitor::WithLogin, "/admin").is_served(), "{label}");
    }
}

#[test]
fn the_application_of_a_withdrawn_path_stays_over_an_open_rest_and_goes_with_the_hostname() {
    let rest = published(NAME, "http://open:80");
    let path = [("tunnel-service", SECRET), ("tunnel-path-prefix", "/admin"), ("access-policy", "staff")];
    let stage = Stage::new(&[]);
    stage.run(&[rest.clone(), endpoint(NAME, &path)]);
    stage.run(std::slice::from_ref(&rest));
    assert_eq!(stage.policies(), [["staff"]], "nobody said that the path is to be open");
    assert!(!stage.cloudflare().visit(NAME, "/admin").is_served());
    stage.run(&[]);
    assert_eq!(stage.policies(), [[""; 0]; 0]);
    assert_eq!(stage.leaks(), [""; 0]);
}

#[test]
fn a_path_that_says_nothing_below_a_protected_place_is_not_published_with_it() {
    let path = |path: &str| endpoint(NAME, &[("tunnel-service", SECRET), ("tunnel-path-prefix", path)]);
    let admin = [("tunnel-service", SECRET), ("tunnel-path-prefix", "/admin"), ("access-policy", "staff")];
    for desired in [
        vec![wish("staff"), path("/admin")],
        vec![endpoint(NAME, &admin), path("/admin/users")],
        vec![
            endpoint(NAME, &admin),
            endpoint(NAME, &[("tunnel-service", SECRET), ("tunnel-path", "^/.dmin")]),
        ],
    ] {
        let stage = Stage::new(&[]);
        stage.run(&desired);
        assert_eq!(stage.leaks(), [""; 0]);
        assert_eq!(stage.harness.cnames(), [], "{desired:?}");
        assert_eq!(stage.policies(), [[""; 0]; 0], "{desired:?}");
        assert!(stage.logged(&["refused=would_open"]), "{desired:?}");
    }
}
