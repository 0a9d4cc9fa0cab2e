//! Which rule cloudflared picks for a request: `Ingress.FindMatchingRule` of cloudflared 2026.8.2.
//!
//! Shares no code with the program or the emulator, so that a mistake of theirs is not made here as well.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;

/// Expressions that `regex` cannot read, with others that mean the same in Go.
const OTHER_SPELLINGS: [(&str, &str); 2] =
    [(r"\Q/a.c\E", r"/a\.c"), ("(?P<n>a)(?P<n>b)", "(?P<n>a)(?P<m>b)")];

/// The index of the first rule that matches a request. Where there is none, cloudflared takes the last.
pub(crate) fn first_match(rules: &[Value], host: &str, path: &str) -> Option<usize> {
    rules.iter().position(|rule| matches(rule, host, path))
}

/// Whether a rule, by itself, matches a request.
pub(crate) fn matches(rule: &Value, host: &str, path: &str) -> bool {
    let text = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    matches_host(text("hostname"), without_port(host)) && matches_path(text("path"), path)
}

fn matches_host(pattern: &str, host: &str) -> bool {
    if pattern.is_empty() || pattern == "*" || pattern == host {
        return true;
    }
    match pattern.strip_prefix('*') {
        Some(suffix) if suffix.starts_with('.') => host.ends_with(suffix),
        _ => lookup_form(pattern).is_some_and(|form| form == host),
    }
}

/// What `idna.Lookup.ToASCII` makes of a hostname, as far as the names here need it.
fn lookup_form(name: &str) -> Option<String> {
    let label = |label: &str| {
        let label = label.to_lowercase();
        let is_plain =
            |character: char| !character.is_ascii() || character.is_ascii_alphanumeric() || character == '-';
        if !label.chars().all(is_plain) || label.starts_with('-') || label.ends_with('-') {
            return None;
        }
        if label.is_ascii() { Some(label) } else { Some(format!("xn--{}", punycode::encode(&label).ok()?)) }
    };
    Some(name.split('.').map(label).collect::<Option<Vec<_>>>()?.join("."))
}

/// Go's `net.SplitHostPort`, where it succeeds.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn matches_path(expression: &str, path: &str) -> bool {
    /// An expression, and what it said of paths so far.
    type Asked = (Regex, HashMap<String, bool>);

    thread_local! {
        static ASKED: RefCell<HashMap<String, Asked>> = RefCell::default();
    }
    if expression.is_empty() {
        return true;
    }
    ASKED.with_borrow_mut(|asked| {
        if !asked.contains_key(expression) {
            asked.insert(expression.to_owned(), (compile(expression), HashMap::new()));
        }
        let (regex, answers) = &mut asked.get_mut(expression).expect("it was put in above");
        if let Some(answer) = answers.get(path) {
            return *answer;
        }
        let answer = regex.is_match(path);
        answers.insert(path.to_owned(), answer);
        answer
    })
}

fn compile(expression: &str) -> Regex {
    let spelling = OTHER_SPELLINGS.iter().find(|(unreadable, _)| *unreadable == expression);
    let expression = spelling.map_or(expression, |(_, readable)| readable);
    Regex::new(&in_ascii(expression)).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

/// Go's classes are ASCII, and `\b` stands between such words.
fn in_ascii(expression: &str) -> String {
    let mut written = String::new();
    let mut characters = expression.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            written.push(character);
            continue;
        }
        match characters.next() {
            Some('d') => written.push_str("[0-9]"),
            Some('D') => written.push_str("[^0-9]"),
            Some('w') => written.push_str("[0-9A-Za-z_]"),
            Some('W') => written.push_str("[^0-9A-Za-z_]"),
            Some('s') => written.push_str(r"[\t\n\f\r ]"),
            Some('S') => written.push_str(r"[^\t\n\f\r ]"),
            Some('b') => written.push_str(r"(?-u:\b)"),
            Some(other) => written.extend(['\\', other]),
            None => written.push('\\'),
        }
    }
    written
}
