//! An account's Zero Trust organization: the team, and what it says for the whole account.

use serde_json::{Value, json};

use crate::answer::{Refusal, Success};

/// How an account in which Access was never set up answers. All three were met by other clients of the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NeverSetUp {
    /// Code 9999.
    #[default]
    NotEnabled,
    /// HTTP 404.
    NotFound,
    /// An organization without `auth_domain`, and empty lists. Writes are refused with code 9999.
    WithoutDomain,
}

/// What an account says of Access. The fields may be changed at any time through
/// [`Cloudflare::organization_mut`](crate::Cloudflare::organization_mut).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Organization {
    /// The account, by id.
    pub account: String,
    /// `<team>` of `<team>.cloudflareaccess.com`; `None` where Access was never set up. It may be renamed.
    pub team: Option<String>,
    /// How it answers while there is no team.
    pub never_set_up: NeverSetUp,
    created_at: String,
}

impl Organization {
    pub(crate) fn new(account: String, now: String) -> Self {
        Self { account, team: None, never_set_up: NeverSetUp::default(), created_at: now }
    }

    /// Where visitors log in; `None` where Access was never set up.
    pub(crate) fn auth_domain(&self) -> Option<String> {
        self.team.as_ref().map(|team| format!("{team}.cloudflareaccess.com"))
    }

    /// Refuses what cannot be where Access was never set up.
    pub(super) fn require_set_up(&self, is_read: bool) -> Result<(), Refusal> {
        match (&self.team, self.never_set_up) {
            (Some(_), _) => Ok(()),
            (None, NeverSetUp::WithoutDomain) if is_read => Ok(()),
            (None, NeverSetUp::NotFound) => Err(Refusal::new(404, 10404, "access.api.error.not_found")),
            (None, NeverSetUp::NotEnabled | NeverSetUp::WithoutDomain) => {
                Err(Refusal::new(403, 9999, "access.api.error.not_enabled: Access is not enabled"))
            }
        }
    }

    /// `GET …/access/organizations`.
    pub(super) fn show(&self) -> Result<Success, Refusal> {
        self.require_set_up(true)?;
        let mut shown = json!({
            "name": self.team.as_deref().unwrap_or("Example Shop"),
            "session_duration": "24h",
            "is_ui_read_only": false,
            "auto_redirect_to_identity": false,
            "allow_authenticate_via_warp": false,
            "deny_unmatched_requests": false,
            "deny_unmatched_requests_exempted_zone_names": [],
            "login_design": {},
            "created_at": self.created_at,
            "updated_at": self.created_at,
        });
        if let (Some(domain), Some(members)) = (self.auth_domain(), shown.as_object_mut()) {
            members.insert("auth_domain".to_owned(), Value::from(domain));
        }
        Ok(Success::of(&shown))
    }
}
