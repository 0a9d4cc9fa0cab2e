//! A slip of the pen in what an object asks for.

use super::*;

/// Names and values that are not quite those that are meant.
fn slips() -> Vec<Endpoint> {
    let values = ["staf", "STAFF", "", "staff,", "staff,none", "None", "off", "bypass", "everybody", "twin"];
    let names = ["acces-policy", "access_policy", "Access-Policy", "policy-access", "access-policy.x"];
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
