//! Whether the credentials are any good.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::client::{Client, Credentials};
use super::error::{Area, Error, Refusal};
use super::identifier::{AccountId, path};
use crate::clock::Deadline;

#[derive(Deserialize)]
struct WireToken {
    status: Box<str>,
}

impl Client {
    /// Asks Cloudflare whether the credentials are valid. That says nothing of what they may do. Tokens belong to a
    /// user or to an account, and the wrong one of the two endpoints answers like one that was given a bad token: the
    /// account's is asked second, when an account is known. For a key, which has no such endpoint, one zone list is read.
    ///
    /// # Errors
    /// [`Error::Credentials`] when they are invalid, disabled or expired; see [`Error`] for the others.
    pub fn verify_token(&self, account: Option<&AccountId>, deadline: Deadline) -> Result<(), Error> {
        if let Credentials::Key { .. } = &*self.credentials() {
            // The API takes no smaller page.
            return self
                .read::<IgnoredAny>(
                    Area::Zones,
                    &format!("{}?page=1&per_page=5", path(&["zones"])),
                    deadline,
                )
                .map(drop);
        }
        match (
            self.verify_at(&path(&["user", "tokens", "verify"]), deadline),
            account,
        ) {
            (Err(Error::Credentials(_)), Some(account)) => self.verify_at(
                &path(&["accounts", account.as_str(), "tokens", "verify"]),
                deadline,
            ),
            (outcome, _) => outcome,
        }
    }

    fn verify_at(&self, path: &str, deadline: Deadline) -> Result<(), Error> {
        let token: WireToken = self.read(Area::Tokens, path, deadline)?.into_result()?;
        let message = match &*token.status {
            "active" => return Ok(()),
            "disabled" => "the token is disabled",
            "expired" => "the token has expired",
            _ => "the token is not active",
        };
        Err(Error::Credentials(Refusal {
            status: 200,
            code: None,
            message: message.into(),
            chain: Vec::new(),
        }))
    }
}
