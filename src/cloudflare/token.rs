//! Verifies the credentials, and says how a token is created and given its permissions.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::client::{Client, path};
use super::error::{Error, ErrorResponse};
use super::error_class::ApiResource;
use crate::clock::Deadline;
use crate::model::AccountId;

macro_rules! token_form {
    ($more:literal) => {
        concat!(
            "https://dash.cloudflare.com/profile/api-tokens?permissionGroupKeys=%5B%7B%22key%22%3A%22zone%22%2C%22type%22%3A%22\
         read%22%7D%2C%7B%22key%22%3A%22dns%22%2C%22type%22%3A%22edit%22%7D%2C%7B%22key%22%3A%22argotunnel%22%2C%22type%22%3A\
             %22edit%22%7D",
            $more,
            "%5D&accountId=*&zoneId=all&name=external-dns"
        )
    };
}

/// The URL of the dashboard's form for a token, with this program's permissions filled in, as Cloudflare's page
/// `/fundamentals/api/how-to/account-owned-token-template/` gives their keys and levels. `argotunnel` is the tunnels'
/// permission under each of its names.
pub const TOKEN_FORM: &str = token_form!("");

/// The remedy for a missing or rejected token.
pub const CREATE_TOKEN: &str = concat!(
    "create a token with Zone: Zone: Read and Zone: DNS: Edit for the zones, and Account: Cloudflare Tunnel: Edit (or \
     Argo Tunnel (Legacy)); put it into CF_API_TOKEN or CF_API_TOKEN_FILE; an account-owned token needs CF_ACCOUNT_ID \
     too; this form has the three permissions filled in: ",
    token_form!("")
);

/// The remedy for a missing permission of Access. It names both permissions, because the lack of the second one shows
/// only after the first one is given.
pub const GIVE_ACCESS: &str = concat!(
    "give the token the permissions Account: Access: Apps and Policies: Edit (for ACCESS_GUARD alone Read is enough) and \
     Account: Access: Organizations, Identity Providers, and Groups: Read; a form with all five: ",
    token_form!(
        "%2C%7B%22key%22%3A%22access%22%2C%22type%22%3A%22edit%22%7D%2C%7B%22key%22%3A%22access_acct%22%2C%22type%22%3A%22\
         read%22%7D"
    )
);

/// The remedy for a missing permission to read the Access applications of a zone.
pub const ZONE_APPLICATIONS_READ: &str =
    "give the token the permission Zone: Access: Apps and Policies: Read for all zones that are served";

#[derive(Deserialize)]
struct WireToken {
    status: Box<str>,
    expires_on: Option<Box<str>>,
}

impl Client {
    /// Asks Cloudflare if the credentials are valid. The answer says nothing about permissions. A token belongs to a
    /// user or to an account, and the API has one path for each. Each path calls a token of the wrong kind invalid,
    /// so the account's path is asked second, if the account is known. No path verifies a key, so a page of zones is
    /// read instead.
    ///
    /// Returns the token's expiry as Cloudflare writes it (`2027-01-31T23:59:59Z`), if it expires.
    ///
    /// # Errors
    /// [`Error::Credentials`] if they are invalid, disabled or expired.
    pub fn verify_token(
        &self,
        account: Option<&AccountId>,
        deadline: Deadline,
    ) -> Result<Option<Box<str>>, Error> {
        if self.credentials().email.is_some() {
            // The API accepts no smaller page.
            let outcome = self.read::<IgnoredAny>(ApiResource::Zones, "/zones?page=1&per_page=5", deadline);
            return outcome.map(|_| None);
        }
        let asked = self.token_at(&path(&["user", "tokens", "verify"]), deadline);
        let WireToken { status, expires_on } = match (asked, account) {
            (Err(Error::Credentials(_)), Some(account)) => {
                self.token_at(&path(&["accounts", account.as_str(), "tokens", "verify"]), deadline)
            }
            (outcome, _) => outcome,
        }?;
        let message = match &*status {
            "active" => return Ok(expires_on),
            "disabled" => "the token is disabled",
            "expired" => "the token has expired",
            _ => "the token is not active",
        };
        Err(Error::Credentials(ErrorResponse {
            status: 200,
            code: None,
            message: message.into(),
            chain: Vec::new(),
            permission: "",
        }))
    }

    fn token_at(&self, path: &str, deadline: Deadline) -> Result<WireToken, Error> {
        self.read(ApiResource::Tokens, path, deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloudflare::fixture::{Fixture, answer, failure, success};
    use crate::cloudflare::settings::Credentials;
    use crate::secret::Secret;

    const USER: &str = "/user/tokens/verify";
    const ACCOUNT: &str = "/accounts/a1/tokens/verify";

    #[test]
    fn a_token_is_verified_by_its_user_or_by_its_account() {
        let active = || success(r#"{"id":"t1","status":"active"}"#);
        let invalid = || failure(401, 1000, "Invalid API Token");
        let account = AccountId::new("a1");
        for (label, answers, account, is_valid, paths) in [
            ("of a user", vec![active()], Some(&account), true, &[USER][..]),
            ("of an account", vec![invalid(), active()], Some(&account), true, &[USER, ACCOUNT]),
            ("unknown", vec![invalid(), invalid()], Some(&account), false, &[USER, ACCOUNT]),
            ("of an unknown account", vec![invalid()], None, false, &[USER]),
            ("disabled", vec![success(r#"{"status":"disabled"}"#)], None, false, &[USER]),
            ("expired", vec![success(r#"{"status":"expired"}"#)], None, false, &[USER]),
            // The answer tells whose token it is; the other endpoint would only say that it knows no such token.
            ("a user's, expired", vec![success(r#"{"status":"expired"}"#)], Some(&account), false, &[USER]),
        ] {
            let fixture = Fixture::new(answers);
            match fixture.client.verify_token(account, fixture.deadline()) {
                Ok(_) => assert!(is_valid, "{label}"),
                Err(Error::Credentials(_)) => assert!(!is_valid, "{label}"),
                Err(error) => panic!("{label}: {error}"),
            }
            assert_eq!(fixture.script.paths(), paths, "{label}");
        }
    }

    #[test]
    fn a_token_tells_when_it_expires_if_it_does() {
        for (fields, expected) in [
            ("", None),
            (r#","expires_on":null"#, None),
            (r#","expires_on":"2027-01-31T23:59:59Z""#, Some("2027-01-31T23:59:59Z")),
        ] {
            let fixture = Fixture::new([success(&format!(r#"{{"id":"t1","status":"active"{fields}}}"#))]);
            let expires_on = fixture.client.verify_token(None, fixture.deadline()).unwrap();
            assert_eq!(expires_on.as_deref(), expected, "{fields}");
        }
    }

    /// The account's endpoint would answer no better.
    #[test]
    fn trouble_at_cloudflare_says_nothing_about_the_token() {
        let fixture = Fixture::new((0..4).map(|_| answer(500, "")));
        let error = fixture.client.verify_token(Some(&AccountId::new("a1")), fixture.deadline()).unwrap_err();
        assert!(matches!(error, Error::Failed(_)), "{error}");
        assert!(fixture.script.paths().iter().all(|path| path == USER));
    }

    #[test]
    fn a_key_is_verified_by_reading_a_few_zones() {
        let key = Secret::parse("0123456789abcdef").unwrap();
        let credentials = Credentials { secret: key, email: Some("ops@example.com".into()) };
        let fixture = Fixture::with_credentials(credentials, [success("[]")]);
        fixture.client.verify_token(None, fixture.deadline()).unwrap();
        assert_eq!(fixture.script.paths(), ["/zones?page=1&per_page=5"]);
    }
}
