//! Reads `webhook-access-policy`: the login that an endpoint asks for.
//!
//! An endpoint without the property never opens a protected place; see [`super::gate`]. A name that fits no policy is
//! preserved as text, so that the gate can quote it, and a later request can look for the policy again.

use crate::limits::NAMES_SHOWN_MAX;
use crate::model::access::{ReusablePolicy, SessionDuration};
use crate::model::endpoint::Property;
use crate::reconcile::OperatorSettings;
use crate::reconcile::property_name::{ACCESS_POLICY, ACCESS_SESSION_DURATION};

/// The value of [`ACCESS_POLICY`] that opens a protected place.
pub const OPEN: &str = "none";

/// The maximum number of policies of one application. Cloudflare documents no limit.
const POLICIES_MAX: usize = 20;

/// What an endpoint asks of Access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WantedAccess {
    /// No request. A protected place stays protected.
    #[default]
    Unspecified,
    /// Every visitor may reach the place.
    Open,
    /// The place is to have an application of its own.
    Protected(WantedApplication),
}

/// The application that an endpoint asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedApplication {
    /// The ids of the policies; of one that cannot be used, the text that the endpoint has.
    pub policies: Vec<Box<str>>,
    pub session_duration: SessionDuration,
}

const EMPTY: &str = "an entry of the list is empty; to open the place, write none alone";
const OPEN_STANDS_ALONE: &str = "none cannot be combined with policies, and is in lower case";
const TWICE: &str = "it names a policy twice";
const TOO_MANY: &str = "it names more than 20 policies";

/// Reads the names of policies; `None` for [`OPEN`].
///
/// # Errors
/// The reason why the text is no list of policies.
pub fn names(text: &str) -> Result<Option<Vec<&str>>, &'static str> {
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    match &*names {
        [OPEN] => return Ok(None),
        names if names.iter().any(|name| name.is_empty()) => return Err(EMPTY),
        names if names.iter().any(|name| name.eq_ignore_ascii_case(OPEN)) => return Err(OPEN_STANDS_ALONE),
        names if names.len() > POLICIES_MAX => return Err(TOO_MANY),
        _ => {}
    }
    Ok(Some(names))
}

impl WantedApplication {
    /// The application with the policies of these names, of which `known` are those of the account.
    pub(crate) fn new(
        names: &[&str],
        session_duration: SessionDuration,
        known: &[ReusablePolicy],
        operator: &OperatorSettings,
    ) -> Result<Self, &'static str> {
        let mut policies: Vec<Box<str>> = Vec::with_capacity(names.len());
        for name in names {
            let policy = usable_policy(name, known, operator)
                .map_or_else(|_| (*name).into(), |policy| policy.id.clone());
            if policies.contains(&policy) {
                return Err(TWICE);
            }
            policies.push(policy);
        }
        Ok(Self { policies, session_duration })
    }
}

/// The policy with this id or name, if it requires a login and objects may name it.
pub(crate) fn usable_policy<'p>(
    text: &str,
    policies: &'p [ReusablePolicy],
    operator: &OperatorSettings,
) -> Result<&'p ReusablePolicy, String> {
    let named = quoted(text, operator);
    let by_id = policies.iter().find(|policy| *policy.id == *text);
    let mut by_name = policies.iter().filter(|policy| *policy.name == *text);
    let policy = match (by_id, by_name.next(), by_name.next()) {
        (Some(policy), _, _) | (None, Some(policy), None) => policy,
        (None, Some(_), Some(_)) => {
            return Err(format!(
                "names the Access policy {named}, which is the name of several policies: use the id"
            ));
        }
        (None, None, _) => {
            let names = policies.iter().take(NAMES_SHOWN_MAX).map(|policy| format!("{:?}", policy.name));
            let names = names.collect::<Vec<_>>().join(", ");
            let known =
                if names.is_empty() { "there is none".to_owned() } else { format!("there are {names}") };
            return Err(format!(
                "names {named}, which is no reusable Access policy of the account ({known}): correct the \
                 name, or make it in the dashboard under Zero Trust, Access, Policies"
            ));
        }
    };
    if policy.decision.may_bypass() {
        return Err(format!(
            "names the Access policy {named}, which lets visitors past without a login, or has an action \
             that is not known: name another one"
        ));
    }
    if !may_be_named(policy, operator) {
        return Err(format!(
            "names the Access policy {named}, which ACCESS_POLICIES does not list as one that objects may \
             use: add it there, or name one that is listed"
        ));
    }
    Ok(policy)
}

/// The policy's name in quotes, with the setting if the name comes from there.
fn quoted(text: &str, operator: &OperatorSettings) -> String {
    let is_default = operator.default_access_policy.iter().any(|name| **name == *text);
    format!("{text:?}{}", if is_default { " (from DEFAULT_ACCESS_POLICY)" } else { "" })
}

/// True if objects may name the policy. A policy of the default may always be named, because a canonical endpoint does
/// not show whether a policy comes from the default or from an annotation.
fn may_be_named(policy: &ReusablePolicy, operator: &OperatorSettings) -> bool {
    let mut listed = operator.access_policies.iter().flatten().chain(&operator.default_access_policy);
    let may_be_any = operator.access_policies.is_none() && !operator.namespace_guard;
    may_be_any || listed.any(|one| *one == policy.name || *one == policy.id)
}

/// The canonical properties of the wanted access.
pub fn properties(wanted: &WantedAccess) -> Vec<Property> {
    match wanted {
        WantedAccess::Unspecified => Vec::new(),
        WantedAccess::Open => vec![Property::new(ACCESS_POLICY, OPEN)],
        WantedAccess::Protected(WantedApplication { policies, session_duration }) => {
            protection_properties(policies.iter().map(|policy| &**policy), *session_duration)
        }
    }
}

/// The canonical properties of an application.
pub fn protection_properties<'p>(
    policies: impl Iterator<Item = &'p str>,
    session_duration: SessionDuration,
) -> Vec<Property> {
    let mut properties = vec![Property::new(ACCESS_POLICY, policies.collect::<Vec<_>>().join(","))];
    if session_duration != SessionDuration::default() {
        properties.push(Property::new(ACCESS_SESSION_DURATION, session_duration.to_string()));
    }
    properties
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::settings;
    use crate::model::access::PolicyDecision;

    #[test]
    fn a_list_of_policies_names_each_and_no_more_than_access_takes() {
        assert_eq!(names(OPEN), Ok(None));
        assert_eq!(names(" a , b "), Ok(Some(vec!["a", "b"])));
        assert_eq!(names(""), Err(EMPTY));
        assert_eq!(names("a,,b"), Err(EMPTY));
        for text in ["a,none", "None", "NONE", "a, None"] {
            assert_eq!(names(text), Err(OPEN_STANDS_ALONE), "{text}");
        }
        let many = |count: usize| vec!["a"; count].join(",");
        assert!(names(&many(POLICIES_MAX)).is_ok());
        assert_eq!(names(&many(POLICIES_MAX + 1)), Err(TOO_MANY));
    }

    #[test]
    fn a_policy_is_found_by_its_name_or_its_id_if_objects_may_name_it() {
        let policy = |id: &str, name: &str, decision: PolicyDecision| ReusablePolicy {
            id: id.into(),
            name: name.into(),
            decision,
        };
        let policies = [
            policy("1", "staff", PolicyDecision::Allow),
            policy("2", "twice", PolicyDecision::Allow),
            policy("3", "twice", PolicyDecision::Allow),
            policy("4", "public", PolicyDecision::Bypass),
            policy("staff", "an odd id", PolicyDecision::Allow),
        ];
        let found = |text: &str, change: &dyn Fn(&mut OperatorSettings)| {
            let mut settings = settings();
            change(&mut settings.operator);
            usable_policy(text, &policies, &settings.operator).map(|policy| policy.id.to_string()).map_err(
                |problem| {
                    let start = format!("names the Access policy {text:?}, which ");
                    problem.strip_prefix(&start).unwrap_or(&problem).to_owned()
                },
            )
        };
        let any = |_: &mut OperatorSettings| {};
        assert_eq!(found("1", &any).as_deref(), Ok("1"));
        assert_eq!(found("staff", &any).as_deref(), Ok("staff"), "an id before a name");
        assert_eq!(found("twice", &any), Err("is the name of several policies: use the id".to_owned()));
        assert!(found("4", &any).is_err_and(|problem| problem.contains("without a login")));
        let unknown = found("unknown", &any).expect_err("there is none");
        let known =
            r#"(there are "staff", "twice", "twice", "public", "an odd id"): correct the name, or make it"#;
        assert!(unknown.contains(known), "{unknown}");

        let listed = |policy: &mut OperatorSettings| {
            policy.access_policies = Some(["staff".into(), "2".into()].into())
        };
        assert_eq!(found("1", &listed).as_deref(), Ok("1"), "its name is listed");
        assert_eq!(found("2", &listed).as_deref(), Ok("2"), "its id is listed");
        assert!(
            found("3", &listed).is_err_and(|problem| problem.starts_with("ACCESS_POLICIES does not list"))
        );
        let of_default = |policy: &mut OperatorSettings| {
            listed(policy);
            policy.default_access_policy = ["3".into()].into();
        };
        assert_eq!(found("3", &of_default).as_deref(), Ok("3"), "the default's may be named");
    }

    /// The object names no policy, so nothing is wrong with the object.
    #[test]
    fn each_problem_of_a_policy_of_the_default_names_the_setting() {
        let policy =
            |name: &str, decision| ReusablePolicy { id: name.into(), name: "twice".into(), decision };
        let policies = [policy("1", PolicyDecision::Allow), policy("public", PolicyDecision::Bypass)];
        let mut operator = settings().operator;
        operator.default_access_policy = ["twice".into(), "public".into(), "missing".into()].into();
        let problems: Vec<String> = operator
            .default_access_policy
            .iter()
            .map(|name| usable_policy(name, &policies, &operator).map(drop).expect_err(name))
            .collect();
        for problem in problems {
            assert!(problem.contains("\" (from DEFAULT_ACCESS_POLICY), "), "{problem}");
        }
        operator.default_access_policy = [].into();
        let problem = usable_policy("public", &policies, &operator).map(drop).expect_err("it is refused");
        assert!(!problem.contains("DEFAULT_ACCESS_POLICY"), "{problem}");
    }
}
