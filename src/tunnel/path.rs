//! Path expressions: the part of RE2's syntax that every reader of them agrees on.
//!
//! cloudflared compiles a rule's path with Go's `regexp` and searches the request's path, decoded, for it: without
//! `^` it may match anywhere. An expression that Go refuses makes cloudflared refuse the whole document. There is no
//! Go here, so only what Go and `regex-lite` both read, and read alike, is taken; the little that is lost has a
//! plainer spelling.

mod scanner;

use std::error::Error;
use std::fmt;

use regex_lite::RegexBuilder;

use crate::limits::{PATH_COMPILED_MAX_BYTES, PATH_MAX_BYTES, PATH_MAX_DEPTH, PATH_REPEAT_MAX};

/// What a prefix form ends with: the path ends here, or goes on behind a slash.
const PREFIX_ENDS: [&str; 2] = ["(/|$)", "(?:/|$)"];

/// What matches every path of a request.
const EVERYTHING: [&str; 4] = ["/", "^/", ".*", "^.*$"];

/// What a regular expression gives a meaning to.
const SPECIAL: [char; 14] = ['\\', '.', '+', '*', '?', '(', ')', '|', '[', ']', '{', '}', '^', '$'];

/// A path expression inside the common subset of Go's RE2 and regex-lite.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathPattern(Box<str>);

impl PathPattern {
    /// Reads an expression. It is kept as it is written.
    ///
    /// # Errors
    /// When Go would refuse the expression, or read it otherwise than other engines do.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.len() > PATH_MAX_BYTES {
            return Err(PathError::TooLong);
        }
        scanner::check(text)?;
        let compiled = RegexBuilder::new(text)
            .size_limit(PATH_COMPILED_MAX_BYTES)
            .nest_limit(PATH_MAX_DEPTH)
            .build();
        match compiled {
            Ok(_) => Ok(Self(text.into())),
            Err(error) => Err(PathError::Engine(error.to_string().into())),
        }
    }

    /// The expression for a path and everything below it: `/api` becomes `^/api(/|$)`, with what is special in an
    /// expression escaped. A slash at the end says nothing more and is dropped; `/` becomes `^/`, which matches
    /// everything and so stands behind every narrower rule of its host.
    ///
    /// # Errors
    /// When the text does not begin with a slash, or holds what no decoded path holds or what was meant as a
    /// pattern.
    pub fn from_prefix(prefix: &str) -> Result<Self, PathError> {
        if !prefix.starts_with('/') {
            return Err(PathError::PrefixWithoutSlash);
        }
        if let Some(character) = prefix.chars().find(|character| character.is_control() || "*?#".contains(*character)) {
            return Err(PathError::PrefixCharacter(character));
        }
        if prefix.split('%').skip(1).any(begins_with_two_digits) {
            return Err(PathError::PrefixEncoded);
        }
        let path = prefix.trim_end_matches('/');
        if path.is_empty() {
            return Self::parse("^/");
        }
        let mut expression = String::from("^");
        for character in path.chars() {
            if SPECIAL.contains(&character) {
                expression.push('\\');
            }
            expression.push(character);
        }
        expression.push_str("(/|$)");
        Self::parse(&expression)
    }

    /// The expression.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Why a text is not a path expression that can be used. Positions count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathError {
    /// There is no text: a rule for all paths has no path.
    Empty,
    /// Over the length that is taken.
    TooLong,
    /// Something at this position that is not in the common subset.
    Syntax {
        /// Where it stands.
        position: usize,
        /// What it is.
        problem: Syntax,
    },
    /// The second check, regex-lite's own, refused it.
    Engine(Box<str>),
    /// A prefix that does not begin with `/`.
    PrefixWithoutSlash,
    /// A character that no decoded path holds, or that was meant as a pattern.
    PrefixCharacter(char),
    /// A percent-encoded character: cloudflared compares the decoded path.
    PrefixEncoded,
}

/// What in an expression is outside the common subset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// `*`, `+`, `?` or a count with nothing in front of it.
    NothingToRepeat,
    /// A repetition of a repetition, as in `a**`.
    RepeatedTwice,
    /// A count over the limit, alone or multiplied with those around it.
    RepeatedTooOften,
    /// A count such as `{3,1}`.
    RepeatBackwards,
    /// `{` or `}` that is no count.
    Brace,
    /// `]` outside a class, or `[` inside one.
    Bracket,
    /// `(` without its `)`.
    UnclosedGroup,
    /// `)` without its `(`.
    UnopenedGroup,
    /// Look-around and other groups that begin `(?`.
    GroupKind,
    /// A group's name that is not letters, digits and underscores.
    GroupName,
    /// `[` without its `]`.
    UnclosedClass,
    /// A class that holds nothing.
    EmptyClass,
    /// A range such as `z-a`.
    RangeBackwards,
    /// A hyphen in the middle of a class that is no range.
    ClassHyphen,
    /// A POSIX class that does not exist.
    ClassName,
    /// `&&`, `--` or `~~` in a class: an operation on sets in some engines.
    ClassOperation,
    /// A backslash at the end.
    TrailingBackslash,
    /// A backslash before a letter or digit that is not in the subset.
    Escape(char),
    /// A control character.
    Control(char),
}

impl fmt::Display for Syntax {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingToRepeat => formatter.write_str("nothing to repeat here: write `.*` for anything, `\\*` for a star"),
            Self::RepeatedTwice => formatter.write_str("a repetition is repeated: put the inner one into a group"),
            Self::RepeatedTooOften => write!(formatter, "repeated more than {PATH_REPEAT_MAX} times"),
            Self::RepeatBackwards => formatter.write_str("the count's upper bound is below its lower one"),
            Self::Brace => {
                formatter.write_str("a brace that is no count such as `{2,3}`: write `\\{` or `\\}` for the character, `[^/]+` for a part of a path")
            }
            Self::Bracket => formatter.write_str("a bracket out of place: write `\\[` or `\\]` for the character"),
            Self::UnclosedGroup => formatter.write_str("a group is not closed: `)` is missing"),
            Self::UnopenedGroup => formatter.write_str("`)` closes no group: write `\\)` for the character"),
            Self::GroupKind => formatter.write_str(
                "groups may be `(…)`, `(?:…)`, `(?P<name>…)`, `(?i)` and `(?s)`; there is no look-around",
            ),
            Self::GroupName => formatter.write_str("a group's name is made of letters, digits and `_`"),
            Self::UnclosedClass => formatter.write_str("a class is not closed: `]` is missing"),
            Self::EmptyClass => formatter.write_str("a class needs a member; write `\\]` for a bracket in it"),
            Self::RangeBackwards => formatter.write_str("a range of a class runs backwards, or from or to a class"),
            Self::ClassHyphen => formatter.write_str("a hyphen in a class stands first or last, or is written `\\-`"),
            Self::ClassName => formatter.write_str("there is no such class; there are `[:alpha:]`, `[:digit:]`, `[:alnum:]` and so on"),
            Self::ClassOperation => formatter.write_str("doubled `&`, `-` or `~` in a class: write one of them"),
            Self::TrailingBackslash => formatter.write_str("a backslash at the end: write `\\\\` for the character"),
            Self::Escape(character) => write!(
                formatter,
                "`\\{character}` is not understood everywhere: there are `\\d \\s \\w \\b` with their capitals, `\\A`, `\\z`, and a backslash before punctuation"
            ),
            Self::Control(character) => write!(formatter, "a path holds no {character:?}"),
        }
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
            Self::PrefixEncoded => {
                formatter.write_str("a path prefix is compared with the decoded path: write the character itself")
            }
        }
    }
}

impl Error for PathError {}

/// Whether every path that the expression `other` matches is matched by `path`, as far as their texts say; no
/// expression means all paths.
pub(super) fn covers(path: Option<&str>, other: Option<&str>) -> bool {
    let Some(path) = path else { return true };
    if matches_everything(path) || Some(path) == other {
        return true;
    }
    let prefixes = prefix_of(path).zip(other.and_then(prefix_of));
    prefixes.is_some_and(|(path, other)| {
        other.strip_prefix(&*path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Where an expression stands among those of one host: smaller stands in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PathRank {
    class: PathClass,
    /// Counted down, so that longer is smaller.
    length: std::cmp::Reverse<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PathClass {
    Anchored,
    Other,
    Everything,
    None,
}

impl PathRank {
    /// Anchored expressions by the length of their literal beginning, then the others by their length, then what
    /// matches everything by its text (even where it is anchored: nothing behind it would be reached), then none.
    pub(super) fn of(path: Option<&str>) -> Self {
        let (class, length) = match path {
            None => (PathClass::None, 0),
            Some(text) if matches_everything(text) => (PathClass::Everything, text.len()),
            Some(text) => match literal_beginning(text) {
                Some(literal) => (PathClass::Anchored, literal.len()),
                None => (PathClass::Other, text.len()),
            },
        };
        Self { class, length: std::cmp::Reverse(length) }
    }
}

/// Whether the expression is one that is known to match every path of a request.
pub(super) fn matches_everything(text: &str) -> bool {
    EVERYTHING.contains(&text)
}

/// The path that a prefix form such as `^/api(/|$)` stands for, unescaped; nothing for other expressions.
pub(super) fn prefix_of(text: &str) -> Option<String> {
    let body = PREFIX_ENDS.iter().find_map(|end| text.strip_suffix(end))?;
    let literal = body.strip_prefix('^')?;
    let mut path = String::new();
    let mut characters = literal.chars();
    while let Some(character) = characters.next() {
        let plain = match character {
            '\\' => characters.next().filter(char::is_ascii_punctuation)?,
            _ if SPECIAL.contains(&character) => return None,
            _ => character,
        };
        path.push(plain);
    }
    (path.starts_with('/') && !path.ends_with('/')).then_some(path)
}

/// What every path that an anchored expression matches begins with; nothing where the expression, of any author and
/// perhaps invalid, is not surely anchored.
fn literal_beginning(text: &str) -> Option<String> {
    let flags = ["(?i)", "(?s)", "(?is)", "(?si)"];
    let rest = flags.iter().find_map(|flag| text.strip_prefix(flag)).unwrap_or(text);
    let body = rest.strip_prefix('^').or_else(|| rest.strip_prefix("\\A"))?;
    if body.contains("\\Q") || has_top_level_alternation(body) {
        return None;
    }
    let mut literal = String::new();
    let mut characters = body.chars().peekable();
    while let Some(character) = characters.next() {
        let plain = match character {
            '\\' => characters.next().filter(char::is_ascii_punctuation),
            _ if SPECIAL.contains(&character) => None,
            _ => Some(character),
        };
        let Some(plain) = plain else { break };
        match characters.peek() {
            // It may be absent, or is counted.
            Some('*' | '?' | '{') => break,
            Some('+') => {
                literal.push(plain);
                break;
            }
            _ => literal.push(plain),
        }
    }
    Some(literal)
}

/// Whether an alternative stands outside every group, so that what is in front of it is not in force behind it.
fn has_top_level_alternation(text: &str) -> bool {
    let mut depth = 0_usize;
    let mut is_in_class = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
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

fn begins_with_two_digits(text: &str) -> bool {
    text.len() >= 2 && text.bytes().take(2).all(|byte| byte.is_ascii_hexdigit())
}
