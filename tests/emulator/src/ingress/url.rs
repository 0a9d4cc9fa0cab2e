//! The address of a service, as far as cloudflared looks at it with Go's `net/url`.

use super::quoted;

/// What is left of an address: enough to see whether it is one.
#[derive(Debug)]
pub(super) struct Address {
    /// Empty where there is none.
    pub(super) scheme: String,
    /// Without the port.
    pub(super) hostname: String,
    pub(super) has_path: bool,
}

/// Parses an address, or says what Go's `url.Parse` says about it.
pub(super) fn parse(text: &str) -> Result<Address, String> {
    parse_parts(text).map_err(|mistake| format!("parse {}: {mistake}", quoted(text)))
}

fn parse_parts(text: &str) -> Result<Address, String> {
    let (main, fragment) = text.split_once('#').unwrap_or((text, ""));
    if main.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (scheme, rest) = split_scheme(main)?;
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    let none = Address { scheme: scheme.to_owned(), hostname: String::new(), has_path: false };
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            return Ok(none);
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let mut hostname = String::new();
    let mut path = rest;
    if let Some(after) = rest.strip_prefix("//")
        && (!scheme.is_empty() || !rest.starts_with("///"))
    {
        let (authority, after) = after.split_at(after.find('/').unwrap_or(after.len()));
        path = after;
        hostname = parse_authority(authority)?;
    }
    check_escapes(path)?;
    check_escapes(fragment)?;
    Ok(Address { hostname, has_path: !path.is_empty(), ..none })
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => {
                return Ok((
                    text.get(..index).unwrap_or_default(),
                    text.get(index + 1..).unwrap_or_default(),
                ));
            }
            _ => break,
        }
    }
    Ok(("", text))
}

/// The hostname of `user:password@host:port`.
fn parse_authority(authority: &str) -> Result<String, String> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return parse_host(authority);
    };
    let hostname = parse_host(host)?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(allowed) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    check_escapes(user)?;
    Ok(hostname)
}

fn parse_host(host: &str) -> Result<String, String> {
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        host.get(end + 1..).unwrap_or_default()
    } else {
        host.find(':').and_then(|colon| host.get(colon..)).unwrap_or_default()
    };
    let is_port =
        |port: &str| port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if !port.is_empty() && !is_port(port) {
        return Err(format!("invalid port {} after host", quoted(port)));
    }
    check_host_characters(host)?;
    let name = host.strip_suffix(port).unwrap_or(host);
    Ok(name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name).to_owned())
}

fn check_host_characters(host: &str) -> Result<(), String> {
    for (index, character) in host.char_indices() {
        if character == '%' {
            let escape = escape_at(host, index)?;
            // Only bytes beyond ASCII may be escaped in a host, and the percent sign of a zone.
            let is_ascii = escape.get(1..2).is_some_and(|digit| digit < "8");
            if is_ascii && escape != "%25" {
                return Err(format!("invalid URL escape {}", quoted(escape)));
            }
        } else if character.is_ascii() && !is_host_character(character) {
            return Err(format!("invalid character {} in host name", quoted(&character.to_string())));
        }
    }
    Ok(())
}

fn is_host_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"".contains(character)
}

fn check_escapes(text: &str) -> Result<(), String> {
    text.match_indices('%').try_for_each(|(index, _)| escape_at(text, index).map(|_| ()))
}

/// The three bytes of the escape at `index`.
fn escape_at(text: &str, index: usize) -> Result<&str, String> {
    let rest = text.get(index..).unwrap_or_default();
    let is_escape = |escape: &&str| escape.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit());
    rest.get(..3).filter(is_escape).ok_or_else(|| {
        let shown: String = rest.chars().take(3).collect();
        format!("invalid URL escape {}", quoted(&shown))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (text, scheme, hostname, has_path) in [
            ("HTTP://A.b:80", "HTTP", "A.b", false),
            ("http://u:p@x?y#z", "http", "x", false),
            ("http://[fe80::1%25en0]:80", "http", "fe80::1%25en0", false),
            ("http://%c3%a4", "http", "%c3%a4", false),
            ("http:///x", "http", "", true),
            ("mailto:x", "mailto", "", false),
            ("x/y", "", "", true),
        ] {
            let Address { scheme: s, hostname: h, has_path: p } = parse(text).unwrap();
            assert_eq!((s.as_str(), h.as_str(), p), (scheme, hostname, has_path), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_in_the_words_of_go() {
        for (text, mistake) in [
            ("http://a\tb", "net/url: invalid control character in URL"),
            ("http://a:80:80", "invalid port \":80:80\" after host"),
            ("http://%41", "invalid URL escape \"%41\""),
            ("http://a/%4", "invalid URL escape \"%4\""),
            ("http://u ser@a", "net/url: invalid userinfo"),
            ("http://a^b", "invalid character \"^\" in host name"),
        ] {
            assert_eq!(parse(text).unwrap_err(), format!("parse {}: {mistake}", quoted(text)));
        }
    }
}
