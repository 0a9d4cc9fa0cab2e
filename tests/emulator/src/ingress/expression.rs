//! Path expressions as Go's `regexp` reads them, said again so that Rust's `regex` reads the same.
//!
//! The two engines match alike, but their parsers differ: Go takes `\Q…\E`, `\pL`, `\z` and a `{` that starts no
//! repetition, reads `\d`, `\w`, `\s` and `\b` as ASCII, and refuses `(?x)`, `&&` in classes, look-around, numbers
//! of repetitions over 1,000, and repetition operators in a row. So this is a parser of Go's syntax whose output
//! leaves nothing to the other one's choice: every literal is a code point, every flag is written where it acts.
//!
//! Differences that remain: Unicode class names are those of the `regex` crate's tables, and `\B` knows Unicode.

use std::fmt::Write as _;

/// Most repetitions of one expression, nested ones multiplied.
const REPEAT_LIMIT: usize = 1000;
/// Deepest nesting of groups.
const NESTING_LIMIT: usize = 1000;

/// Translates an expression, or says what Go's `regexp.Compile` says about it.
pub(super) fn translate(text: &str) -> Result<String, String> {
    let mut parser = Parser { text, rest: text, flags: Flags::default(), depth: 0 };
    let (pattern, _) = parser.alternation().map_err(|(what, part)| describe(what, &part))?;
    if parser.rest.is_empty() { Ok(pattern) } else { Err(describe("unexpected )", text)) }
}

fn describe(what: &str, part: &str) -> String {
    format!("error parsing regexp: {what}: `{part}`")
}

/// Go's name of the mistake, and the part of the expression it quotes.
type Mistake = (&'static str, String);

fn mistake<T>(what: &'static str, part: &str) -> Result<T, Mistake> {
    Err((what, part.to_owned()))
}

const BAD_ESCAPE: &str = "invalid escape sequence";
const BAD_RANGE: &str = "invalid character class range";
const BAD_REPEAT: &str = "invalid repeat count";

#[derive(Clone, Copy, Default)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_newline: bool,
    swap_greed: bool,
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    flags: Flags,
    depth: usize,
}

/// A translated part, and the product of the counted repetitions inside it.
type Part = (String, usize);

impl<'a> Parser<'a> {
    fn alternation(&mut self) -> Result<Part, Mistake> {
        let mut pattern = String::new();
        let mut weight = 1;
        loop {
            for (part, part_weight) in self.concatenation()? {
                pattern.push_str(&part);
                weight = weight.max(part_weight);
            }
            let Some(rest) = self.rest.strip_prefix('|') else {
                return Ok((pattern, weight));
            };
            self.rest = rest;
            pattern.push('|');
        }
    }

    fn concatenation(&mut self) -> Result<Vec<Part>, Mistake> {
        let mut parts: Vec<Part> = Vec::new();
        // The text from the repetition operator that was read last, while nothing came after it.
        let mut last_repeat: Option<&'a str> = None;
        while let Some(first) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeat = None;
            match first {
                '|' | ')' => break,
                '(' => {
                    if let Some(part) = self.group()? {
                        parts.push(part);
                    }
                }
                '*' | '+' | '?' => {
                    self.advance(1);
                    self.repeat(&mut parts, before, last_repeat, first.to_string(), 1)?;
                    repeat = Some(before);
                }
                '{' => match counted(before) {
                    Some((least, most, length)) => {
                        self.advance(length);
                        let counts = [least, most.unwrap_or(least)];
                        if counts.iter().any(|count| *count > REPEAT_LIMIT)
                            || most.is_some_and(|most| least > most)
                        {
                            return mistake(BAD_REPEAT, self.since(before));
                        }
                        let operator = self.since(before).to_owned();
                        self.repeat(&mut parts, before, last_repeat, operator, counts[1].max(1))?;
                        repeat = Some(before);
                    }
                    None => {
                        self.advance(1);
                        parts.push(self.literal('{'));
                    }
                },
                '\\' => self.escape(&mut parts)?,
                '[' => parts.push((self.class()?, 1)),
                '.' => {
                    self.advance(1);
                    parts.push((if self.flags.dot_newline { "(?s:.)" } else { "." }.to_owned(), 1));
                }
                '^' => {
                    self.advance(1);
                    parts.push((if self.flags.multi_line { "(?m:^)" } else { "\\A" }.to_owned(), 1));
                }
                '$' => {
                    self.advance(1);
                    parts.push((if self.flags.multi_line { "(?m:$)" } else { "\\z" }.to_owned(), 1));
                }
                character => {
                    self.advance(character.len_utf8());
                    parts.push(self.literal(character));
                }
            }
            last_repeat = repeat;
        }
        Ok(parts)
    }

    /// Applies an operator that was read already to the last part.
    fn repeat(
        &mut self,
        parts: &mut Vec<Part>,
        before: &'a str,
        last_repeat: Option<&'a str>,
        operator: String,
        count: usize,
    ) -> Result<(), Mistake> {
        let mut lazy = self.flags.swap_greed;
        if self.rest.starts_with('?') {
            self.advance(1);
            lazy = !lazy;
        }
        if let Some(last) = last_repeat {
            return mistake("invalid nested repetition operator", self.since(last));
        }
        let Some((part, weight)) = parts.pop() else {
            return mistake("missing argument to repetition operator", self.since(before));
        };
        let weight = weight.saturating_mul(count);
        if weight > REPEAT_LIMIT {
            return mistake(BAD_REPEAT, self.since(before));
        }
        let laziness = if lazy { "?" } else { "" };
        parts.push((format!("(?:{part}){operator}{laziness}"), weight));
        Ok(())
    }

    /// A group; `None` for flags without one.
    fn group(&mut self) -> Result<Option<Part>, Mistake> {
        let outer = self.flags;
        let after_question = self.rest.strip_prefix("(?");
        if let Some(rest) = after_question {
            let name = rest.strip_prefix("P<").or_else(|| rest.strip_prefix('<'));
            if let Some(name) = name {
                let Some((name, rest)) = name.split_once('>') else {
                    return mistake("invalid named capture", self.rest);
                };
                let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                if name.is_empty() || !name.bytes().all(is_word) {
                    let end = self.rest.len() - rest.len();
                    return mistake("invalid named capture", self.rest.get(..end).unwrap_or_default());
                }
                self.rest = rest;
            } else if !self.flags()? {
                return Ok(None);
            }
        } else {
            self.advance(1);
        }
        self.depth += 1;
        if self.depth > NESTING_LIMIT {
            return mistake("expression nests too deeply", self.text);
        }
        let (pattern, weight) = self.alternation()?;
        self.depth -= 1;
        let Some(rest) = self.rest.strip_prefix(')') else {
            return mistake("missing closing )", self.text);
        };
        self.rest = rest;
        self.flags = outer;
        Ok(Some((format!("(?:{pattern})"), weight)))
    }

    /// Reads `(?flags)` or `(?flags:`, and says whether a group was opened.
    fn flags(&mut self) -> Result<bool, Mistake> {
        let start = self.rest;
        let mut flags = self.flags;
        let (mut value, mut saw_flag) = (true, false);
        self.advance(2);
        while let Some(character) = self.rest.chars().next() {
            self.advance(character.len_utf8());
            let flag = match character {
                'i' => &mut flags.fold_case,
                'm' => &mut flags.multi_line,
                's' => &mut flags.dot_newline,
                'U' => &mut flags.swap_greed,
                '-' if value => {
                    (value, saw_flag) = (false, false);
                    continue;
                }
                ':' | ')' if value || saw_flag => {
                    self.flags = flags;
                    return Ok(character == ':');
                }
                _ => return mistake("invalid or unsupported Perl syntax", self.since(start)),
            };
            *flag = value;
            saw_flag = true;
        }
        mistake("missing closing )", self.text)
    }

    fn escape(&mut self, parts: &mut Vec<Part>) -> Result<(), Mistake> {
        let start = self.rest;
        let mut characters = start.chars();
        characters.next();
        let Some(kind) = characters.next() else {
            return mistake("trailing backslash at end of expression", "");
        };
        let after = characters.as_str();
        let simple = match kind {
            'A' => Some("\\A"),
            'z' => Some("\\z"),
            'b' => Some("(?-u:\\b)"),
            // The crate has no ASCII one for text: it could match inside a character.
            'B' => Some("\\B"),
            _ => None,
        };
        if let Some(simple) = simple {
            self.rest = after;
            parts.push((simple.to_owned(), 1));
        } else if kind == 'C' {
            return mistake(BAD_ESCAPE, "\\C");
        } else if kind == 'Q' {
            let (quoted, rest) = after.split_once("\\E").unwrap_or((after, ""));
            parts.extend(quoted.chars().map(|character| self.literal(character)));
            self.rest = rest;
        } else if let Some(items) = self.class_escape()? {
            parts.push((self.folded(format!("[{items}]")), 1));
        } else {
            let character = self.escaped_character()?;
            parts.push(self.literal(character));
        }
        Ok(())
    }

    /// `\d`, `\pL` and their like as items of a class; `None` when an escaped character stands here.
    fn class_escape(&mut self) -> Result<Option<String>, Mistake> {
        let start = self.rest;
        let mut characters = start.chars();
        characters.next();
        let items = match characters.next() {
            Some('d') => "0-9",
            Some('D') => "[^0-9]",
            Some('s') => "\\t\\n\\x0C\\r\\x20",
            Some('S') => "[^\\t\\n\\x0C\\r\\x20]",
            Some('w') => "0-9A-Za-z_",
            Some('W') => "[^0-9A-Za-z_]",
            Some(kind @ ('p' | 'P')) => {
                return self.unicode_class(characters.as_str(), kind == 'P').map(Some);
            }
            _ => return Ok(None),
        };
        self.rest = characters.as_str();
        Ok(Some(items.to_owned()))
    }

    fn unicode_class(&mut self, after: &'a str, negated: bool) -> Result<String, Mistake> {
        let start = self.rest;
        let (name, rest) = if let Some(braced) = after.strip_prefix('{') {
            let Some(split) = braced.split_once('}') else {
                return mistake(BAD_RANGE, start);
            };
            split
        } else {
            let length = after.chars().next().map_or(0, char::len_utf8);
            after.split_at(length)
        };
        self.rest = rest;
        let (name, negated) = name.strip_prefix('^').map_or((name, negated), |name| (name, !negated));
        let sign = if negated { "P" } else { "p" };
        let is_name =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_ -".contains(&byte));
        if name.is_empty() || !is_name(name) {
            return mistake(BAD_RANGE, self.since(start));
        }
        if name == "Cs" {
            // Surrogates are in no UTF-8 text.
            return Ok(if negated { "\\x{0}-\\x{10FFFF}" } else { "[^\\x{0}-\\x{10FFFF}]" }.to_owned());
        }
        // A category or a script; the properties that the crate knows besides are unknown to Go.
        ["gc", "sc"]
            .iter()
            .map(|table| format!("\\{sign}{{{table}={name}}}"))
            .find(|class| regex::Regex::new(class).is_ok())
            .ok_or_else(|| (BAD_RANGE, self.since(start).to_owned()))
    }

    fn class(&mut self) -> Result<String, Mistake> {
        let whole = self.rest;
        self.advance(1);
        let mut class = "[".to_owned();
        if let Some(rest) = self.rest.strip_prefix('^') {
            self.rest = rest;
            class.push('^');
        }
        let mut is_first = true;
        while is_first || !self.rest.starts_with(']') {
            is_first = false;
            let start = self.rest;
            if let Some((name, rest)) = start.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) {
                self.rest = rest;
                if !is_posix_class(name) {
                    return mistake(BAD_RANGE, self.since(start));
                }
                let _ = write!(class, "[:{name}:]");
                continue;
            }
            if start.starts_with('\\')
                && let Some(items) = self.class_escape()?
            {
                class.push_str(&items);
                continue;
            }
            let low = self.class_character(whole)?;
            let mut high = low;
            if let Some(rest) = self.rest.strip_prefix('-')
                && !rest.is_empty()
                && !rest.starts_with(']')
            {
                self.rest = rest;
                high = self.class_character(whole)?;
                if high < low {
                    return mistake(BAD_RANGE, self.since(start));
                }
            }
            let _ = write!(class, "\\x{{{:X}}}-\\x{{{:X}}}", u32::from(low), u32::from(high));
        }
        self.advance(1);
        class.push(']');
        Ok(self.folded(class))
    }

    fn class_character(&mut self, whole: &'a str) -> Result<char, Mistake> {
        let Some(character) = self.rest.chars().next() else {
            return mistake("missing closing ]", whole);
        };
        if character == '\\' {
            return self.escaped_character();
        }
        self.advance(character.len_utf8());
        Ok(character)
    }

    /// The character that `\n`, `\x41`, `\x{1F600}`, `\012` or `\.` stands for.
    fn escaped_character(&mut self) -> Result<char, Mistake> {
        let start = self.rest;
        self.advance(1);
        let Some(kind) = self.rest.chars().next() else {
            return mistake("trailing backslash at end of expression", "");
        };
        self.advance(kind.len_utf8());
        let code = match kind {
            // A single digit other than 0 would be a back-reference, which there are none of.
            '0'..='7' if kind == '0' || self.rest.starts_with(|c| ('0'..='7').contains(&c)) => {
                let mut code = u32::from(kind) - u32::from('0');
                for _ in 0..2 {
                    let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else {
                        break;
                    };
                    code = code * 8 + digit;
                    self.advance(1);
                }
                Some(code)
            }
            'x' => self.hexadecimal(),
            'a' => Some(0x07),
            'f' => Some(0x0C),
            'n' => Some(0x0A),
            'r' => Some(0x0D),
            't' => Some(0x09),
            'v' => Some(0x0B),
            _ if kind.is_ascii() && !kind.is_ascii_alphanumeric() => Some(u32::from(kind)),
            _ => None,
        };
        code.and_then(char::from_u32).map_or_else(|| mistake(BAD_ESCAPE, self.since(start)), Ok)
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        let (digits, rest) = match self.rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => self.rest.split_at_checked(2)?,
        };
        let is_hexadecimal = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        self.rest = rest;
        u32::from_str_radix(digits, 16).ok().filter(|_| is_hexadecimal)
    }

    fn literal(&self, character: char) -> Part {
        (self.folded(format!("\\x{{{:X}}}", u32::from(character))), 1)
    }

    fn folded(&self, pattern: String) -> String {
        if self.flags.fold_case { format!("(?i:{pattern})") } else { pattern }
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// What was read since `start`, which is a former `rest`.
    fn since(&self, start: &'a str) -> &'a str {
        start.get(..start.len() - self.rest.len()).unwrap_or_default()
    }
}

/// Reads `{n}`, `{n,}` or `{n,m}`: least, most, length in bytes. Anything else is a literal brace.
fn counted(text: &str) -> Option<(usize, Option<usize>, usize)> {
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let number = |digits: &str| {
        let leading_zero = digits.len() > 1 && digits.starts_with('0');
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // Too many digits are still a number, only too large a one.
        (is_number && !leading_zero).then(|| digits.parse().unwrap_or(usize::MAX))
    };
    let (least, most) = match inside.split_once(',') {
        None => {
            let count = number(inside)?;
            (count, Some(count))
        }
        Some((least, "")) => (number(least)?, None),
        Some((least, most)) => (number(least)?, Some(number(most)?)),
    };
    Some((least, most, inside.len() + 2))
}

fn is_posix_class(name: &str) -> bool {
    matches!(
        name.strip_prefix('^').unwrap_or(name),
        "alnum"
            | "alpha"
            | "ascii"
            | "blank"
            | "cntrl"
            | "digit"
            | "graph"
            | "lower"
            | "print"
            | "punct"
            | "space"
            | "upper"
            | "word"
            | "xdigit"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_takes_matches_as_in_go() {
        for (expression, matching, other) in [
            ("a{", "a{", "a"),
            ("a{,2}", "a{,2}", "aa"),
            ("\\Qa.c\\E+", "a.cc", "abc"),
            ("(?i)straße", "STRAßE", "strasse"),
            ("a(?i)b|c", "C", "A"),
            ("(?i:a)b", "Ab", "AB"),
            ("^\\w+$", "abc_1", "ä"),
            ("[]a]+$", "]a", "b"),
            ("[a&&b]$", "&", "c"),
            ("^[[:^digit:]]$", "a", "1"),
            ("\\x41\\x{42}\\103", "ABC", "AB"),
            ("(?s)a.b", "a\nb", "a\n"),
            ("a.b", "axb", "a\nb"),
            ("(?m)^b$", "a\nb", "ab"),
            ("^b$", "b", "a\nb"),
            ("^(?:a|b){2}$", "ab", "a"),
            ("^\\P{Greek}$", "a", "α"),
            ("(?U)^a+$", "aaa", "b"),
        ] {
            let regex = regex::Regex::new(&translate(expression).unwrap()).unwrap();
            assert!(regex.is_match(matching), "{expression} on {matching}");
            assert!(!regex.is_match(other), "{expression} on {other}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        for (expression, expected) in [
            ("a)", "unexpected ): `a)`"),
            ("((a)", "missing closing ): `((a)`"),
            ("(a{100}){11}", "invalid repeat count: `{11}`"),
            ("a*+", "invalid nested repetition operator: `*+`"),
            ("|*", "missing argument to repetition operator: `*`"),
            ("\\C", "invalid escape sequence: `\\C`"),
            ("\\pX", "invalid character class range: `\\pX`"),
            ("(?P<1-2>a)", "invalid named capture: `(?P<1-2>`"),
            ("(?i-)", "invalid or unsupported Perl syntax: `(?i-)`"),
            ("[b-a]", "invalid character class range: `b-a`"),
        ] {
            assert_eq!(translate(expression).unwrap_err(), format!("error parsing regexp: {expected}"));
        }
    }
}
