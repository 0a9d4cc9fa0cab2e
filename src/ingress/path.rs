//! Path expressions: the part of RE2's syntax on which all readers agree.
//!
//! cloudflared compiles a rule's path with Go's `regexp` and searches the decoded path of the request for it, so
//! without `^` it may match anywhere. An expression that Go refuses makes cloudflared refuse the whole document. There
//! is no Go here, so only the syntax that both Go and `regex-lite` read is accepted; the little that is lost has a
//! plainer spelling.

mod scanner;
pub(super) mod shape;

use std::error::Error;
use std::fmt;

use regex_lite::RegexBuilder;

use crate::limits::PATH_MAX_BYTES;

/// The depth to which groups may nest.
const DEPTH_MAX: u32 = 20;

/// The memory of a compiled expression. Nested repetitions grow fast, in cloudflared as here, and one request may bring
/// thousands of them.
const COMPILED_MAX_BYTES: usize = 32 * 1024;

/// The largest repetition count for a part of an expression; this is Go's own limit.
const REPEAT_MAX: u32 = 1_000;

/// The characters that have a meaning in regular expressions.
const SPECIAL: [char; 14] = ['\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$'];

/// A path expression in the common subset of Go's RE2 and regex-lite.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathPattern(Box<str>);

impl PathPattern {
    /// Parses an expression, which is kept as written.
    ///
    /// # Errors
    /// When Go would refuse the expression, or read it differently from other engines.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.len() > PATH_MAX_BYTES {
            return Err(PathError::TooLong);
        }
        scanner::check(text)?;
        let compiled = RegexBuilder::new(text).size_limit(COMPILED_MAX_BYTES).nest_limit(DEPTH_MAX).build();
        match compiled {
            Ok(_) => Ok(Self(text.into())),
            Err(error) => Err(PathError::Engine(error.to_string().into())),
        }
    }

    /// The expression for a path and everything below it: `/api` becomes `^/api(/|$)`, with special characters escaped.
    /// A slash at the end adds nothing and is dropped. `/` becomes `^/`, which matches everything and so stands behind
    /// every narrower rule of its host.
    ///
    /// # Errors
    /// When the text does not begin with a slash, or holds characters that no decoded path contains or that were meant
    /// as a pattern.
    pub fn from_prefix(prefix: &str) -> Result<Self, PathError> {
        Self::parse(&expression_of_prefix(prefix)?)
    }

    /// [`parse`](Self::parse) for what an endpoint asks for. What is published already may have other paths.
    ///
    /// # Errors
    /// Also when the text has a blank at an end.
    pub fn asked(text: &str) -> Result<Self, PathError> {
        check_ends(text)?;
        Self::parse(text)
    }

    /// [`from_prefix`](Self::from_prefix) for what an endpoint asks for, likewise.
    ///
    /// # Errors
    /// Also when no visitor asks for such a path: a rule that limits access would stop no visitor. If it is meant,
    /// an expression can say it.
    pub fn asked_prefix(prefix: &str) -> Result<Self, PathError> {
        check_ends(prefix)?;
        if prefix.trim_end_matches('/').starts_with("//") {
            return Err(PathError::PrefixSlashes);
        }
        if prefix.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(PathError::PrefixDots);
        }
        Self::from_prefix(prefix)
    }

    /// The path of an expression that [`from_prefix`](Self::from_prefix) makes; `None` for every other one, and for
    /// `^/`.
    pub fn prefix(&self) -> Option<String> {
        let path = shape::prefix_of(&self.0)?;
        expression_of_prefix(&path).is_ok_and(|expression| *expression == *self.0).then_some(path)
    }

    /// True if a rule with the expression `path` takes every path that `other` matches, as far as their texts tell. Both
    /// may be of a foreign rule.
    pub fn takes_all_of(path: Option<&str>, other: Option<&str>) -> bool {
        let begins_within = || path.zip(other).is_some_and(|(path, other)| shape::begins_within(path, other));
        shape::covers(path, other) || begins_within()
    }

    /// True unless the texts say that no path is matched by both.
    pub fn may_share(path: Option<&str>, other: Option<&str>) -> bool {
        shape::may_share(path, other)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The reason why a text cannot be used as a path expression. Positions count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathError {
    /// The text is empty. A rule for all paths has no path.
    Empty,
    /// The text is longer than allowed.
    TooLong,
    /// The text at this position is not in the common subset.
    Syntax { position: usize, problem: Syntax },
    /// The second check, by regex-lite, refused it.
    Engine(Box<str>),
    /// The prefix does not begin with `/`.
    PrefixWithoutSlash,
    /// A character that no decoded path contains, or that was meant as a pattern.
    PrefixCharacter(char),
    /// A percent-encoded character: cloudflared compares the decoded path.
    PrefixEncoded,
    /// A blank at an end.
    OuterBlank,
    /// Several slashes at the beginning: in a link, a host stands behind them.
    PrefixSlashes,
    /// A part that clients resolve before they ask (RFC 3986, section 5.2.4).
    PrefixDots,
}

/// The problem that is outside the common subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// `*`, `+`, `?` or a count with nothing in front of it.
    NothingToRepeat,
    /// A repetition of a repetition, as in `a**`.
    RepeatedTwice,
    /// A count over the limit, alone or multiplied with those around it.
    RepeatedTooOften,
    /// `{` or `}` that is not part of a count.
    Brace,
    /// `]` outside a class, or `[` inside one.
    Bracket,
    /// Look-around or another group that begins with `(?`.
    GroupKind,
    /// `&&`, `--` or `~~` in a class: an operation on sets in some engines.
    ClassOperation,
    /// A backslash before a letter or digit that is not in the subset.
    Escape(char),
    /// A control character.
    Control(char),
}

impl fmt::Display for Syntax {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NothingToRepeat => "nothing to repeat here: write `.*` for anything, `\\*` for a star",
            Self::RepeatedTwice => "a repetition is repeated: put the inner one into a group",
            Self::RepeatedTooOften => return write!(formatter, "repeated more than {REPEAT_MAX} times"),
            Self::Brace => {
                "a brace that is no count such as `{2,3}`: write `\\{` or `\\}` for the character, \
                 `[^/]+` for a part of a path"
            }
            Self::Bracket => "a bracket out of place: write `\\[` or `\\]` for the character",
            Self::GroupKind => {
                "groups may be `(…)`, `(?:…)`, `(?i:…)` and `(?i)`; there is no name and no look-around"
            }
            Self::ClassOperation => "doubled `&`, `-` or `~` in a class: write one of them",
            Self::Escape(character) => {
                return write!(
                    formatter,
                    "`\\{character}` is not understood everywhere: there are `\\d \\s \\w \\b` with \
                 their capitals, `\\A`, `\\z`, and a backslash before punctuation"
                );
            }
            Self::Control(character) => return write!(formatter, "a path holds no {character:?}"),
        };
        formatter.write_str(text)
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => formatter.write_str("the path is empty: leave it out to match every path"),
            Self::TooLong => write!(formatter, "the path expression is longer than {PATH_MAX_BYTES} bytes"),
            Self::Syntax { position, problem } => write!(formatter, "at character {position}: {problem}"),
            Self::Engine(reason) => formatter.write_str(reason),
            Self::PrefixWithoutSlash => formatter.write_str("a path prefix begins with `/`"),
            Self::PrefixCharacter(character) => write!(
                formatter,
                "a path prefix holds no {character:?}: it is plain text and matches what is below it anyway"
            ),
            Self::PrefixEncoded => formatter
                .write_str("a path prefix is compared with the decoded path: write the character itself"),
            Self::OuterBlank => formatter.write_str(
                "a blank at an end would have to be in the visitor's path: take it off, or write `\\s` in an expression",
            ),
            Self::PrefixSlashes => formatter.write_str("a path prefix begins with one `/`"),
            Self::PrefixDots => formatter.write_str(
                "a path prefix has no part `.` or `..`: browsers resolve them before they ask",
            ),
        }
    }
}

impl Error for PathError {}

fn expression_of_prefix(prefix: &str) -> Result<String, PathError> {
    if !prefix.starts_with('/') {
        return Err(PathError::PrefixWithoutSlash);
    }
    if let Some(character) =
        prefix.chars().find(|character| character.is_control() || "*?#".contains(*character))
    {
        return Err(PathError::PrefixCharacter(character));
    }
    if prefix.split('%').skip(1).any(begins_with_two_digits) {
        return Err(PathError::PrefixEncoded);
    }
    let path = prefix.trim_end_matches('/');
    if path.is_empty() {
        return Ok("^/".to_owned());
    }
    let mut expression = String::from("^");
    for character in path.chars() {
        if SPECIAL.contains(&character) {
            expression.push('\\');
        }
        expression.push(character);
    }
    expression.push_str("(/|$)");
    Ok(expression)
}

fn check_ends(text: &str) -> Result<(), PathError> {
    let path = text.trim_end_matches('/');
    if path.trim().len() == path.len() { Ok(()) } else { Err(PathError::OuterBlank) }
}

fn begins_with_two_digits(text: &str) -> bool {
    text.len() >= 2 && text.bytes().take(2).all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_common_subset_is_taken_as_it_is_written() {
        for text in [
            "/",
            "api",
            "^/api(/|$)",
            r"\.(jpg|png)$",
            "^/v[0-9]+/",
            "(?i)^/admin",
            "(?i:^/A)/b",
            "^/(?:a|b)/",
            "^/[^/]+/edit$",
            r"\z",
            r"\A/x\b",
            r"^\S{1,3}$",
            r"[\w.-]+",
            r"[-a]",
            r"[a\-z]",
            r"[a-c\]x-z]",
            "[a-c-e]",
            "a{2}",
            "a{2,}?",
            "a{0,400}",
            "(a{10}){50}",
            "a*?b+?c??",
            "(a*)*",
            "()|a|",
            "/ä[ä-ü]",
            r"\\\.\+\*\?\(\)\|\[\]\{\}\^\$\/\-\&\~\#",
            "a&&b--c~~d",
        ] {
            let pattern = PathPattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(pattern.as_str(), text);
        }
    }

    #[test]
    fn what_engines_disagree_about_is_refused_with_its_place() {
        use Syntax as S;
        for (text, position, problem) in [
            ("*", 1, S::NothingToRepeat),
            ("a|+", 3, S::NothingToRepeat),
            ("(?i)*", 5, S::NothingToRepeat),
            ("^*", 2, S::NothingToRepeat),
            (r"a\b+", 4, S::NothingToRepeat),
            ("a**", 3, S::RepeatedTwice),
            ("a+??", 4, S::RepeatedTwice),
            ("a{2}{3}", 7, S::RepeatedTwice),
            ("a{1001}", 6, S::RepeatedTooOften),
            ("(a{11}){100}", 12, S::RepeatedTooOften),
            ("((a{100}){5}b){3}", 17, S::RepeatedTooOften),
            ("/users/{id}", 8, S::Brace),
            ("a{,3}", 2, S::Brace),
            ("a{01}", 4, S::Brace),
            ("a{1", 3, S::Brace),
            ("a}", 2, S::Brace),
            ("a]", 2, S::Bracket),
            ("[[a]]", 2, S::Bracket),
            ("/(?!x)", 4, S::GroupKind),
            ("(?<=a)b", 3, S::GroupKind),
            ("(?<n>a)", 3, S::GroupKind),
            ("(?x) a", 3, S::GroupKind),
            ("(?-i)a", 3, S::GroupKind),
            ("(?U)a", 3, S::GroupKind),
            ("(?P<n>a)", 3, S::GroupKind),
            ("(?s)a", 3, S::GroupKind),
            ("(?is)^/a", 3, S::GroupKind),
            ("[a&&b", 3, S::ClassOperation),
            ("[a--b]", 3, S::ClassOperation),
            ("[~~]", 2, S::ClassOperation),
            ("[]", 2, S::Bracket),
            ("[^]a]", 3, S::Bracket),
            ("[a-[:digit:]]", 4, S::Bracket),
            ("[[:alpha:]]", 2, S::Bracket),
            (r"\8", 2, S::Escape('8')),
            (r"\pL", 2, S::Escape('p')),
            (r"\Qa\E", 2, S::Escape('Q')),
            (r"\Z", 2, S::Escape('Z')),
            (r"\x41", 2, S::Escape('x')),
            (r"[\b]", 3, S::Escape('b')),
            ("a\tb", 2, S::Control('\t')),
            ("[\n]", 2, S::Control('\n')),
        ] {
            assert_eq!(PathPattern::parse(text), Err(PathError::Syntax { position, problem }), "{text}");
        }
        assert!(PathPattern::parse("a{1000}").is_ok(), "as much as Go takes");
        assert_eq!(PathPattern::parse(""), Err(PathError::Empty));
        assert_eq!(PathPattern::parse(&"a".repeat(PATH_MAX_BYTES + 1)), Err(PathError::TooLong));
        assert_ne!(PathPattern::parse(&"a".repeat(PATH_MAX_BYTES)), Err(PathError::TooLong));
    }

    #[test]
    fn the_second_check_refuses_what_the_first_does_not_count() {
        let deep = ["(".repeat(30), ")".repeat(30)].concat();
        for text in [&*deep, "x{2,1}", "(", "(a(b)", "a)", "[a", "[z-a]", r"[\d-z]", r"[a-\d]", "a\\"] {
            assert!(matches!(PathPattern::parse(text), Err(PathError::Engine(_))), "{text}");
        }
    }

    #[test]
    fn a_prefix_matches_a_path_and_what_is_below_it() {
        for (prefix, expression) in [
            ("/api", "^/api(/|$)"),
            ("/api/", "^/api(/|$)"),
            ("/api//", "^/api(/|$)"),
            ("/a.b+c(d)", r"^/a\.b\+c\(d\)(/|$)"),
            ("/a{b}[c]^$|\\", r"^/a\{b\}\[c\]\^\$\|\\(/|$)"),
            ("/a-b_c~d%zz", "^/a-b_c~d%zz(/|$)"),
            ("/ä b", "^/ä b(/|$)"),
            ("/", "^/"),
            ("//", "^/"),
        ] {
            let pattern =
                PathPattern::from_prefix(prefix).unwrap_or_else(|error| panic!("{prefix}: {error}"));
            assert_eq!(pattern.as_str(), expression);
        }
        for (prefix, error) in [
            ("", PathError::PrefixWithoutSlash),
            ("api", PathError::PrefixWithoutSlash),
            ("^/api", PathError::PrefixWithoutSlash),
            ("/api/*", PathError::PrefixCharacter('*')),
            ("/api?x", PathError::PrefixCharacter('?')),
            ("/a#b", PathError::PrefixCharacter('#')),
            ("/a\n", PathError::PrefixCharacter('\n')),
            ("/a%20b", PathError::PrefixEncoded),
        ] {
            assert_eq!(PathPattern::from_prefix(prefix), Err(error), "{prefix}");
        }
    }

    #[test]
    fn an_expression_has_a_prefix_only_where_one_makes_it() {
        for (text, prefix) in [
            ("^/api(/|$)", Some("/api")),
            (r"^/a\.b/c\+(/|$)", Some("/a.b/c+")),
            (r"^/a\\b(/|$)", Some(r"/a\b")),
            ("^/ä b(/|$)", Some("/ä b")),
            ("^/", None),
            ("/", None),
            ("^/p", None),
            ("/p(/|$)", None),
            ("p(/|$)", None),
            ("^p(/|$)", None),
            ("^(/|$)", None),
            ("^/(/|$)", None),
            ("^/p/(/|$)", None),
            ("^/p(/|$)x", None),
            ("^/p(/|$)(/|$)", None),
            ("^/p(?:/|$)", None),
            ("^/p($|/)", None),
            ("^/p(/.*)?$", None),
            ("^/a.b(/|$)", None),
            (r"^/a\-b(/|$)", None),
            (r"^/a\?b(/|$)", None),
            ("^/a%20b(/|$)", None),
            ("(?i)^/p(/|$)", None),
            ("^/p|^/q(/|$)", None),
        ] {
            let pattern = PathPattern::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(pattern.prefix().as_deref(), prefix, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_prefix_is_read_back_from_its_expression(text in r"/[a-c/.+()|\[\]{}^$\\%ä ~-]{0,8}|/\PC{0,8}") {
            if let Ok(pattern) = PathPattern::from_prefix(&text) {
                let path = text.trim_end_matches('/');
                let read = pattern.prefix();
                prop_assert_eq!(read.as_deref(), Some(path).filter(|path| !path.is_empty()));
            }
        }

        #[test]
        fn no_other_expression_has_a_prefix(text in r"\^?/[a-b./\\?*()-]{0,5}(\(/\|\$\))?[a-b]?") {
            if let Ok(pattern) = PathPattern::parse(&text) {
                let made = pattern.prefix().map(|prefix| PathPattern::from_prefix(&prefix));
                prop_assert!(made.is_none_or(|made| made == Ok(pattern)), "{}", text);
            }
        }

        /// Another engine, whose syntax has all that Go's has in common with regex-lite's.
        #[test]
        fn what_is_taken_means_the_same_to_another_engine(
            text in r"[a-c/0-3.+*?()|\[\]{},^$\\:PidwbAz<>&~-]{1,12}", path in "[a-c/0-3.-]{0,6}"
        ) {
            if PathPattern::parse(&text).is_ok() {
                let lite = regex_lite::Regex::new(&text).unwrap();
                let other = regex::bytes::RegexBuilder::new(&text).unicode(false).build().unwrap();
                prop_assert_eq!(lite.is_match(&path), other.is_match(path.as_bytes()), "{}: {}", text, path);
            }
        }

        #[test]
        fn every_prefix_matches_itself_and_what_is_below_it(
            prefix in r"(/[a-c.+()|\[\]{}^$\\-]{1,4}){1,3}", below in "[x-z]{1,3}"
        ) {
            let pattern = PathPattern::from_prefix(&prefix).unwrap();
            let compiled = regex::Regex::new(pattern.as_str()).unwrap();
            let matches = [prefix.clone(), format!("{prefix}/{below}")];
            let others = [format!("{prefix}{below}"), format!("/{below}{prefix}")];
            prop_assert!(matches.iter().all(|path| compiled.is_match(path)));
            prop_assert!(!others.iter().any(|path| compiled.is_match(path)));
            prop_assert_eq!(shape::prefix_of(pattern.as_str()), Some(prefix));
        }
    }
}
