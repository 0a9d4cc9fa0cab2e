//! Hostname patterns: their canonical text, and which of two includes the other.
//!
//! cloudflared compares the host of a request, without its port, with the hostname of a rule byte by byte. An exact
//! hostname is also compared in its IDNA form. If the hostname begins with `*.`, only the host's end is compared.
//! Only lower-case punycode without a trailing dot surely matches what browsers send, so only this form is written.

use std::borrow::Cow;
use std::cmp::Ordering;

/// The longest hostname in DNS, as text without the trailing dot.
pub const HOSTNAME_MAX_BYTES: usize = 253;

/// The longest label of a hostname.
pub const LABEL_MAX_BYTES: usize = 63;

/// The prefix with which cloudflared matches every name below the rest of the pattern.
const WILDCARD: &str = "*.";

/// The prefix of a label in punycode.
const PUNYCODE: &str = "xn--";

/// A hostname pattern in the form that we write: lower-case punycode, no trailing dot, optionally `*.` in front.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hostname(Box<str>);

impl Hostname {
    /// Parses a hostname in any case, in Unicode or punycode, with or without a trailing dot.
    ///
    /// This program has no tables for Unicode normalisation. So letters written as a base and a combining mark, and
    /// forms that IDNA would fold (full width, ligatures), are refused.
    ///
    /// # Errors
    /// When cloudflared would refuse the name, when no request could match it, or when DNS does not allow it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let bare = name.strip_prefix(WILDCARD).unwrap_or(name);
        if name.is_empty() {
            return Err("the hostname is empty".to_owned());
        }
        if bare.contains('/') {
            return Err("write the hostname alone, without https:// before it and without a path behind it"
                .to_owned());
        }
        if bare.contains('*') {
            return Err("a hostname may hold one `*`, as its first label with another after it, as in `*.example.com`"
                .to_owned());
        }
        if bare.contains(':') && !bare.contains('[') {
            return Err("a hostname has no port: put the port into the service".to_owned());
        }
        let mut written = String::with_capacity(name.len());
        if bare.len() < name.len() {
            written.push_str(WILDCARD);
        }
        for (index, label) in bare.split('.').enumerate() {
            if index > 0 {
                written.push('.');
            }
            written.push_str(&label_in_punycode(label)?);
        }
        if written.len() > HOSTNAME_MAX_BYTES {
            return Err(format!("the hostname is longer than {HOSTNAME_MAX_BYTES} bytes in punycode"));
        }
        Ok(Self(written.into()))
    }

    /// The pattern as written in a rule.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if it begins with `*.`.
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with(WILDCARD)
    }
}

/// True if `name` is `domain` or is below it on a label boundary, both in normal form. A wildcard is below its domain.
pub fn is_within(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Compares names from the end, with a dot before every other byte: a name is directly before all names below it.
pub fn in_tree_order(one: &str, other: &str) -> Ordering {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let in_common = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    let next = |name: &[u8]| name.iter().rev().nth(in_common).map(|byte| (*byte != b'.', *byte));
    next(one).cmp(&next(other))
}

/// True if `name` is below `domain`, both in normal form.
pub fn is_below(name: &str, domain: &str) -> bool {
    name != domain && is_within(name, domain)
}

/// The normal form of a name, which may be invalid: lower case, without a single trailing dot, with Unicode labels in
/// punycode if possible. Idempotent.
pub fn normalize(text: &str) -> String {
    // Two trailing dots both stay: if one were removed, a second call would remove the other.
    let name = text.strip_suffix('.').filter(|rest| !rest.ends_with('.')).unwrap_or(text);
    fold(name)
}

/// Lower case and punycode, as far as possible. Two patterns with the same result count as the same name.
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let labels = text.split('.').map(|label| {
        let label = lower_case(label);
        encode(&label).map_or(label, Cow::Owned)
    });
    labels.collect::<Vec<_>>().join(".")
}

/// The hosts that cloudflared matches with the hostname of a rule, ours or foreign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostPattern<'a> {
    /// No hostname, or `*`.
    All,
    /// The text after the `*`, with its dot. cloudflared compares it as written, so in upper case or Unicode it matches
    /// no host that a browser sends.
    Suffix(&'a str),
    /// The text, and its IDNA form if it has one.
    Exact(&'a str),
}

impl<'a> HostPattern<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        if text.is_empty() || text == "*" {
            Self::All
        } else if text.starts_with(WILDCARD) {
            Self::Suffix(text.strip_prefix('*').unwrap_or(text))
        } else {
            Self::Exact(text)
        }
    }

    /// True if this pattern matches every host that `hostname`, in normal form, matches.
    pub(crate) fn includes(&self, hostname: &str) -> bool {
        match self {
            Self::All => true,
            // If `hostname` is a wildcard, its suffix is compared: `*.example.com` includes `*.b.example.com`.
            Self::Suffix(suffix) => hostname.trim_start_matches('*').ends_with(suffix),
            Self::Exact(text) => *text == hostname || is_lookup_form(text, hostname),
        }
    }
}

/// True if `idna.Lookup.ToASCII` turns `text` into `form`. cloudflared matches this second form of an exact hostname.
/// ToASCII refuses some names. In doubt the answer is false, because a wrong true would claim that a rule matches.
fn is_lookup_form(text: &str, form: &str) -> bool {
    if text.is_ascii() && !text.eq_ignore_ascii_case(form) {
        return false;
    }
    let is_plain = |label: &str| {
        let characters_fit = label
            .chars()
            .all(|character| !character.is_ascii() || character.is_ascii_alphanumeric() || character == '-');
        let hyphens_fit = !label.starts_with('-') && !label.ends_with('-');
        let reserved =
            label.get(2..4) == Some("--") && label.is_ascii() && !lower_case(label).starts_with(PUNYCODE);
        characters_fit && hyphens_fit && !reserved
    };
    text.split('.').all(is_plain) && fold(text) == form
}

fn label_in_punycode(label: &str) -> Result<Cow<'_, str>, String> {
    if label.is_empty() {
        return Err("the hostname has an empty label: two dots in a row, or one in front".to_owned());
    }
    if let Some(character) = label.chars().find(|&character| !is_allowed(character)) {
        let help = match character.is_ascii() {
            true => "allowed are letters, digits, hyphens and underscores",
            false => "write the name in punycode, as DNS has it",
        };
        return Err(format!("a hostname cannot hold {character:?}: {help}"));
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(format!("the label {label:?} begins or ends with a hyphen"));
    }
    let label = lower_case(label);
    if label.is_ascii() && label.len() <= LABEL_MAX_BYTES {
        return Ok(label);
    }
    let encoded = encode(&label).map(Cow::Owned);
    encoded.ok_or_else(|| format!("the label {label:?} is longer than {LABEL_MAX_BYTES} bytes in punycode"))
}

/// True for letters, digits, hyphens, underscores (service names contain them) and the Unicode that IDNA keeps.
fn is_allowed(character: char) -> bool {
    match character {
        '-' | '_' => true,
        '\u{ad}' => false,
        // Combining marks: mostly part of a decomposed letter, whose punycode would be a different name.
        '\u{300}'..='\u{36f}' => false,
        // General punctuation, with joiners and invisible marks.
        '\u{2000}'..='\u{206f}' => false,
        // The other full stops of IDNA.
        '\u{3002}' | '\u{ff61}' => false,
        // Ligatures, presentation forms, variation selectors, full and half width, private use.
        '\u{e000}'..='\u{f8ff}' | '\u{fb00}'..='\u{fe0f}' | '\u{fe70}'..='\u{ffff}' => false,
        '\u{e0000}'.. => false,
        _ if character.is_ascii() => character.is_ascii_alphanumeric(),
        _ => !character.is_whitespace() && !character.is_control(),
    }
}

/// Maps each character by itself, as IDNA does; `str::to_lowercase` would treat a final sigma differently.
fn lower_case(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return text.into();
    }
    text.chars().flat_map(char::to_lowercase).collect()
}

/// A lower-case label in punycode; `None` if it is ASCII already, or if its punycode is too long for a label.
fn encode(label: &str) -> Option<String> {
    // Longer labels never fit, and below this length the encoder's arithmetic cannot overflow.
    if label.is_ascii() || label.chars().count() > LABEL_MAX_BYTES {
        return None;
    }
    let encoded = punycode::encode(label).ok()?;
    let written = format!("{PUNYCODE}{encoded}");
    (written.len() <= LABEL_MAX_BYTES).then_some(written)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hostname(text: &str) -> Hostname {
        Hostname::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// A hyphen and an asterisk come before a dot in ASCII.
    #[test]
    fn in_tree_order_a_name_comes_directly_before_all_that_are_below_it() {
        let names = ["a.b.c", "b.c", "-b.c", "a-b.c", "*.b.c", "ab.c", "c", "z.a.b.c", "bc", "*.c", "b.cc"];
        for end in ["", "om", ".example.com", ".of-more.example.com"] {
            let mut names = names.map(|name| format!("{name}{end}"));
            names.sort_unstable_by(|one, other| in_tree_order(one, other));
            for domain in &names {
                let first = names.iter().position(|name| name == domain).unwrap();
                let below = names.iter().filter(|name| is_within(name, domain)).count();
                assert!(
                    names[first..first + below].iter().all(|name| is_within(name, domain)),
                    "{domain} {names:?}"
                );
            }
        }
    }

    #[test]
    fn a_hostname_is_written_in_lower_case_punycode_without_a_trailing_dot() {
        for (text, written) in [
            ("app.example.com", "app.example.com"),
            ("App.Example.COM.", "app.example.com"),
            ("*.Example.com", "*.example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("*.bücher.example.", "*.xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
            ("straße.example", "xn--strae-oqa.example"),
            ("ΣΊΣΥΦΟΣ.example", "xn--kxa6akbbkh.example"),
            ("_dmarc.example.com", "_dmarc.example.com"),
            ("a-b.1.example", "a-b.1.example"),
            ("example", "example"),
            ("*.com", "*.com"),
        ] {
            assert_eq!(hostname(text).as_str(), written, "{text}");
            assert_eq!(hostname(text).is_wildcard(), written.starts_with('*'), "{text}");
        }
    }

    #[test]
    fn what_no_request_could_match_is_refused() {
        let long_label = "a".repeat(64);
        let long_name = ["a".repeat(60).as_str(); 5].join(".");
        for (text, reason) in [
            ("", "is empty"),
            (".", "is empty"),
            ("*", "as in `*.example.com`"),
            ("**.example.com", "as in `*.example.com`"),
            ("*.*.example.com", "as in `*.example.com`"),
            ("a.*.example.com", "as in `*.example.com`"),
            ("*a.example.com", "as in `*.example.com`"),
            ("x*", "as in `*.example.com`"),
            ("*.", "as in `*.example.com`"),
            ("*..", "an empty label"),
            ("a.b:443", "put the port into the service"),
            (".example.com", "an empty label"),
            ("a..b", "an empty label"),
            ("a..", "an empty label"),
            ("-a.example.com", r#"the label "-a" begins or ends with a hyphen"#),
            ("a-.example.com", r#"the label "a-" begins or ends with a hyphen"#),
            ("a b", "letters, digits"),
            ("[::1]", "letters, digits"),
            ("a/b", "without https:// before it"),
            ("https://a.b:443", "without https:// before it"),
            ("a\n", "letters, digits"),
            ("u\u{308}.example", "in punycode, as DNS has it"),
            ("a。example", "in punycode, as DNS has it"),
            ("ａ.example", "in punycode, as DNS has it"),
            ("a\u{200d}b", "in punycode, as DNS has it"),
            ("a\u{ad}b", "in punycode, as DNS has it"),
            ("a\u{a0}b", "in punycode, as DNS has it"),
            ("a\u{80}b", "in punycode, as DNS has it"),
            ("a\u{e0041}b", "in punycode, as DNS has it"),
            (&long_label, "is longer than 63 bytes"),
            (&long_name, "the hostname is longer than 253"),
        ] {
            let error = Hostname::parse(text).expect_err(text);
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_label_is_measured_in_punycode() {
        let fits = format!("ü{}", "a".repeat(55));
        assert_eq!(hostname(&fits).as_str().len(), 63, "xn--, a hyphen and the delta take them up");
        let error = Hostname::parse(&format!("ü{}", "a".repeat(56))).expect_err("64 bytes");
        assert!(error.contains("is longer than 63 bytes"), "{error}");
    }

    #[test]
    fn a_hostname_has_as_many_bytes_as_the_dns_takes() {
        let labels = [61, 61, 61, 63].map(|length| "a".repeat(length)).join(".");
        assert_eq!(hostname(&format!("{labels}.b")).as_str().len(), 251);
        assert_eq!(hostname(&format!("{labels}.bcd")).as_str().len(), 253);
        let error = Hostname::parse(&format!("{labels}.bcde")).expect_err("254 bytes");
        assert!(error.starts_with("the hostname is longer than 253"), "{error}");
    }

    /// The encoder, asked for this one, would end in an overflow.
    #[test]
    fn a_label_that_is_much_too_long_is_refused_before_it_is_encoded() {
        let label = format!("{}\u{20000}", "a".repeat(32_799));
        assert!(Hostname::parse(&label).is_err_and(|error| error.contains("is longer than 63 bytes")));
    }

    #[test]
    fn a_wildcard_includes_every_depth_below_it_and_not_its_own_domain() {
        for (wide, narrow, includes) in [
            ("a.b", "a.b", true),
            ("a.b", "x.a.b", false),
            ("*.a.b", "x.a.b", true),
            ("*.a.b", "x.y.a.b", true),
            ("*.a.b", "a.b", false),
            ("*.a.b", "xa.b", false),
            ("*.a.b", "*.a.b", true),
            ("*.a.b", "*.x.a.b", true),
            ("*.x.a.b", "*.a.b", false),
            ("x.a.b", "*.a.b", false),
        ] {
            let wide = hostname(wide);
            assert_eq!(HostPattern::of(wide.as_str()).includes(narrow), includes, "{wide:?} {narrow}");
        }
    }

    /// cloudflared uses a wildcard as written, and an exact name also in IDNA form; see the vectors.
    #[test]
    fn a_foreign_pattern_includes_what_cloudflared_matches_with_it() {
        for (pattern, name, includes) in [
            ("", "a.example.com", true),
            ("*", "*.example.com", true),
            ("App.Example.com", "app.example.com", true),
            ("_X.example.com", "_x.example.com", false),
            ("-A.example.com", "a.example.com", false),
            ("AB--c.example.com", "ab--c.example.com", false),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example", true),
            ("bücher.example", "xn--bcher-kva.example", true),
            ("*.Example.com", "a.example.com", false),
            ("*.bücher.example", "*.xn--bcher-kva.example", false),
            ("app.example.com.", "app.example.com", false),
            ("*.example.com.", "app.example.com", false),
            ("*a.example.com", "*.example.com", false),
            ("*.", "app.example.com", false),
        ] {
            assert_eq!(
                HostPattern::of(pattern).includes(hostname(name).as_str()),
                includes,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn a_foreign_label_that_begins_or_ends_with_a_hyphen_has_no_second_form() {
        for pattern in ["-ü.example", "ü-.example"] {
            let form = hostname(&normalize(pattern));
            assert!(form.as_str().starts_with("xn--"), "{form:?}");
            assert!(!HostPattern::of(pattern).includes(form.as_str()), "{pattern} {form:?}");
        }
    }

    #[test]
    fn a_name_is_within_a_domain_on_a_label_boundary() {
        for (name, domain, within) in [
            ("example.com", "example.com", true),
            ("app.example.com", "example.com", true),
            ("*.example.com", "example.com", true),
            ("notexample.com", "example.com", false),
            ("example.com", "app.example.com", false),
            ("example.com", "com.example", false),
        ] {
            assert_eq!(is_within(name, domain), within, "{name} {domain}");
        }
    }

    #[test]
    fn a_name_that_is_no_hostname_has_a_normal_form_too() {
        for (text, normal) in [
            ("App.Example.com.", "app.example.com"),
            ("*.BÜCHER.example", "*.xn--bcher-kva.example"),
            ("a b..C", "a b..c"),
            ("a..", "a.."),
            (".", ""),
            ("", ""),
        ] {
            assert_eq!(normalize(text), normal, "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_normal_form_is_normal(text in "[a-cA-CäÖßΣİ*._ -]{0,12}|\\PC{0,20}") {
            let normal = normalize(&text);
            prop_assert_eq!(normalize(&normal), normal);
        }

        #[test]
        fn what_is_parsed_is_written_in_its_normal_form(
            text in "(\\*\\.)?[a-cA-CäÖß_-]{1,4}(\\.[a-cA-Cé]{1,4}){0,3}\\.?"
        ) {
            if let Ok(hostname) = Hostname::parse(&text) {
                prop_assert_eq!(hostname.as_str(), normalize(&text));
                prop_assert_eq!(Hostname::parse(hostname.as_str()), Ok(hostname));
            }
        }

        #[test]
        fn parsing_never_fails_otherwise_than_by_its_error(text in any::<String>()) {
            let _ = Hostname::parse(&text);
        }
    }
}
