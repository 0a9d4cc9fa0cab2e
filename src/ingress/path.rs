//! Path expressions: the part of RE2's syntax on which Go's `regexp` and `regex-lite` agree.
//!
//! cloudflared compiles a rule's path with Go's `regexp` and searches the decoded path of the request for it, so
//! an expression without `^` may match anywhere. If Go refuses an expression, cloudflared refuses the whole document.
//! This program cannot ask Go, so it accepts only the syntax that Go and `regex-lite` read alike. Every expression
//! outside that syntax has a plainer spelling.

pub(crate) mod scanner;
pub(super) mod shape;

pub use shape::may_share;

use regex_lite::{Regex, RegexBuilder};

use crate::limits::PATH_MAX_BYTES;

/// The depth to which groups may nest.
const DEPTH_MAX: u32 = 20;

/// The memory of a compiled expression. Nested repetitions grow fast, in cloudflared as here, and one request may have
/// thousands of expressions.
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
    /// When Go would refuse the expression, or read it differently from other engines. Also when the text begins or
    /// ends with a blank, slashes at the end aside.
    pub fn parse(text: &str) -> Result<Self, String> {
        check_ends(text)?;
        if text.is_empty() {
            return Err("the path is empty: leave it out to match every path".to_owned());
        }
        if text.len() > PATH_MAX_BYTES {
            return Err(format!("the path expression is longer than {PATH_MAX_BYTES} bytes"));
        }
        scanner::check(text)?;
        compiled(text).map(|_| Self(text.into())).map_err(|error| error.to_string())
    }

    /// The expression for a path and everything below it: `/api` becomes `^/api(/|$)`, with special characters escaped.
    /// A slash at the end is dropped. `/` becomes `^/`, which matches every path, so its rule is behind every narrower
    /// rule of the host.
    ///
    /// # Errors
    /// When the text does not begin with a slash, or contains characters that no decoded path contains or that were
    /// meant as a pattern; and when no browser requests such a path, so that the rule would limit access for no
    /// visitor. An expression can still match such a path.
    pub fn from_prefix(prefix: &str) -> Result<Self, String> {
        check_ends(prefix)?;
        if prefix.trim_end_matches('/').starts_with("//") {
            return Err("a path prefix begins with one `/`".to_owned());
        }
        if prefix.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(
                "a path prefix has no part `.` or `..`: browsers resolve them before they ask".to_owned()
            );
        }
        Self::parse(&expression_of_prefix(prefix)?)
    }

    /// The path of an expression for a path and everything below it; `None` for every other expression, and for `^/`.
    pub fn prefix_of(expression: &str) -> Option<String> {
        let path = shape::prefix_of(expression)?;
        expression_of_prefix(&path).is_ok_and(|made| *made == *expression).then_some(path)
    }

    /// True if the expression `path` matches every path that `other` matches, as far as their texts tell. Both may be
    /// of foreign rules. This proves more than the comparison by which rules are ordered, so it does not tell which of
    /// two rules is in front.
    pub fn takes_all_of(path: Option<&str>, other: Option<&str>) -> bool {
        let begins_within = || path.zip(other).is_some_and(|(path, other)| shape::begins_within(path, other));
        shape::covers(path, other) || begins_within()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The expression, compiled within the limits.
fn compiled(text: &str) -> Result<Regex, regex_lite::Error> {
    RegexBuilder::new(text).size_limit(COMPILED_MAX_BYTES).nest_limit(DEPTH_MAX).build()
}

/// The text of the expression for a path and everything below it, also for a path that no browser requests.
pub(crate) fn expression_of_prefix(prefix: &str) -> Result<String, String> {
    if !prefix.starts_with('/') {
        return Err("a path prefix begins with `/`".to_owned());
    }
    if let Some(character) =
        prefix.chars().find(|character| character.is_control() || "*?#".contains(*character))
    {
        return Err(format!(
            "a path prefix must not contain {character:?}: a prefix is plain text, and matches all paths \
             below it anyway"
        ));
    }
    if prefix.split('%').skip(1).any(begins_with_two_digits) {
        return Err("a path prefix is compared with the decoded path: write the character itself".to_owned());
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

fn check_ends(text: &str) -> Result<(), String> {
    let path = text.trim_end_matches('/');
    if path.trim().len() == path.len() {
        return Ok(());
    }
    Err("the path begins or ends with a blank: remove it, or write `\\s` in an expression".to_owned())
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
        const BRACE: &str = "a brace that is no count";
        const BRACKET: &str = "a bracket out of place";
        const GROUP: &str = "groups may be";
        const NOTHING: &str = "nothing to repeat here";
        const TOO_OFTEN: &str = "repeated more than 1000 times";
        const TWICE: &str = "a repetition is repeated";
        const CLASS: &str = "doubled";
        for (text, position, problem) in [
            ("*", 1, NOTHING),
            ("a|+", 3, NOTHING),
            ("(?i)*", 5, NOTHING),
            ("^*", 2, NOTHING),
            (r"a\b+", 4, NOTHING),
            ("a**", 3, TWICE),
            ("a+??", 4, TWICE),
            ("a{2}{3}", 7, TWICE),
            ("a{1001}", 6, TOO_OFTEN),
            ("(a{11}){100}", 12, TOO_OFTEN),
            ("((a{100}){5}b){3}", 17, TOO_OFTEN),
            ("/users/{id}", 8, BRACE),
            ("a{,3}", 2, BRACE),
            ("a{01}", 4, BRACE),
            ("a{1", 3, BRACE),
            ("a}", 2, BRACE),
            ("a]", 2, BRACKET),
            ("[[a]]", 2, BRACKET),
            ("/(?!x)", 4, GROUP),
            ("(?<=a)b", 3, GROUP),
            ("(?<n>a)", 3, GROUP),
            ("(?x) a", 3, GROUP),
            ("(?-i)a", 3, GROUP),
            ("(?U)a", 3, GROUP),
            ("(?P<n>a)", 3, GROUP),
            ("(?s)a", 3, GROUP),
            ("(?is)^/a", 3, GROUP),
            ("[a&&b", 3, CLASS),
            ("[a--b]", 3, CLASS),
            ("[~~]", 2, CLASS),
            ("[]", 2, BRACKET),
            ("[^]a]", 3, BRACKET),
            ("[a-[:digit:]]", 4, BRACKET),
            ("[[:alpha:]]", 2, BRACKET),
            (r"\8", 2, r"`\8` is not supported"),
            (r"\pL", 2, r"`\p` is not supported"),
            (r"\Qa\E", 2, r"`\Q` is not supported"),
            (r"\Z", 2, r"`\Z` is not supported"),
            (r"\x41", 2, r"`\x` is not supported"),
            (r"[\b]", 3, r"`\b` is not supported"),
            ("a\tb", 2, r"an expression must not contain '\t'"),
            ("[\n]", 2, r"an expression must not contain '\n'"),
        ] {
            let error = PathPattern::parse(text).expect_err(text);
            assert!(error.starts_with(&format!("at character {position}: {problem}")), "{text}: {error}");
        }
        assert!(PathPattern::parse("a{1000}").is_ok(), "as much as Go takes");
        let is_refused =
            |text: &str, problem| PathPattern::parse(text).is_err_and(|error| error.contains(problem));
        assert!(is_refused("", "is empty"));
        assert!(is_refused(&"a".repeat(PATH_MAX_BYTES + 1), "is longer than"));
        assert!(!is_refused(&"a".repeat(PATH_MAX_BYTES), "is longer than"));
    }

    #[test]
    fn the_second_check_refuses_what_the_first_does_not_count() {
        let deep = ["(".repeat(30), ")".repeat(30)].concat();
        for text in [&*deep, "x{2,1}", "(", "(a(b)", "a)", "[a", "[z-a]", r"[\d-z]", r"[a-\d]", "a\\"] {
            let error = PathPattern::parse(text).expect_err(text);
            assert!(!error.starts_with("at character"), "{text}: {error}");
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
            ("", "begins with `/`"),
            ("api", "begins with `/`"),
            ("^/api", "begins with `/`"),
            ("/api/*", r"must not contain '*'"),
            ("/api?x", r"must not contain '?'"),
            ("/a#b", r"must not contain '#'"),
            ("/a\nb", r"must not contain '\n'"),
            ("/a\n", "begins or ends with a blank"),
            ("//a", "begins with one `/`"),
            ("/a/../b", "no part `.` or `..`"),
            ("/a%20b", "with the decoded path"),
        ] {
            let told = PathPattern::from_prefix(prefix).expect_err(prefix);
            assert!(told.contains(error), "{prefix}: {told}");
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
            assert_eq!(PathPattern::prefix_of(pattern.as_str()).as_deref(), prefix, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_prefix_is_read_back_from_its_expression(text in r"/[a-c/.+()|\[\]{}^$\\%ä ~-]{0,8}|/\PC{0,8}") {
            if let Ok(pattern) = PathPattern::from_prefix(&text) {
                let path = text.trim_end_matches('/');
                let read = PathPattern::prefix_of(pattern.as_str());
                prop_assert_eq!(read.as_deref(), Some(path).filter(|path| !path.is_empty()));
            }
        }

        #[test]
        fn no_other_expression_has_a_prefix(text in r"\^?/[a-b./\\?*()-]{0,5}(\(/\|\$\))?[a-b]?") {
            if let Ok(pattern) = PathPattern::parse(&text) {
                let made = PathPattern::prefix_of(pattern.as_str()).map(|prefix| expression_of_prefix(&prefix));
                prop_assert!(made.is_none_or(|made| made.as_deref() == Ok(pattern.as_str())), "{}", text);
            }
        }

        /// Another engine, whose syntax has all that Go's has in common with regex-lite's.
        #[test]
        fn what_is_taken_means_the_same_to_another_engine(
            text in r"[a-c/0-3.+*?()|\[\]{},^$\\:PidwbAz<>&~-]{1,12}", path in "[a-c/0-3.-]{0,6}"
        ) {
            if PathPattern::parse(&text).is_ok() {
                let lite = Regex::new(&text).unwrap();
                let other = regex::bytes::RegexBuilder::new(&text).unicode(false).build().unwrap();
                prop_assert_eq!(lite.is_match(&path), other.is_match(path.as_bytes()), "{}: {}", text, path);
            }
        }

        #[test]
        fn every_prefix_matches_itself_and_what_is_below_it(
            prefix in r"(/[a-c.+()|\[\]{}^$\\-]{1,4}){1,3}", below in "[x-z]{1,3}"
        ) {
            let pattern = PathPattern::parse(&expression_of_prefix(&prefix).unwrap()).unwrap();
            let compiled = regex::Regex::new(pattern.as_str()).unwrap();
            let matches = [prefix.clone(), format!("{prefix}/{below}")];
            let others = [format!("{prefix}{below}"), format!("/{below}{prefix}")];
            prop_assert!(matches.iter().all(|path| compiled.is_match(path)));
            prop_assert!(!others.iter().any(|path| compiled.is_match(path)));
            prop_assert_eq!(shape::prefix_of(pattern.as_str()), Some(prefix));
        }
    }
}
