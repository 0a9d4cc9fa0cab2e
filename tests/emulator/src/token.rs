//! API tokens, their permissions, and the check that stands before every call.

use serde_json::json;

use crate::answer::{Refusal, Success};
use crate::cloudflare::Cloudflare;
use crate::http::Request;

/// What a token may be used for. An edit permission includes reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// List zones.
    ZoneRead,
    /// Read DNS records.
    DnsRead,
    /// Read and write DNS records.
    DnsEdit,
    /// Read tunnels and their configurations.
    TunnelRead,
    /// Make, change and delete tunnels, write their configurations, read their tunnel tokens.
    TunnelEdit,
    /// Read an account's Access applications, policies and tags.
    AccessRead,
    /// Read and write them.
    AccessEdit,
    /// Read an account's Access organization.
    AccessOrganizationRead,
    /// Read a zone's own Access applications.
    ZoneAccessRead,
}

impl Permission {
    /// All that there are.
    pub const ALL: [Self; 9] = [
        Self::ZoneRead,
        Self::DnsRead,
        Self::DnsEdit,
        Self::TunnelRead,
        Self::TunnelEdit,
        Self::AccessRead,
        Self::AccessEdit,
        Self::AccessOrganizationRead,
        Self::ZoneAccessRead,
    ];
}

/// Whether a token may be used at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenStatus {
    /// In use.
    Active,
    /// Switched off by its owner.
    Disabled,
    /// Past its last day.
    Expired,
}

/// The owner of a token, which decides the endpoint that verifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenOwner {
    /// A user: `/user/tokens/verify`.
    User,
    /// An account, by id: `/accounts/{account_id}/tokens/verify`.
    Account(String),
    /// No token but the legacy pair of the API key, which is `value`, and this address. It may do everything.
    LegacyKey {
        /// Sent as `X-Auth-Email`.
        email: String,
    },
}

/// An API token, or the legacy API key.
#[derive(Clone, Debug)]
pub struct Token {
    /// What is sent after `Bearer`, or as `X-Auth-Key`.
    pub value: String,
    /// What it may be used for.
    pub permissions: Vec<Permission>,
    /// The only zones it reaches, by id; `None` for all.
    pub zones: Option<Vec<String>>,
    /// The only accounts it reaches, by id; `None` for all.
    pub accounts: Option<Vec<String>>,
    /// Whether it may be used.
    pub status: TokenStatus,
    /// Its last moment, as RFC 3339 writes it; shown when it is verified, and `status` alone says whether it is past.
    pub expires_on: Option<String>,
    /// Its owner.
    pub owner: TokenOwner,
}

impl Token {
    /// A user's active token with the permissions that publishing hostnames takes, for all zones and accounts.
    pub fn full(value: &str) -> Self {
        Self::with_permissions(value, &[Permission::ZoneRead, Permission::DnsEdit, Permission::TunnelEdit])
    }

    /// The same, with what protecting them takes: the account's Access. Nothing of the zones' own applications.
    pub fn with_access(value: &str) -> Self {
        let access = [Permission::AccessEdit, Permission::AccessOrganizationRead];
        let full = Self::full(value);
        Self { permissions: [full.permissions.as_slice(), &access].concat(), ..full }
    }

    /// A user's active token with these permissions, for all zones and accounts.
    pub fn with_permissions(value: &str, permissions: &[Permission]) -> Self {
        Self {
            value: value.to_owned(),
            permissions: permissions.to_vec(),
            zones: None,
            accounts: None,
            status: TokenStatus::Active,
            expires_on: None,
            owner: TokenOwner::User,
        }
    }

    /// The legacy pair of API key and address.
    pub fn legacy_key(key: &str, email: &str) -> Self {
        Self { owner: TokenOwner::LegacyKey { email: email.to_owned() }, ..Self::full(key) }
    }

    /// A stable identifier, as the verify endpoints show it.
    fn id(&self) -> String {
        let hash = |seed: u64| {
            self.value
                .bytes()
                .fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        };
        format!("{:016x}{:016x}", hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15))
    }
}

/// A token that was accepted: what the call may reach.
#[derive(Debug)]
pub(crate) struct Grant {
    token: Token,
}

impl Grant {
    /// Whether calls on this zone may be made at all.
    pub(crate) fn reaches_zone(&self, id: &str) -> bool {
        self.token.zones.as_ref().is_none_or(|zones| zones.iter().any(|zone| zone == id))
    }

    /// Refuses unless the token reaches the account.
    pub(crate) fn require_account(
        &self,
        cloudflare: &Cloudflare,
        id: &str,
        method: &str,
    ) -> Result<(), Refusal> {
        let owned = match &self.token.owner {
            TokenOwner::Account(account) => account == id,
            TokenOwner::User | TokenOwner::LegacyKey { .. } => true,
        };
        let listed = self.token.accounts.as_ref().is_none_or(|accounts| accounts.iter().any(|a| a == id));
        if owned && listed && cloudflare.accounts.iter().any(|account| account.id == id) {
            return Ok(());
        }
        // The text a user met for an account id that does not belong to the token (cloudflare-docs#23461).
        Err(if method == "GET" {
            Refusal::authentication()
        } else {
            let text = format!("{method} method not allowed for the api_token authentication scheme");
            Refusal::new(400, 10000, text)
        })
    }

    /// Refuses unless the token has the permission, or the one that includes it.
    pub(crate) fn require(&self, permission: Permission) -> Result<(), Refusal> {
        let enough = |held: &Permission| {
            *held == permission
                || matches!(
                    (held, permission),
                    (Permission::DnsEdit, Permission::DnsRead)
                        | (Permission::TunnelEdit, Permission::TunnelRead)
                        | (Permission::AccessEdit, Permission::AccessRead)
                )
        };
        let legacy = matches!(self.token.owner, TokenOwner::LegacyKey { .. });
        if legacy || self.token.permissions.iter().any(enough) {
            Ok(())
        } else {
            Err(Refusal::authentication())
        }
    }
}

/// The credentials of a request as they were sent, to count calls by: not checked.
pub(crate) fn presented(request: &Request) -> Option<&str> {
    let bearer = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    bearer.or_else(|| request.header("x-auth-key"))
}

/// Checks the credentials of a request.
pub(crate) fn authenticate(cloudflare: &Cloudflare, request: &Request) -> Result<Grant, Refusal> {
    let token = match (request.header("authorization"), request.header("x-auth-key")) {
        (Some(authorization), _) => {
            let value = authorization
                .strip_prefix("Bearer ")
                .filter(|value| is_well_formed(value))
                .ok_or_else(|| invalid_header(6111, "Authorization"))?;
            find(cloudflare, value, None)
        }
        (None, Some(key)) => {
            if !is_well_formed(key) {
                return Err(invalid_header(6103, "X-Auth-Key"));
            }
            let email = request.header("x-auth-email").filter(|email| email.contains('@'));
            find(cloudflare, key, Some(email.ok_or_else(|| invalid_header(6102, "X-Auth-Email"))?))
        }
        (None, None) => {
            return Err(Refusal::new(400, 9106, "Missing X-Auth-Key, X-Auth-Email or Authorization headers"));
        }
    };
    match token {
        Some(token) if token.status == TokenStatus::Active => Ok(Grant { token: token.clone() }),
        _ => Err(Refusal::authentication()),
    }
}

fn find<'a>(cloudflare: &'a Cloudflare, value: &str, email: Option<&str>) -> Option<&'a Token> {
    cloudflare.tokens.iter().find(|token| {
        let held = match &token.owner {
            TokenOwner::LegacyKey { email } => Some(email.as_str()),
            TokenOwner::User | TokenOwner::Account(_) => None,
        };
        token.value == value && held == email
    })
}

/// Cloudflare looks at the shape of a credential before it looks it up.
fn is_well_formed(value: &str) -> bool {
    value.len() >= 8 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn invalid_header(code: u32, header: &str) -> Refusal {
    let mut refusal = Refusal::new(400, 6003, "Invalid request headers");
    refusal.chain.push((code, format!("Invalid format for {header} header")));
    refusal
}

/// `GET /user/tokens/verify` (`account` is `None`) and `GET /accounts/{account_id}/tokens/verify`.
///
/// A disabled or expired token is verified too: the answer says its status. The endpoint of the other kind of token
/// refuses it like an unknown one.
pub(crate) fn verify(
    cloudflare: &Cloudflare,
    account: Option<&str>,
    request: &Request,
) -> Result<Success, Refusal> {
    let Some(authorization) = request.header("authorization") else {
        return Err(Refusal::new(400, 1001, "Missing \"Authorization\" header"));
    };
    let value = authorization
        .strip_prefix("Bearer ")
        .filter(|value| is_well_formed(value))
        .ok_or_else(|| invalid_header(6111, "Authorization"))?;
    let wanted = account.map_or(TokenOwner::User, |account| TokenOwner::Account(account.to_owned()));
    let token = find(cloudflare, value, None)
        .filter(|token| token.owner == wanted)
        .ok_or_else(|| Refusal::new(401, 1000, "Invalid API Token"))?;
    let (status, message) = match token.status {
        TokenStatus::Active => ("active", "This API Token is valid and active"),
        TokenStatus::Disabled => ("disabled", "This API Token is disabled"),
        TokenStatus::Expired => ("expired", "This API Token is expired"),
    };
    let mut result = json!({"id": token.id(), "status": status});
    if let (Some(instant), Some(fields)) = (&token.expires_on, result.as_object_mut()) {
        fields.insert("expires_on".to_owned(), instant.as_str().into());
    }
    let mut success = Success::of(&result);
    // Code 10000 in a success: what a client meets that looks at codes before it looks at `success`.
    success.messages.push(json!({"code": 10000, "message": message, "type": null}));
    Ok(success)
}
