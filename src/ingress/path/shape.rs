//! Compares expressions by their text: it decides which of two covers the other, and which one is in front.
//!
//! The expressions may be of foreign rules, outside the common subset, or invalid. Only what the text proves counts.

use std::cmp::Reverse;
use std::iter;
use std::str::Chars;

use super::{SPECIAL, compiled};

/// The ends of a prefix form: the path ends there, or continues after a slash.
const PREFIX_ENDS: [&str; 2] = ["(/|$)", "(?:/|$)"];

/// A continuation of the prefix form with characters of each kind. It is longer than most repetition counts.
const LONG_CONTINUATION: &str =
    r##"/a/Z-._~%20!$&'()*+,;=:@ "#<>[]\^`{|}é/0123456789/0123456789/0123456789/0123456789"##;

/// Expressions that match every path of a request.
const EVERYTHING: [&str; 4] = ["/", "^/", ".*", "^.*$"];

/// True if `path` matches every path that the expression `other` matches, as far as their texts tell. No expression
/// means all paths.
pub(crate) fn covers(path: Option<&str>, other: Option<&str>) -> bool {
    let Some(path) = path else { return true };
    if EVERYTHING.contains(&path) || Some(path) == other {
        return true;
    }
    let prefixes = prefix_of(path).zip(other.and_then(prefix_of));
    prefixes.is_some_and(|(path, other)| (other + "/").starts_with(&(path + "/")))
}

/// True if the beginning of the expression `other` proves that `path` matches all that `other` matches: `path` is a
/// prefix form, and `other` matches only the path of the prefix or paths below it; or `path` matches everything that
/// begins as `other` does.
pub(crate) fn begins_within(path: &str, other: &str) -> bool {
    let mut bodies = PREFIX_ENDS.iter().filter_map(|end| path.strip_suffix(end));
    let is_path_itself =
        bodies.any(|body| ["$", "/?$"].iter().any(|end| other.strip_suffix(end) == Some(body)));
    let beginning = literal_beginning(other).map(|(beginning, _)| beginning);
    let begins_with = |path: &str| beginning.as_ref().is_some_and(|beginning| beginning.starts_with(path));
    let is_open = |rest: &str| ["", ".*", "(.*)"].contains(&rest);
    match prefix_of(path) {
        Some(path) => is_path_itself || begins_with(&(path + "/")),
        None => literal_beginning(path).is_some_and(|(path, rest)| is_open(rest) && begins_with(&path)),
    }
}

/// True unless the texts of two expressions prove that no path matches both.
pub fn may_share(one: Option<&str>, other: Option<&str>) -> bool {
    let beginning = |text: &str| match prefix_of(text) {
        // Every path that the expression matches begins with this, if a slash is added to a path that ends there.
        Some(path) => Some(path + "/"),
        None => literal_beginning(text).map(|(beginning, _)| beginning),
    };
    let beginnings = one.and_then(beginning).zip(other.and_then(beginning));
    beginnings.is_none_or(|(one, other)| one.starts_with(&other) || other.starts_with(&one))
}

/// The rank of an expression among those of one host: a smaller rank is in front. It has the length of the literal
/// beginning, `None` for an expression that is not anchored, the continuation, and the length of the whole text. The
/// lengths are reversed, so that a longer expression has a smaller rank.
pub(crate) type PathRank = (Reverse<Option<usize>>, Continuation, Reverse<usize>);

/// What an anchored expression matches behind its literal beginning, from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Continuation {
    /// The path ends there.
    End,
    /// The text asks for more than the prefix form does.
    Narrow,
    /// The path ends there, or continues after a slash.
    Prefix,
    /// The path may continue with anything.
    Anything,
    /// The expression matches every path.
    Everything,
}

impl Continuation {
    /// The continuation of an expression, from the text behind its literal beginning.
    fn of(text: &str) -> Self {
        match text {
            "" => Self::Anything,
            "$" | "\\z" => Self::End,
            text if PREFIX_ENDS.contains(&text) => Self::Prefix,
            _ if is_wide(text) => Self::Anything,
            _ => Self::Narrow,
        }
    }
}

/// True if the text may continue a literal beginning with a letter, or if it matches every example of what the prefix
/// form matches. The prefix form continues with a slash or not at all.
fn is_wide(text: &str) -> bool {
    compiled(&format!("^(?:{text})")).is_ok_and(|expression| {
        let is_match = |rest: &str| expression.is_match(rest);
        is_match("x") || ["", "/", LONG_CONTINUATION].into_iter().all(is_match)
    })
}

/// Anchored expressions are first, by the length of their literal beginning and by its continuation; then others; then
/// those that match every path, even if anchored, because rules behind them get no request; then no expression. The
/// longest is first among those that are equal otherwise.
pub(crate) fn rank(path: Option<&str>) -> PathRank {
    let text = path.unwrap_or_default();
    let size = Reverse(text.len());
    if text.is_empty() || EVERYTHING.contains(&text) {
        return (Reverse(None), Continuation::Everything, size);
    }
    match literal_beginning(text.strip_prefix("(?i)").unwrap_or(text)) {
        Some((literal, rest)) => {
            // With a `+`, the last character of the literal beginning may be repeated.
            let repeated = rest.strip_prefix('+').zip(literal.chars().last());
            let repeated = repeated.map(|(rest, last)| format!("\\x{{{:x}}}*{rest}", u32::from(last)));
            let continuation = Continuation::of(repeated.as_deref().unwrap_or(rest));
            (Reverse(Some(literal.len())), continuation, size)
        }
        None => (Reverse(None), Continuation::Anything, size),
    }
}

/// The path that a prefix form such as `^/api(/|$)` stands for, unescaped; `None` for other expressions.
pub(super) fn prefix_of(text: &str) -> Option<String> {
    let body = PREFIX_ENDS.iter().find_map(|end| text.strip_suffix(end))?;
    let literal = body.strip_prefix('^')?;
    let mut characters = literal.chars();
    let path = iter::from_fn(|| literal_character(&mut characters)).collect::<Option<String>>()?;
    (path.starts_with('/') && !path.ends_with('/')).then_some(path)
}

/// The beginning of every path that an anchored expression matches, and the text of the expression behind it. `None` if
/// the expression is not surely anchored, or if it begins with flags, with which other letters may match too.
fn literal_beginning(text: &str) -> Option<(String, &str)> {
    let body = text.strip_prefix('^').or_else(|| text.strip_prefix("\\A"))?;
    if body.contains("\\Q") || has_top_level_alternation(body) {
        return None;
    }
    let mut literal = String::new();
    let mut characters = body.chars();
    let mut rest = body;
    while let Some(Some(plain)) = literal_character(&mut characters) {
        // The character before one of these may be absent or repeated.
        if characters.as_str().starts_with(['*', '?', '{']) {
            break;
        }
        literal.push(plain);
        rest = characters.as_str();
    }
    Some((literal, rest))
}

/// The next character of an expression, unescaped; an inner `None` if the expression does not match it literally.
fn literal_character(characters: &mut Chars<'_>) -> Option<Option<char>> {
    let character = characters.next()?;
    Some(match character {
        '\\' => characters.next().filter(char::is_ascii_punctuation),
        _ => Some(character).filter(|character| !SPECIAL.contains(character)),
    })
}

/// True if there is a `|` outside every group, so that the text before it does not apply after it; also if a class
/// makes that doubtful, because Go's expressions may have brackets in it.
fn has_top_level_alternation(text: &str) -> bool {
    if !text.contains('|') {
        return false;
    }
    let mut depth = 0_usize;
    let mut is_in_class = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            '[' if is_in_class => return true,
            '[' if characters.as_str().trim_start_matches('^').starts_with(']') => return true,
            '[' => is_in_class = true,
            ']' => is_in_class = false,
            '(' if !is_in_class => depth += 1,
            ')' if !is_in_class => depth = depth.saturating_sub(1),
            '|' if !is_in_class && depth == 0 => return true,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::PathPattern;
    use super::*;

    #[test]
    fn an_expression_covers_another_where_their_texts_say_so() {
        for (path, other, is_covering) in [
            (None, None, true),
            (None, Some("x"), true),
            (Some("/"), None, true),
            (Some("^/"), Some("x"), true),
            (Some(".*"), None, true),
            (Some("^.*$"), Some("/"), true),
            (Some("x"), None, false),
            (Some("x"), Some("x"), true),
            (Some("x"), Some("xy"), false),
            (Some("^/api(/|$)"), Some("^/api(/|$)"), true),
            (Some("^/api(/|$)"), Some("^/api(?:/|$)"), true),
            (Some("^/api(/|$)"), Some("^/api/v2(/|$)"), true),
            (Some("^/api(/|$)"), Some("^/apis(/|$)"), false),
            (Some("^/ap(/|$)"), Some("^/api(/|$)"), false),
            (Some("^/api/v2(/|$)"), Some("^/api(/|$)"), false),
            (Some(r"^/a\.b(/|$)"), Some(r"^/a\.b/c(/|$)"), true),
            (Some("^/a.b(/|$)"), Some(r"^/a\.b/c(/|$)"), false),
            (Some("^/api(/|$)"), Some("^/api/v2/"), false),
            (Some(r"^/\d(/|$)"), Some("^/d/x(/|$)"), false),
        ] {
            assert_eq!(covers(path, other), is_covering, "{path:?} {other:?}");
        }
    }

    #[test]
    fn expressions_share_paths_unless_their_beginnings_differ() {
        for (one, other, may_share) in [
            (None, Some("^/a"), true),
            (Some("a"), Some("^/b"), true),
            (Some("^/app"), Some("^/app/admin"), true),
            (Some("^/a"), Some("^/b"), false),
            (Some("(?i)^/A"), Some("^/a"), true),
            (Some("^/ap(/|$)"), Some("^/api(/|$)"), false),
            (Some("^/api(/|$)"), Some("^/api/v2(/|$)"), true),
            (Some("^/ap(/|$)"), Some("^/ap$"), true),
            (Some("^/ap(/|$)"), Some("^/api"), false),
            (Some("^/ap(/|$)"), Some("^/a"), true),
            (Some("^/a[](]|/b"), Some("^/b"), true),
            (Some("^/a[[:alpha:](]|/b"), Some("^/b"), true),
        ] {
            assert_eq!(super::may_share(one, other), may_share, "{one:?} {other:?}");
            assert_eq!(super::may_share(other, one), may_share, "{other:?} {one:?}");
        }
    }

    #[test]
    fn expressions_are_ranked_from_narrow_to_wide() {
        let ranked = [
            Some("^/api/v2/users"),
            Some("^/api/v2/"),
            Some("^/api/(v1|v2)"),
            Some("^/api(/|$)"),
            Some("(?i)^/ap"),
            Some("^/$"),
            Some("^[a-z]"),
            Some("^/api|^/b/longer"),
            Some(r"\.(jpg|png)$"),
            Some("api"),
            Some("^.*$"),
            Some("^/"),
            Some("/"),
            None,
        ];
        for pair in ranked.windows(2) {
            assert!(rank(pair[0]) < rank(pair[1]), "{pair:?}");
        }
    }

    /// Each matches every path of the one before it.
    #[test]
    fn expressions_of_one_literal_beginning_are_ranked_from_narrow_to_wide() {
        for ranked in [
            [r"^/files/.*\.key$", "^/files/.*$"],
            [r"^/files/.*\.key$", "^/files/"],
            ["^/files/[^/]+/keys$", "^/files/[^/]+/"],
            ["^/api$", "^/api(/|$)"],
            [r"^/api\z", "^/api(?:/|$)"],
            ["^/api(/v[0-9]+)?$", "^/api(/|$)"],
            ["^/api/?$", "^/api(/|$)"],
            ["^/api(/v1|/v2)", "^/api(/|$)"],
            ["^/api(/v1|/v2)/admin.*", "^/api(/|$)"],
            ["^/api(/v1|/v2)/?", "^/api(/|$)"],
            ["^/api(/v[0-9]+)?/admin.*", "^/api(/|$)"],
            ["^/api(/.+)$", "^/api(/|$)"],
            ["^/api(/[a-zA-Z0-9._~%/-]*)?$", "^/api(/|$)"],
            ["^/api(/.{0,64})?$", "^/api(/|$)"],
            ["^/api(/|$)", "^/api.{0,}"],
            ["^/api(/|$)", "^/api(.*|$)"],
            ["^/api(/|$)", "^/api[a-z/0-9.-]*$"],
            ["^/api(/|$)", "^/api([/.].*)?$"],
            ["^/api(/|$)", "^/api([._].*|/.*)?$"],
            ["^/api(/|$)", "^/api(|/.*)$"],
            ["^/api(/|$)", "^/api(/.*)?$"],
            ["^/users/[0-9]+$", "^/users/[a-z0-9-]+$"],
            [r"^/users/\d+$", "^/users/[^/]+$"],
            ["^/api(/|$)", "^/api(|[^a-z].*)$"],
            ["^/api(/|$)", r"^/api(\.json)?(/|$)"],
            ["^/api(/|$)", "^/api/?"],
            ["^/api(/|$)", "^/api.+"],
            ["^/api(/|$)", "^/api+"],
            ["^/api(/|$)", "^/api+.*"],
            ["^/api+$", "^/api(/|$)"],
            ["^/api/+admin", "^/api/"],
            ["^/api/+admin", "^/api(/|$)"],
            ["^/api(/|$)", "^/api(/.*)?"],
            ["^/api(/|$)", "^/api/?(.*)$"],
            ["^/api(/|$)", "^/api(.*)"],
            ["^/api(/|$)", "^/api/?.*"],
            ["^/api(/|$)", "^/api.*/?$"],
            ["^/api(/|$)", "^/api"],
            ["^/api(/|$)", "^/api.*"],
            ["^/v[0-9]+/", "^/v"],
        ] {
            assert!(rank(Some(ranked[0])) < rank(Some(ranked[1])), "{ranked:?}");
        }
    }

    #[test]
    fn the_literal_beginning_is_what_every_match_begins_with() {
        for (text, literal) in [
            ("^/api", Some("/api")),
            (r"^/a\.b", Some("/a.b")),
            (r"\A/a", Some("/a")),
            ("(?i)^/a", None),
            ("^/ab*", Some("/a")),
            ("^/ab?c", Some("/a")),
            ("^/ab{2}", Some("/a")),
            ("^/ab+c", Some("/ab")),
            (r"^/a\d", Some("/a")),
            ("^/a[|]b", Some("/a")),
            ("^/(a|b)", Some("/")),
            ("^/(a[)]|b)", Some("/")),
            ("^/(a)|/b", None),
            ("^/a[(]|/b", None),
            ("^/a[b]|/c", None),
            (r"^/a\|b", Some("/a|b")),
            ("^/a|/b", None),
            ("/a", None),
            (r"^/\Qa|b\E", None),
            ("(^/a)", None),
        ] {
            let beginning = literal_beginning(text).map(|(beginning, _)| beginning);
            assert_eq!(beginning.as_deref(), literal, "{text}");
        }
    }

    #[test]
    fn narrower_expressions_are_in_front_of_the_prefix_form_and_wider_ones_behind_it() {
        let prefix = "^/api(/|$)";
        let matched = |text: &str| {
            let expression = regex::Regex::new(text).unwrap();
            let paths = ["/api", "/api/", "/api/v1", "/api/v3/x.js", "/apis", "/api.key", "/api1"];
            paths.map(|path| expression.is_match(path))
        };
        let of_prefix = matched(prefix);
        let has_more =
            |one: &[bool], other: &[bool]| one.iter().zip(other).any(|(one, other)| *one && !other);
        for beginning in ["", "/?", "(/v1)?", "(/v1|/v2)", "(/[a-z0-9]+)", "(/|$)", ".*", "[^?]*"] {
            for end in
                ["", "$", "/?", "/?$", ".*", "(.*)$", "(/.*)?", "(/v1)?", "(/v1|/v2)$", "[0-9]+", r"\.key$"]
            {
                let text = ["^/api", beginning, end].concat();
                let matched = matched(&text);
                match (has_more(&matched, &of_prefix), has_more(&of_prefix, &matched)) {
                    (true, false) => assert!(rank(Some(prefix)) < rank(Some(&text)), "{text} is wider"),
                    (false, true) => assert!(rank(Some(&text)) < rank(Some(prefix)), "{text} is narrower"),
                    _ => {}
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_path_matches_two_expressions_that_share_none(
            texts in prop::collection::vec(r"(\(\?i\))?\^/[a-cA/.+*?()|]{0,5}(\(/\|\$\))?", 2), path in "/[a-cA/]{0,6}"
        ) {
            let is_match = |text: &String| {
                let pattern = PathPattern::parse(text).ok();
                pattern.is_some_and(|pattern| regex::Regex::new(pattern.as_str()).unwrap().is_match(&path))
            };
            let is_shared = texts.iter().all(is_match);
            prop_assert!(!is_shared || may_share(Some(&texts[0]), Some(&texts[1])), "{:?} {}", texts, path);
        }

        #[test]
        fn a_path_of_an_expression_that_another_one_is_known_to_cover_matches_both(
            texts in prop::collection::vec(r"\^/[ab/+]{0,3}(\.\*|\(\.\*\)|\(/\|\$\)|/\?\$|\$|\(/a\)\?)?", 2),
            path in "/[ab/]{0,4}"
        ) {
            let is_match = |text: &String| {
                PathPattern::parse(text).ok().map(|one| regex::Regex::new(one.as_str()).unwrap().is_match(&path))
            };
            let [wide, narrow] = [&texts[0], &texts[1]];
            let is_known = PathPattern::takes_all_of(Some(wide), Some(narrow));
            let matches = is_match(narrow).zip(is_match(wide));
            prop_assert!(!is_known || matches.is_none_or(|(narrow, wide)| !narrow || wide), "{} {}", wide, narrow);
        }

        #[test]
        fn what_anchored_expressions_match_begins_with_their_literal(
            text in r"(\^|\\A)/[a-c/.+*?()|\[\]\\d]{0,8}", path in "/[a-c/]{0,6}"
        ) {
            if let (Ok(pattern), Some((literal, _))) = (PathPattern::parse(&text), literal_beginning(&text)) {
                let compiled = regex::Regex::new(pattern.as_str()).unwrap();
                prop_assert!(!compiled.is_match(&path) || path.starts_with(&literal), "{} {}", text, path);
            }
        }
    }
}
