use std::time::Duration;

use cloudflare_emulator::{RateLimit, Token, TokenOwner, TokenStatus};

use crate::client::{TOKEN, free_zone, read, send};

#[test]
fn bad_credentials_are_refused_by_their_kind() {
    let (emulator, _) = free_zone();
    emulator.add_token(Token::legacy_key("legacykey0123456789", "shop@example.com"));
    let pair = "x-auth-key: legacykey0123456789\r\nx-auth-email:";
    for (headers, status, code) in [
        ("", 400, 9106),
        ("authorization: Bearer two words\r\n", 400, 6111),
        ("authorization: Token abcdefgh\r\n", 400, 6111),
        ("authorization: Bearer not-a-known-token\r\n", 403, 10000),
        ("x-auth-key: short\r\nx-auth-email: shop@example.com\r\n", 400, 6103),
        (&format!("{pair} no-address\r\n"), 400, 6102),
        (&format!("{pair} other@example.com\r\n"), 403, 10000),
    ] {
        let answer = send(&emulator, headers, "GET", "/zones", "").unwrap();
        assert_eq!((answer.status, answer.code()), (status, code), "{headers}");
    }
    let answer = send(&emulator, &format!("{pair} shop@example.com\r\n"), "GET", "/zones", "").unwrap();
    assert_eq!(answer.status, 200);
}

#[test]
fn a_token_is_verified_where_its_owner_is() {
    let (emulator, _) = free_zone();
    let account = emulator.account();
    let owned = Token { owner: TokenOwner::Account(account.clone()), ..Token::full("token-of-account") };
    emulator.add_token(owned);
    let of_account = format!("/accounts/{account}/tokens/verify");
    let verify = |token: &str, path: &str| {
        send(&emulator, &format!("authorization: Bearer {token}\r\n"), "GET", path, "").unwrap()
    };
    let answer = verify(TOKEN, "/user/tokens/verify");
    assert_eq!(answer.json()["messages"][0]["code"], 10000);
    assert_eq!(answer.result()["status"], "active");
    assert_eq!(verify("token-of-account", &of_account).status, 200);
    assert_eq!(verify("token-of-account", "/user/tokens/verify").status, 401);
    assert_eq!(verify(TOKEN, &of_account).status, 401);
    emulator.edit(|cloudflare| cloudflare.token_mut(TOKEN).status = TokenStatus::Disabled);
    assert_eq!(verify(TOKEN, "/user/tokens/verify").result()["status"], "disabled");
    assert_eq!(read(&emulator, "/zones").code(), 10000);
}

#[test]
fn too_many_calls_block_the_token_and_no_other() {
    let (emulator, _) = free_zone();
    emulator.add_token(Token::full("another-token"));
    let seconds = Duration::from_secs;
    emulator.set_rate_limit(RateLimit { calls: 3, window: seconds(300), block: seconds(300) });
    let first = read(&emulator, "/zones");
    assert_eq!(first.header("ratelimit").unwrap(), "\"default\";r=2;t=300");
    assert_eq!(first.header("ratelimit-policy").unwrap(), "\"default\";q=3;w=300");
    read(&emulator, "/zones");
    assert_eq!(read(&emulator, "/zones").status, 200);
    let blocked = read(&emulator, "/zones");
    assert_eq!((blocked.status, blocked.code()), (429, 971));
    assert_eq!(blocked.header("retry-after").unwrap(), "300");
    let other = send(&emulator, "authorization: Bearer another-token\r\n", "GET", "/zones", "").unwrap();
    assert_eq!(other.status, 200);
    emulator.advance_clock(seconds(301));
    assert_eq!(read(&emulator, "/zones").status, 200);
}
