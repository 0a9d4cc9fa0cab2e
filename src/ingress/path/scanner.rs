//! Reads an expression character by character, and refuses what Go's `regexp/syntax` (flags `Perl`) does not take or
//! reads in another way, such as `a**` and counts over 1000, with its position. It also refuses with a remedy what users
//! write who mean something else. What is left is regex-lite's to refuse: what is not closed, and ranges and counts that
//! run backwards.

use std::iter::Peekable;
use std::str::Chars;

use super::{PathError, REPEAT_MAX, Syntax};

/// What may stand behind a backslash for one character.
const ESCAPABLE: &str = r"\.+*?()|[]{}^$/-&~#dDsSwW";

/// What may stand behind a backslash for a place.
const ASSERTIONS: &str = "bBAz";

/// Checks the whole expression.
pub(super) fn check(text: &str) -> Result<(), PathError> {
    let mut scanner = Scanner { characters: text.chars().peekable(), position: 0 };
    scanner.expression().map_err(|problem| PathError::Syntax { position: scanner.position, problem })
}

/// The operand of a repetition.
#[derive(Clone, Copy)]
enum Operand {
    /// The beginning of the expression, of a group or of an alternative, or a flag.
    None,
    /// `^`, `$` or `\b`, which cannot be repeated in a useful way.
    Assertion,
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

    fn expression(&mut self) -> Result<(), Syntax> {
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
                '|' => Operand::None,
                '*' | '+' | '?' => self.repeated(operand, 1)?,
                '{' => {
                    let count = self.count()?;
                    self.repeated(operand, count)?
                }
                '}' => return Err(Syntax::Brace),
                ']' => return Err(Syntax::Bracket),
                '[' => {
                    self.class()?;
                    Operand::Atom(1)
                }
                '^' | '$' => Operand::Assertion,
                '\\' => self.escape(ASSERTIONS)?,
                _ if character.is_control() => return Err(Syntax::Control(character)),
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

    /// Reads on after `(`. Returns true if a `)` has to follow; flags for the rest of a group end by themselves.
    fn opens_group(&mut self) -> Result<bool, Syntax> {
        if !self.next_if('?') {
            return Ok(true);
        }
        match self.next() {
            Some(':') => Ok(true),
            Some('i') if self.next_if(':') => Ok(true),
            Some('i') if self.next_if(')') => Ok(false),
            _ => Err(Syntax::GroupKind),
        }
    }

    /// Reads on after `{`, up to and including `}`. Returns the greatest number of repetitions.
    fn count(&mut self) -> Result<Weight, Syntax> {
        let minimum = self.number()?.ok_or(Syntax::Brace)?;
        let maximum = if self.next_if(',') { self.number()?.unwrap_or(minimum) } else { minimum };
        if !self.next_if('}') {
            return Err(Syntax::Brace);
        }
        Ok(maximum.max(1))
    }

    fn number(&mut self) -> Result<Option<Weight>, Syntax> {
        let mut number: Option<Weight> = None;
        while let Some(digit) = self.characters.peek().and_then(|character| character.to_digit(10)) {
            self.next();
            // Go does not take a number with a leading zero for a count.
            if number == Some(0) {
                return Err(Syntax::Brace);
            }
            number = Some(number.unwrap_or(0) * 10 + digit).filter(|&number| number <= REPEAT_MAX);
            if number.is_none() {
                return Err(Syntax::RepeatedTooOften);
            }
        }
        Ok(number)
    }

    /// Reads on after a repetition, including its lazy `?`.
    fn repeated(&mut self, operand: Operand, count: Weight) -> Result<Operand, Syntax> {
        let weight = match operand {
            Operand::None | Operand::Assertion => return Err(Syntax::NothingToRepeat),
            Operand::Repeated(_) => return Err(Syntax::RepeatedTwice),
            Operand::Atom(weight) => weight.saturating_mul(count),
        };
        if weight > REPEAT_MAX {
            return Err(Syntax::RepeatedTooOften);
        }
        self.next_if('?');
        Ok(Operand::Repeated(weight))
    }

    /// Reads on after a backslash, behind which a place may stand.
    fn escape(&mut self, assertions: &str) -> Result<Operand, Syntax> {
        match self.next() {
            Some(character) if ESCAPABLE.contains(character) => Ok(Operand::Atom(1)),
            Some(character) if assertions.contains(character) => Ok(Operand::Assertion),
            Some(character) => Err(Syntax::Escape(character)),
            None => Ok(Operand::None),
        }
    }

    /// Reads a class behind its opening bracket.
    fn class(&mut self) -> Result<(), Syntax> {
        self.next_if('^');
        let mut is_first = true;
        while let Some(character) = self.next() {
            match character {
                ']' if !is_first => break,
                '[' | ']' => return Err(Syntax::Bracket),
                '&' | '-' | '~' if self.characters.peek() == Some(&character) => {
                    return Err(Syntax::ClassOperation);
                }
                '\\' => {
                    self.escape("")?;
                }
                _ if character.is_control() => return Err(Syntax::Control(character)),
                _ => {}
            }
            is_first = false;
        }
        Ok(())
    }
}
