//! The token with which `cloudflared` connects for a tunnel. Cloudflare's documents do not describe its text;
//! cloudflared reads it as base64 of a JSON object (`connection/connection.go`).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use crate::model::{AccountId, TunnelId};
use crate::secret::Secret;

/// A tunnel token. It holds the tunnel's secret, so it is never shown.
#[derive(Debug)]
pub struct TunnelToken {
    text: Secret,
    account: Box<str>,
    tunnel: TunnelId,
}

#[derive(Deserialize)]
struct WireTunnelToken {
    #[serde(rename = "a")]
    account: Box<str>,
    #[serde(rename = "t")]
    tunnel: Box<str>,
    #[serde(rename = "s")]
    secret: Box<str>,
}

impl TunnelToken {
    /// Reads a token as cloudflared does. `None` if it names no account and tunnel, or has no secret. An error would
    /// repeat text that may nevertheless be a secret.
    pub fn parse(text: &str) -> Option<Self> {
        let text = Secret::parse(text).ok()?;
        let json = BASE64_STANDARD.decode(text.expose()).ok()?;
        let wire: WireTunnelToken = serde_json::from_slice(&json).ok()?;
        let tunnel = TunnelId::parse(&wire.tunnel).ok()?;
        let secret = BASE64_STANDARD.decode(&*wire.secret).ok()?;
        (!secret.is_empty()).then_some(Self { text, account: wire.account, tunnel })
    }

    /// True if cloudflared would connect with it for this tunnel.
    pub fn is_for(&self, account: &AccountId, tunnel: &TunnelId) -> bool {
        self.account.eq_ignore_ascii_case(account.as_str()) && self.tunnel == *tunnel
    }

    /// The token itself, for the file that cloudflared reads.
    pub fn expose(&self) -> &str {
        self.text.expose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: &str = "699d98642c564d2e855e9661899b7252";
    const TUNNEL: &str = "6ff42ae2-765d-4adf-8112-31c55c1551ef";
    const SECRET: &str = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0MTI=";

    fn token(json: &str) -> String {
        BASE64_STANDARD.encode(json)
    }

    #[test]
    fn a_token_tells_its_account_and_its_tunnel() {
        let text = token(&format!(r#"{{"a":"{ACCOUNT}","t":"{TUNNEL}","s":"{SECRET}","e":"fed"}}"#));
        let read = TunnelToken::parse(&format!("{text}\n")).unwrap();
        let (account, tunnel) = (AccountId::new(ACCOUNT), TunnelId::parse(TUNNEL).unwrap());
        let other = TunnelId::parse("00000000-0000-4000-8000-000000000000").unwrap();
        assert!(read.is_for(&account, &tunnel));
        assert!(!read.is_for(&account, &other), "another tunnel's");
        assert!(!read.is_for(&AccountId::new("a1"), &tunnel), "another account's");
        assert_eq!(read.expose(), text);
        assert!(!format!("{read:?}").contains(&text));
    }

    #[test]
    fn what_cloudflared_would_not_connect_with_is_no_token() {
        for (label, text) in [
            ("nothing", String::new()),
            ("quoted", format!("\"{}\"", token(&format!(r#"{{"a":"a","t":"{TUNNEL}","s":"{SECRET}"}}"#)))),
            ("no base64", "a token".to_owned()),
            ("no JSON", token("secret")),
            ("no account", token(&format!(r#"{{"t":"{TUNNEL}","s":"{SECRET}"}}"#))),
            ("no tunnel", token(&format!(r#"{{"a":"a","s":"{SECRET}"}}"#))),
            ("a tunnel's name", token(&format!(r#"{{"a":"a","t":"home","s":"{SECRET}"}}"#))),
            ("no secret", token(&format!(r#"{{"a":"a","t":"{TUNNEL}"}}"#))),
            ("an empty secret", token(&format!(r#"{{"a":"a","t":"{TUNNEL}","s":""}}"#))),
            ("a secret that is no base64", token(&format!(r#"{{"a":"a","t":"{TUNNEL}","s":"?"}}"#))),
        ] {
            assert!(TunnelToken::parse(&text).is_none(), "{label}");
        }
    }
}
