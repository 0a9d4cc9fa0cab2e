//! Watches the file that a secret came from, because Kubernetes replaces it while the program runs.

use std::path::PathBuf;

use crate::secret::Secret;

#[derive(Debug)]
pub(super) struct CredentialFile {
    path: PathBuf,
    /// The problem found at the last look.
    problem: Option<String>,
}

impl CredentialFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, problem: None }
    }

    /// The file's secret, if it differs from the one in use. A file that is missing, empty or broken changes nothing;
    /// the problem is logged once. If the file is in the middle of a write, Cloudflare refuses the half secret, and the
    /// file is read again.
    pub(super) fn look(&mut self, in_use: &Secret) -> Option<Secret> {
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
