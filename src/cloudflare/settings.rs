//! The settings of a client, and the watch over the file that a secret came from, because Kubernetes replaces it while
//! the program runs.

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

#[derive(Debug)]
pub(super) struct CredentialFile {
    path: PathBuf,
    /// The problem found at the last reading.
    problem: Option<String>,
}

impl CredentialFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, problem: None }
    }

    /// The file's secret, if it differs from the one in use. A file that is missing, empty or broken changes nothing;
    /// the problem is logged once. If the file is in the middle of a write, Cloudflare refuses the half secret, and the
    /// file is read again.
    pub(super) fn read(&mut self, in_use: &Secret) -> Option<Secret> {
        let Self { path, problem } = self;
        match Secret::read(path) {
            Ok(secret) => {
                if problem.take().is_some() {
                    log::info!("the credentials file {path:?} can be read again");
                }
                if secret == *in_use {
                    return None;
                }
                log::info!("the credentials file {path:?} has a new secret; the webhook uses it from now on");
                Some(secret)
            }
            Err(text) => {
                if problem.as_ref() != Some(&text) {
                    log::warn!(
                        "the credentials file {path:?} {text}; the credentials read before stay in use"
                    );
                    *problem = Some(text);
                }
                None
            }
        }
    }
}
