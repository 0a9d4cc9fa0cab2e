//! The settings of a client.

use std::path::PathBuf;

use rustls::RootCertStore;

use super::transport::BaseUrl;
use super::transport::proxy::Proxy;
use crate::secret::Secret;

/// The name that this program sends to Cloudflare.
pub(super) const USER_AGENT: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));

#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The API's address: `https://api.cloudflare.com/client/v4`. Plain `http` is possible, for tests.
    pub base_url: BaseUrl,
    pub credentials: Credentials,
    /// The file from which the secret of the credentials was read, if any. The client follows its changes.
    pub credential_file: Option<PathBuf>,
    /// The trusted certificate authorities.
    pub roots: RootCertStore,
    pub proxy: Option<Proxy>,
}

/// An API token of a user or of an account, or the older pair of key and email.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The token or the key.
    pub secret: Secret,
    /// The email address of the key's user; `None` beside a token.
    pub email: Option<Box<str>>,
}
