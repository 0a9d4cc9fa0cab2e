//! Reads an expression character by character. It refuses, with the position, each part that Go's `regexp/syntax`
//! (flags `Perl`) refuses or reads in another way, such as `a**` and counts over 1000. It refuses, with a remedy,
//! spellings by which users mean something else. regex-lite refuses the rest: unclosed parts, and ranges and counts
//! that run backwards.

use std::iter::Peekable;
use std::str::Chars;

use super::REPEAT_MAX;

/// The characters that may follow a backslash and match one character with it.
const ESCAPABLE: &str = r"\.+*?()|[]{}^$/-&~#dDsSwW";

/// The characters that may follow a backslash and match a position with it.
const ASSERTIONS: &str = "bBAz";

const BRACE: &str = "a brace that is no count such as `{2,3}`: write `\\{` or `\\}` for the character, `[^/]+` for a \
     part of a path";

const BRACKET: &str = "a bracket out of place: write `\\[` or `\\]` for the character";

/// Checks the whole expression. A problem begins with its position, counted in characters from 1.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let mut scanner = Scanner { characters: text.chars().peekable(), position: 0 };
    scanner.expression().map_err(|problem| format!("at character {}: {problem}", scanner.position))
}

/// The operand of a repetition.
#[derive(Clone, Copy)]
enum Operand {
    /// At the beginning of the expression, of a group or of an alternative, behind a flag, and behind `^`, `$` or `\b`,
    /// which cannot be repeated in a useful way.
    None,
    /// An operand that already has a repetition.
    Repeated(Weight),
    Atom(Weight),
}

/// The number of times that the innermost part of an operand is repeated.
type Weight = u32;

struct Scanner<'a> {
    characters: Peekable<Chars<'a>>,
    /// The position of the last character read, from 1.
    position: usize,
}

impl Scanner<'_> {
    fn next(&mut self) -> Option<char> {
        let character = self.characters.next()?;
        self.position += 1;
        Some(character)
    }

    fn next_if(&mut self, expected: char) -> bool {
        let found = self.characters.next_if_eq(&expected).is_some();
        if found {
            self.position += 1;
        }
        found
    }

    fn expression(&mut self) -> Result<(), String> {
        // The greatest weight so far in each open group. The first entry is the expression itself.
        let mut groups: Vec<Weight> = vec![1];
        let mut operand = Operand::None;
        while let Some(character) = self.next() {
            operand = match character {
                '(' => {
                    if self.opens_group()? {
                        groups.push(1);
                    }
                    Operand::None
                }
                ')' => Operand::Atom(groups.pop().unwrap_or(1)),
                '*' | '+' | '?' => self.repeated(operand, 1)?,
                '{' => {
                    let count = self.count()?;
                    self.repeated(operand, count)?
                }
                '}' => return Err(BRACE.to_owned()),
                ']' => return Err(BRACKET.to_owned()),
                '[' => {
                    self.class()?;
                    Operand::Atom(1)
                }
                '|' | '^' | '$' => Operand::None,
                '\\' => self.escape(ASSERTIONS)?,
                _ if character.is_control() => return Err(control(character)),
                _ => Operand::Atom(1),
            };
            if let (Operand::Atom(weight) | Operand::Repeated(weight), Some(group)) =
                (operand, groups.last_mut())
            {
                *group = (*group).max(weight);
            }
        }
        Ok(())
    }

    /// Reads on after `(`. Returns true if a `)` has to follow; `(?i)` has its own.
    fn opens_group(&mut self) -> Result<bool, String> {
        if !self.next_if('?') {
            return Ok(true);
        }
        match self.next() {
            Some(':') => Ok(true),
            Some('i') if self.next_if(':') => Ok(true),
            Some('i') if self.next_if(')') => Ok(false),
            _ => {
                Err("groups may be `(…)`, `(?:…)`, `(?i:…)` and `(?i)`; named groups and look-around are not supported"
                    .to_owned())
            }
        }
    }

    /// Reads on after `{`, up to and including `}`. Returns the greatest number of repetitions.
    fn count(&mut self) -> Result<Weight, String> {
        let minimum = self.number()?.ok_or(BRACE)?;
        let maximum = if self.next_if(',') { self.number()?.unwrap_or(minimum) } else { minimum };
        if !self.next_if('}') {
            return Err(BRACE.to_owned());
        }
        Ok(maximum.max(1))
    }

    fn number(&mut self) -> Result<Option<Weight>, String> {
        let mut number: Option<Weight> = None;
        while let Some(digit) = self.characters.peek().and_then(|character| character.to_digit(10)) {
            self.next();
            // Go does not read a number with a leading zero as a count.
            if number == Some(0) {
                return Err(BRACE.to_owned());
            }
            number = Some(number.unwrap_or(0) * 10 + digit).filter(|&number| number <= REPEAT_MAX);
            if number.is_none() {
                return Err(repeated_too_often());
            }
        }
        Ok(number)
    }

    /// Reads on after a repetition, including its lazy `?`.
    fn repeated(&mut self, operand: Operand, count: Weight) -> Result<Operand, String> {
        let weight = match operand {
            Operand::None => {
                return Err("nothing to repeat here: write `.*` for anything, `\\*` for a star".to_owned());
            }
            Operand::Repeated(_) => {
                return Err("a repetition is repeated: put the inner one into a group".to_owned());
            }
            Operand::Atom(weight) => weight.saturating_mul(count),
        };
        if weight > REPEAT_MAX {
            return Err(repeated_too_often());
        }
        self.next_if('?');
        Ok(Operand::Repeated(weight))
    }

    /// Reads on after a backslash. `assertions` are the characters that match a position with it.
    fn escape(&mut self, assertions: &str) -> Result<Operand, String> {
        match self.next() {
            Some(character) if ESCAPABLE.contains(character) => Ok(Operand::Atom(1)),
            Some(character) if assertions.contains(character) => Ok(Operand::None),
            Some(character) => Err(format!(
                "`\\{character}` is not supported: use `\\d \\s \\w \\b`, their capitals, `\\A`, `\\z`, or a backslash \
                 before punctuation"
            )),
            None => Ok(Operand::None),
        }
    }

    /// Reads on after the `[` of a class.
    fn class(&mut self) -> Result<(), String> {
        self.next_if('^');
        let mut is_first = true;
        while let Some(character) = self.next() {
            match character {
                ']' if !is_first => break,
                '[' | ']' => return Err(BRACKET.to_owned()),
                '&' | '-' | '~' if self.characters.peek() == Some(&character) => {
                    return Err("doubled `&`, `-` or `~` in a class: write one of them".to_owned());
                }
                '\\' => {
                    self.escape("")?;
                }
                _ if character.is_control() => return Err(control(character)),
                _ => {}
            }
            is_first = false;
        }
        Ok(())
    }
}

fn repeated_too_often() -> String {
    format!("repeated more than {REPEAT_MAX} times")
}

fn control(character: char) -> String {
    format!("an expression must not contain {character:?}")
}
