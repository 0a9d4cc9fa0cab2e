//! A slip of the pen in what an object asks for.

use super::*;

/// Names and values that are not quite those that are meant.
fn slips() -> Vec<Endpoint> {
    let many = (0..25).map(|number| format!("policy-{number}")).collect::<Vec<_>>().join(",");
    let values = [
        "staf",
        "Staff",
        "STAFF",
        "sta ff",
        "\"staff\"",
        "staff.",
        "",
        " ",
        ",",
        "staff,",
        ",staff",
        "staff,staff",
        "staff;on-call",
        "staff on-call",
        "none,staff",
        "staff,none",
        "None",
        "NONE",
        "'none'",
        "no",
        "off",
        "false",
        "open",
        "null",
        "[]",
        "public",
        "bypass",
        "everybody",
        "staff,everybody",
        "twin",
        &many,
    ];
    let names = [
        "acces-policy",
        "access-polcy",
        "access-policies",
        "access_policy",
        "accesspolicy",
        "Access-Policy",
        "access-policy ",
        "tunnel-access-policy",
        "cloudflare-access-policy",
        "policy-access",
        "access-policy-name",
        "access-policy.",
        "access-policy.x",
    ];
    let misspelt = |name: &str, value: &str| endpoint(NAME, &[("tunnel-service", SECRET), (name, value)]);
    let values = values.iter().map(|value| wish(value));
    let names = names.iter().flat_map(|name| [misspelt(name, "staff"), misspelt(name, "none")]);
    values.chain(names).collect()
}

fn property(endpoint: &Endpoint) -> String {
    let last = endpoint.provider_specific.last().expect("a property");
    format!("{:?}={:?}", last.name, last.value)
}

#[test]
fn a_slip_in_the_name_or_the_value_opens_nothing_and_leaves_what_protects() {
    let mut told = Vec::new();
    let stage = Stage::protected(&[]);
    for slip in slips() {
        stage.run(std::slice::from_ref(&slip));
        if !stage.leaks().is_empty() || stage.policies() != [["staff"]] || !stage.is_served_with_login() {
            told.push(property(&slip));
        }
    }
    assert_eq!(told, [""; 0], "opened");
}

#[test]
fn spaces_around_a_policy_are_no_slip() {
    let stage = Stage::protected(&[]);
    for text in [" staff ", "staff ", "\tstaff"] {
        assert_eq!(stage.run(&[wish(text)]), 0, "{text:?}");
    }
    stage.run(&[wish(" on-call ,  staff ")]);
    assert_eq!(stage.policies(), [["on-call", "staff"]]);
    assert_eq!(stage.leaks(), [""; 0]);
}
