//! Watches the file that a secret came from, because Kubernetes replaces it while the program runs.

use std::path::{Path, PathBuf};

use crate::limits::CREDENTIAL_FILE_MAX_BYTES;
use crate::regular_file;
use crate::secret::Secret;

#[derive(Debug)]
pub(super) struct CredentialFile {
    path: PathBuf,
    /// The secret seen at the last look, if it is not in use yet.
    candidate: Option<Secret>,
    /// The problem found at the last look.
    problem: Option<String>,
}

/// The proof that a changed secret needs before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SecretProof {
    /// Two looks have to see the same secret, because the file may be in the middle of a write.
    Routine,
    /// The secret in use is refused, so a new one cannot make things worse.
    Refused,
}

impl CredentialFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, candidate: None, problem: None }
    }

    /// The file's secret, if it differs from the one in use. A file that is missing, empty or broken changes nothing;
    /// the problem is logged once.
    pub(super) fn look(&mut self, in_use: &Secret, proof: SecretProof) -> Option<Secret> {
        let Self { path, candidate, problem } = self;
        match read(path) {
            Ok(secret) => {
                if problem.take().is_some() {
                    log::info!("the credentials file {path:?} can be read again");
                }
                let secret = Some(secret).filter(|secret| secret != in_use);
                let is_sure = proof == SecretProof::Refused || *candidate == secret;
                *candidate = secret;
                let taken = candidate.take_if(|_| is_sure);
                if taken.is_some() {
                    log::info!(
                        "the credentials file {path:?} has a new secret; the webhook uses it from now on"
                    );
                }
                taken
            }
            Err(text) => {
                *candidate = None;
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

fn read(path: &Path) -> Result<Secret, String> {
    let bytes = regular_file::read(path, CREDENTIAL_FILE_MAX_BYTES)
        .map_err(|error| format!("cannot be read: {error}"))?;
    Secret::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| error.to_string())
}
