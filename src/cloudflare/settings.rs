//! What a client is made of.

use std::fmt;

use super::transport::proxy::Proxy;
use crate::secret::Secret;

/// How this program names itself to Cloudflare.
pub const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

/// What a client is made of.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Where the API is: `https://api.cloudflare.com/client/v4`. Plain `http` is possible, for tests.
    pub base_url: String,
    /// What calls are made with; see [`Client::set_credentials`](super::Client::set_credentials).
    pub credentials: Credentials,
    /// Certificate authorities trusted besides the compiled-in ones: the contents of a PEM file.
    pub ca_file: Option<Vec<u8>>,
    /// What calls go through, if anything.
    pub proxy: Option<Proxy>,
    /// Mostly [`USER_AGENT`].
    pub user_agent: String,
}

/// What a call is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// An API token, of a user or of an account.
    Token(Secret),
    /// The older pair.
    Key {
        /// The global API key.
        key: Secret,
        /// The user that it belongs to.
        email: Box<str>,
    },
}

impl Credentials {
    pub(super) fn secret(&self) -> &Secret {
        match self {
            Self::Token(secret) | Self::Key { key: secret, .. } => secret,
        }
    }

    /// The same kind, with another secret.
    pub(super) fn with_secret(&self, secret: Secret) -> Self {
        match self {
            Self::Token(_) => Self::Token(secret),
            Self::Key { key: _, email } => Self::Key { key: secret, email: email.clone() },
        }
    }
}

/// Why there is no client: a setting is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// Not `https://host` or `http://host`, perhaps with port and path; or with a user, a query or a fragment.
    BaseUrl,
    /// The PEM file, and what is wrong with it.
    Certificates(&'static str),
    /// Cannot be sent in a header.
    UserAgent,
}

impl fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BaseUrl => formatter
                .write_str("the API's address must look like https://api.cloudflare.com/client/v4, without user or query"),
            Self::Certificates(problem) => write!(formatter, "the file of certificate authorities {problem}"),
            Self::UserAgent => formatter.write_str("the user agent cannot be sent in a header"),
        }
    }
}

impl std::error::Error for ClientError {}
