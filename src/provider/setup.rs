//! Checks the token, and finds the account and the id of every configured tunnel, which the first request needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::clock::Deadline;
use crate::cloudflare::{CREATE_TOKEN, Error, Tunnel};
use crate::collections::collect;
use crate::limits::NAMES_SHOWN_MAX;
use crate::model::identifier::TUNNEL_DOMAIN;
use crate::model::{AccountId, TunnelId, Zone};
use crate::observe::readiness::SetupProblem;
use crate::provider::backend::{Backend, ProviderSettings};
use crate::reconcile::{ConfiguredTunnel, Settings};

/// The remedy if no server answers, or another server than Cloudflare's.
const REACH_API: &str = "check that the address in CF_API_BASE_URL can be reached from here and is \
     Cloudflare's: look at DNS, network policies, HTTPS_PROXY and, for a proxy with a certificate of its \
     own, CF_CA_FILE";

/// The remedy if the API has no check of the token.
pub(crate) const CORRECT_PATH: &str =
    "correct the path of CF_API_BASE_URL: the address of Cloudflare's API ends with /client/v4";

/// The remedy if the token sees no zone. If CF_ACCOUNT_ID is set, such a token passes the check, and then every
/// hostname is refused.
pub(super) const SHOW_ZONES: &str = "give the token Zone: Zone: Read and Zone: DNS: Edit for the zones";

/// The remedy if the filters match no zone.
pub(crate) const CORRECT_FILTERS: &str =
    "correct DOMAIN_FILTER or ZONE_ID_FILTER, or give the token the permissions for the zones that they name";

/// A run of at least this many hexadecimal digits, hyphens not counted, is an id or a part of an id.
const ID_DIGITS_MIN: usize = 20;

/// The beginning of the placeholders in `deploy/`, which an operator replaces by names.
const UNEDITED_PREFIX: &str = "YOUR-";

/// The account and the tunnels, as Cloudflare reports them, with the operator's settings.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) account: AccountId,
    pub(crate) settings: Arc<Settings>,
}

impl From<Error> for SetupProblem {
    fn from(error: Error) -> Self {
        Self { why: error.to_string(), remedy: remedy(&error), is_permanent: !error.is_retryable() }
    }
}

/// The problem after a failed check of the token. A 404 means that CF_API_BASE_URL has a wrong path; it says nothing
/// about the token.
pub(crate) fn unverified(error: Error) -> SetupProblem {
    match error {
        Error::NotFound(_) => SetupProblem { remedy: CORRECT_PATH, ..error.into() },
        error => error.into(),
    }
}

/// CF_TUNNEL_ID does not match the tunnels at Cloudflare.
fn setting_mismatch(why: String) -> SetupProblem {
    let remedy = "correct the setting, or what it names at Cloudflare; the command \"tunnel\" creates a \
         missing tunnel";
    SetupProblem { why, remedy, is_permanent: true }
}

/// Checks the token, and finds the account's tunnels. If the account is not yet known, finds the account first.
pub(crate) fn find_setup(
    backend: &Backend,
    known: Option<&AccountId>,
    deadline: Deadline,
) -> Result<Setup, SetupProblem> {
    let Backend { client, provider_settings: settings, .. } = backend;
    client.verify_token(settings.account.as_ref(), deadline).map_err(unverified)?;
    let account = match settings.account.as_ref().or(known) {
        Some(account) => account.clone(),
        // The next check reads the zones again, because the token's permissions may be corrected meanwhile.
        None => {
            shared_account(&backend.zones(deadline)?, settings).inspect_err(|_| backend.forget_zones())?
        }
    };
    let present = client.tunnels(&account, deadline)?;
    let mut found = Vec::with_capacity(settings.tunnels.len());
    for wanted in &settings.tunnels {
        let configured = configured(&present, wanted, settings.dry_run)
            .map_err(|problem| setting_mismatch(format!("CF_TUNNEL_ID in account {account}: {problem}")))?;
        if !found.contains(&configured) {
            found.push(configured);
        }
    }
    let mut tunnels = found.into_iter();
    let default = tunnels.next().expect("the configuration names a tunnel");
    let settings = Settings::new(settings.operator.clone(), default, tunnels.collect());
    Ok(Setup { account, settings: Arc::new(settings) })
}

/// The tunnel with the wanted name or id. In a dry run, a missing tunnel that can be created has a made-up id.
fn configured(present: &[Tunnel], wanted: &str, is_dry_run: bool) -> Result<ConfiguredTunnel, String> {
    let (id, name, is_locally_managed) = match find_tunnel(present, wanted)? {
        Some(tunnel) => (tunnel.id.clone(), &*tunnel.name, tunnel.is_locally_managed),
        None if is_dry_run => {
            check_may_be_created(present, wanted)?;
            (TunnelId::placeholder(wanted), wanted, false)
        }
        None => return Err(no_such_tunnel(present, wanted)),
    };
    Ok(ConfiguredTunnel { id, name: name.into(), is_locally_managed })
}

/// The account of all zones within the filters, if the zones share an account.
pub(crate) fn shared_account(zones: &[Zone], settings: &ProviderSettings) -> Result<AccountId, SetupProblem> {
    let wanted = zones.iter().filter(|zone| settings.includes_zone(zone));
    let accounts: BTreeSet<&AccountId> = collect(wanted.map(|zone| &zone.account));
    let mut accounts = accounts.into_iter();
    let (why, remedy) = match (accounts.next(), accounts.next()) {
        (Some(account), None) => return Ok(account.clone()),
        (None, _) if zones.is_empty() => ("the token sees no zone", SHOW_ZONES),
        (None, _) => ("the filters match none of the zones that the token sees", CORRECT_FILTERS),
        (Some(_), Some(_)) => (
            "the token sees zones of several accounts",
            "set CF_ACCOUNT_ID to the account of the tunnels, or name its zones in DOMAIN_FILTER or \
             ZONE_ID_FILTER",
        ),
    };
    Err(SetupProblem { why: why.to_owned(), remedy, is_permanent: true })
}

/// The tunnel with the wanted name or id, if there is one.
///
/// # Errors
/// When several tunnels have the name or id.
pub(crate) fn find_tunnel<'a>(present: &'a [Tunnel], wanted: &str) -> Result<Option<&'a Tunnel>, String> {
    let mut matching = present
        .iter()
        .filter(|tunnel| tunnel.id.as_str().eq_ignore_ascii_case(wanted) || *tunnel.name == *wanted);
    match (matching.next(), matching.next()) {
        (Some(_), Some(_)) => Err(format!("{wanted:?} names several tunnels; use the id")),
        (found, _) => Ok(found),
    }
}

/// The error message for a name or id that no tunnel has.
pub(crate) fn no_such_tunnel(present: &[Tunnel], wanted: &str) -> String {
    let mut tunnels = present.iter();
    let shown = tunnels.by_ref().take(NAMES_SHOWN_MAX);
    let mut names: Vec<String> = shown.map(|tunnel| format!("{:?}", tunnel.name)).collect();
    names.extend(tunnels.next().map(|_| "…".to_owned()));
    match &*names {
        [] => format!("there is no tunnel {wanted:?}, and no other tunnel"),
        names => format!("there is no tunnel {wanted:?}; there are {}", names.join(", ")),
    }
}

/// Refuses to create a tunnel if the name seems to be a mistake. Cloudflare allows any name, and this program never
/// deletes a tunnel, so a tunnel with a mistaken name would stay.
pub(crate) fn check_may_be_created(present: &[Tunnel], name: &str) -> Result<(), String> {
    let folded = |name: &str| name.trim().to_lowercase();
    let mut present = present.iter();
    let is_name = |word: &str| present.clone().any(|one| *one.name == *word);
    if name.contains(' ') && name.split_whitespace().all(is_name) {
        return Err(format!(
            "no tunnel is called {name:?}, but each of its words is a tunnel's name: separate names by commas"
        ));
    }
    if let Some(Tunnel { name: other, id, .. }) = present.find(|one| folded(&one.name) == folded(name)) {
        let remedy = format!("use its id {id}, or choose a name that differs in more than capitals");
        return Err(format!("no tunnel is called {name:?}, but one is called {other:?}: {remedy}"));
    }
    let is_inside = |character: char| character.is_alphanumeric() || "-_. ".contains(character);
    let mut ends = [name.chars().next(), name.chars().next_back()].into_iter();
    if !name.chars().all(is_inside) || !ends.all(|end| end.is_some_and(char::is_alphanumeric)) {
        return Err(format!(
            "there is no tunnel {name:?}, and none is created with that name: a name begins and ends with a \
             letter or a digit, with hyphens, underscores, dots and blanks between them"
        ));
    }
    // cloudflared parses a UUID as an id, even without hyphens.
    let mut runs = name.split(|character: char| !character.is_ascii_hexdigit() && character != '-');
    let is_long = |run: &str| run.bytes().filter(u8::is_ascii_hexdigit).count() >= ID_DIGITS_MIN;
    let meant = if name.starts_with(UNEDITED_PREFIX) {
        "a placeholder: choose a name"
    } else if runs.any(is_long) || name.ends_with(TUNNEL_DOMAIN) {
        "an id"
    } else {
        return Ok(());
    };
    Err(format!("tunnel {name:?} does not exist, and is not created, because the name looks like {meant}"))
}

/// The remedy for an error that prevents a complete start.
pub(crate) fn remedy(error: &Error) -> &'static str {
    match error {
        Error::Credentials(_) => CREATE_TOKEN,
        Error::NotFound(_) | Error::Rejected(_) => "check that CF_ACCOUNT_ID is the account of the tunnels",
        Error::Unreachable(_) | Error::Unanswered(_) | Error::Intercepted(_) | Error::Unreadable(_) => {
            REACH_API
        }
        Error::RateLimited { .. } => "wait; all programs of the token's user share the limit",
        Error::Failed(_) | Error::OutOfTime => "wait; see https://www.cloudflarestatus.com",
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    const ID: &str = "6ff42ae2-765d-4adf-8112-31c55c1551ef";

    fn tunnels(count: usize) -> Vec<Tunnel> {
        let tunnel = |number: usize| Tunnel {
            id: TunnelId::parse(&format!("{number:08}-a4ef-4643-bbbc-4a0ed4fc8415")).expect("an id"),
            name: format!("t{number}").into(),
            is_locally_managed: false,
            deleted: false,
        };
        (0..count).map(tunnel).collect()
    }

    #[test]
    fn a_tunnel_that_is_not_found_is_told_with_those_that_are_there() {
        let told = |present: &[Tunnel], wanted: &str| configured(present, wanted, false).expect_err("none");
        assert_eq!(told(&[], "x"), r#"there is no tunnel "x", and no other tunnel"#);
        assert_eq!(told(&tunnels(2), "x"), r#"there is no tunnel "x"; there are "t0", "t1""#);
        assert!(told(&tunnels(NAMES_SHOWN_MAX), "x").ends_with(r#""t6", "t7""#));
        assert!(told(&tunnels(NAMES_SHOWN_MAX + 1), "x").ends_with(r#""t6", "t7", …"#));
        let two = tunnels(2);
        assert_eq!(find_tunnel(&two, "t1"), Ok(Some(&two[1])));
        assert_eq!(find_tunnel(&two, two[1].id.as_str()), Ok(Some(&two[1])));
        let twice = [tunnels(1), tunnels(1)].concat();
        assert_eq!(told(&twice, "t0"), r#""t0" names several tunnels; use the id"#);
    }

    #[test]
    fn a_dry_run_goes_on_with_a_tunnel_that_would_be_made_and_with_no_other() {
        let outcome = |wanted: &str, is_dry_run: bool| {
            configured(&tunnels(2), wanted, is_dry_run).map(|tunnel| tunnel.id.is_placeholder())
        };
        assert_eq!(outcome("home", true), Ok(true));
        assert_eq!(outcome("t0", true), Ok(false));
        for (wanted, is_dry_run) in
            [("home", false), ("T0", true), (ID, true), (TunnelId::placeholder("home").as_str(), true)]
        {
            assert!(outcome(wanted, is_dry_run).is_err(), "{wanted}");
        }
        assert!(configured(&[tunnels(1), tunnels(1)].concat(), "t0", true).is_err());
        assert_ne!(TunnelId::placeholder("home"), TunnelId::placeholder("office"));
    }

    #[test]
    fn no_tunnel_is_made_of_a_name_that_is_a_mistake() {
        assert!(
            check_may_be_created(&[], "YOUR-CLUSTER")
                .unwrap_err()
                .ends_with("looks like a placeholder: choose a name")
        );
        let bare = ID.replace('-', "");
        for name in ["home", "Home 2", "köln-1", "k8s.example.com", "deadbeef", "cafe-face", "x"] {
            assert_eq!(check_may_be_created(&[], name), Ok(()), "{name}");
        }
        for name in [
            ID,
            &ID.to_uppercase(),
            &bare,
            &ID[..30],
            &format!("{{{ID}}}"),
            &format!("urn:uuid:{ID}"),
            &format!("{ID}.cfargotunnel.com"),
            "abc.cfargotunnel.com",
            "YOUR-TUNNEL",
            &format!("https://one.dash.cloudflare.com/tunnels/{ID}"),
            &format!("home-{bare}"),
            "\"home\"",
            "'home'",
            "<tunnel-id>",
            "${TUNNEL}",
            "file:home",
            "--",
            "-home",
            "home.",
            "\u{200b}home",
            "e\u{301}te\u{301}",
            "a\nb",
            "",
        ] {
            assert!(check_may_be_created(&[], name).is_err(), "{name:?}");
        }
        let told = check_may_be_created(&tunnels(2), "t0 t1").unwrap_err();
        assert!(told.ends_with("separate names by commas"), "{told}");
        assert_eq!(check_may_be_created(&tunnels(2), "t0 two"), Ok(()));
    }

    #[test]
    fn a_start_without_tunnels_is_told_with_what_to_do() {
        for (unresolved, remedy) in [
            (setting_mismatch("x".to_owned()), "correct the setting"),
            (Error::OutOfTime.into(), "cloudflarestatus.com"),
            (Error::RateLimited { retry_after: Default::default() }.into(), "wait; all programs"),
            (
                Error::Unreadable("x".into()).into(),
                "check that the address in CF_API_BASE_URL can be reached",
            ),
        ] {
            assert!(unresolved.remedy.contains(remedy), "{unresolved:?}");
        }
    }
}
