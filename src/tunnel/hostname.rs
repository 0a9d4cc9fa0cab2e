//! Hostname patterns: how they are written, and which of two includes the other.
//!
//! cloudflared compares the request's host, without its port and byte by byte, with the rule's text; with an exact
//! hostname also in its IDNA form; and where the text begins with `*.`, with the end of the host. So only lower-case
//! punycode without a trailing dot is sure to match what browsers send, and nothing else is written.

use std::error::Error;
use std::fmt;

use crate::limits::{HOSTNAME_MAX_BYTES, LABEL_MAX_BYTES};

/// What cloudflared lets a pattern begin with to match every name below the rest.
const WILDCARD: &str = "*.";

/// How a label in punycode begins.
const PUNYCODE: &str = "xn--";

/// A hostname pattern as we write it: lower-case punycode, no trailing dot, optionally `*.` in front.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hostname(Box<str>);

impl Hostname {
    /// Reads a hostname in any case, in Unicode or punycode, with or without a trailing dot.
    ///
    /// Unicode is taken as it is composed: there are no normalisation tables here, so a letter written as a base
    /// and a combining mark, and forms that IDNA would fold (full width, ligatures), are refused.
    ///
    /// # Errors
    /// When cloudflared would refuse the name, when it could never match a request, or when DNS has no such name.
    pub fn parse(text: &str) -> Result<Self, HostnameError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let bare = name.strip_prefix(WILDCARD).unwrap_or(name);
        if name.is_empty() {
            return Err(HostnameError::Empty);
        }
        if bare.contains('*') {
            return Err(HostnameError::Wildcard);
        }
        if bare.contains(':') && !bare.contains('[') {
            return Err(HostnameError::Port);
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
            return Err(HostnameError::TooLong);
        }
        Ok(Self(written.into()))
    }

    /// The pattern as it is written in a rule.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it begins with `*.`.
    pub fn is_wildcard(&self) -> bool {
        self.0.starts_with(WILDCARD)
    }

    /// Whether every host that `other` matches is matched by this one. `*.a.b` matches any depth below `a.b`, not
    /// `a.b` itself.
    pub fn includes(&self, other: &Self) -> bool {
        HostScope::of(&self.0).includes(other)
    }

    /// Whether the name is `domain` or below it on a label boundary. A wildcard is below the domain it stands on.
    pub fn is_within(&self, domain: &str) -> bool {
        let domain = normalize(domain);
        if domain.is_empty() {
            return true;
        }
        self.0.strip_suffix(&*domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Why a text is not a hostname that can be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostnameError {
    /// Nothing is left without the trailing dot.
    Empty,
    /// A `*` elsewhere than in a leading `*.`.
    Wildcard,
    /// A `:` and what follows.
    Port,
    /// Two dots with nothing between them, or a dot in front.
    EmptyLabel,
    /// A label that begins or ends with a hyphen.
    Hyphen(Box<str>),
    /// A label over 63 bytes, in punycode.
    LabelTooLong(Box<str>),
    /// Over 253 bytes, in punycode.
    TooLong,
    /// A character that no hostname holds, or that cannot be turned into punycode without IDNA's tables.
    Character(char),
}

impl fmt::Display for HostnameError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("the hostname is empty"),
            Self::Wildcard => formatter
                .write_str("a hostname may hold one `*`, as its first label with another after it, as in `*.example.com`"),
            Self::Port => formatter.write_str("a hostname has no port: put the port into the service"),
            Self::EmptyLabel => formatter.write_str("the hostname has an empty label: two dots in a row, or one in front"),
            Self::Hyphen(label) => write!(formatter, "the label {label:?} begins or ends with a hyphen"),
            Self::LabelTooLong(label) => {
                write!(formatter, "the label {label:?} is longer than {LABEL_MAX_BYTES} bytes in punycode")
            }
            Self::TooLong => {
                write!(formatter, "the hostname is longer than {HOSTNAME_MAX_BYTES} bytes in punycode")
            }
            Self::Character(character) => {
                write!(formatter, "a hostname cannot hold {character:?}: write the name in punycode, as DNS has it")
            }
        }
    }
}

impl Error for HostnameError {}

/// The normal form of a name that may be invalid, as far as it has one: lower case, one trailing dot off, Unicode
/// labels in punycode where that works. Idempotent.
pub fn normalize(text: &str) -> String {
    // Of two trailing dots none is taken off: the second call would take the other.
    let name = text.strip_suffix('.').filter(|rest| !rest.ends_with('.')).unwrap_or(text);
    fold(name)
}

/// Lower case and punycode, as far as that works. Two patterns that fold alike are held to be the same name.
pub(super) fn fold(text: &str) -> String {
    let labels = text.split('.').map(|label| {
        let label = lower_case(label);
        encode(&label).unwrap_or(label)
    });
    labels.collect::<Vec<_>>().join(".")
}

/// Which hosts a pattern matches in cloudflared, for the text of any rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostScope<'a> {
    /// No hostname, or `*`.
    All,
    /// What `*.` stands before, with the dot. cloudflared takes it as it is written, so in upper case or Unicode
    /// it matches nothing that a browser sends.
    Suffix(&'a str),
    /// The text, and its IDNA form where it has one.
    Exact(&'a str),
}

impl<'a> HostScope<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        if text.is_empty() || text == "*" {
            Self::All
        } else if text.starts_with(WILDCARD) {
            Self::Suffix(text.strip_prefix('*').unwrap_or(text))
        } else {
            Self::Exact(text)
        }
    }

    /// Whether every host that `hostname` matches is matched by this one.
    pub(super) fn includes(&self, hostname: &Hostname) -> bool {
        match self {
            Self::All => true,
            // Of a wildcard its own suffix is compared: `*.b.example.com` is below `*.example.com`.
            Self::Suffix(suffix) => hostname.0.trim_start_matches('*').ends_with(suffix),
            Self::Exact(_) if hostname.is_wildcard() => false,
            Self::Exact(text) => *text == &*hostname.0 || is_lookup_form(text, &hostname.0),
        }
    }
}

/// Whether `idna.Lookup.ToASCII`, which cloudflared asks for a second form of an exact hostname, makes `form` of
/// `text`. It refuses some names. Rather no than a wrong yes: it is concluded from it that a rule matches.
fn is_lookup_form(text: &str, form: &str) -> bool {
    if text.is_ascii() && !text.eq_ignore_ascii_case(form) {
        return false;
    }
    let is_plain = |label: &str| {
        let characters_fit =
            label.chars().all(|character| !character.is_ascii() || character.is_ascii_alphanumeric() || character == '-');
        let hyphens_fit = !label.starts_with('-') && !label.ends_with('-');
        let reserved = label.get(2..4) == Some("--") && label.is_ascii() && !lower_case(label).starts_with(PUNYCODE);
        characters_fit && hyphens_fit && !reserved
    };
    text.split('.').all(is_plain) && fold(text) == form
}

fn label_in_punycode(label: &str) -> Result<String, HostnameError> {
    if label.is_empty() {
        return Err(HostnameError::EmptyLabel);
    }
    if let Some(character) = label.chars().find(|&character| !is_allowed(character)) {
        return Err(HostnameError::Character(character));
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(HostnameError::Hyphen(label.into()));
    }
    let label = lower_case(label);
    if label.is_ascii() && label.len() <= LABEL_MAX_BYTES {
        return Ok(label);
    }
    encode(&label).ok_or_else(|| HostnameError::LabelTooLong(label.into()))
}

/// Letters, digits, hyphen, underscore (service names have it), and of Unicode what IDNA takes as it stands.
fn is_allowed(character: char) -> bool {
    match character {
        '-' | '_' => true,
        '\u{ad}' => false,
        // Combining marks: mostly a decomposed letter, whose punycode would be another name.
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

/// Character by character, as IDNA maps: `str::to_lowercase` would treat a final sigma apart.
fn lower_case(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// A lower-case label in punycode; nothing where it is ASCII already or does not fit a label.
fn encode(label: &str) -> Option<String> {
    // Longer labels never fit, and the encoder's arithmetic is safe below this.
    if label.is_ascii() || label.chars().count() > LABEL_MAX_BYTES {
        return None;
    }
    let encoded = punycode::encode(label).ok()?;
    let written = format!("{PUNYCODE}{encoded}");
    (written.len() <= LABEL_MAX_BYTES).then_some(written)
}
