//! Reads an expression character by character, and refuses anything outside the common subset, with its position.
//!
//! The rules are those of the stricter one of Go's `regexp/syntax` (flags `Perl`) and regex-lite: Go refuses `a**` and
//! counts over 1000, regex-lite refuses `\pL` and a lone brace.

use std::iter::Peekable;
use std::str::Chars;

use super::{PathError, REPEAT_MAX, Syntax};

/// The characters that a backslash may escape.
const ESCAPABLE: &str = r"\.+*?()|[]{}^$/-&~#";

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
                ')' => {
                    let weight = groups.pop().unwrap_or(1);
                    if groups.is_empty() {
                        return Err(Syntax::UnopenedGroup);
                    }
                    Operand::Atom(weight)
                }
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
                '\\' => self.escape()?,
                _ if character.is_control() => return Err(Syntax::Control(character)),
                _ => Operand::Atom(1),
            };
            if let (Operand::Atom(weight) | Operand::Repeated(weight), Some(group)) =
                (operand, groups.last_mut())
            {
                *group = (*group).max(weight);
            }
        }
        if groups.len() > 1 { Err(Syntax::UnclosedGroup) } else { Ok(()) }
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
        if maximum < minimum {
            return Err(Syntax::RepeatBackwards);
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

    /// Reads on after a backslash outside a class.
    fn escape(&mut self) -> Result<Operand, Syntax> {
        match self.next() {
            None => Err(Syntax::TrailingBackslash),
            Some('d' | 'D' | 's' | 'S' | 'w' | 'W') => Ok(Operand::Atom(1)),
            Some('b' | 'B' | 'A' | 'z') => Ok(Operand::Assertion),
            Some(character) if ESCAPABLE.contains(character) => Ok(Operand::Atom(1)),
            Some(character) => Err(Syntax::Escape(character)),
        }
    }

    /// Reads on after `[`, up to and including `]`.
    fn class(&mut self) -> Result<(), Syntax> {
        self.next_if('^');
        let mut is_first = true;
        loop {
            let Some(character) = self.next() else {
                return Err(Syntax::UnclosedClass);
            };
            if matches!(character, '&' | '-' | '~') && self.characters.peek() == Some(&character) {
                return Err(Syntax::ClassOperation);
            }
            let from = match character {
                ']' if is_first => return Err(Syntax::EmptyClass),
                ']' => return Ok(()),
                '[' => return Err(Syntax::Bracket),
                '-' if is_first || self.characters.peek() == Some(&']') => None,
                '-' => return Err(Syntax::ClassHyphen),
                '\\' => self.class_escape()?,
                _ if character.is_control() => return Err(Syntax::Control(character)),
                _ => Some(character),
            };
            is_first = false;
            self.range(from)?;
        }
    }

    /// Reads on after a member of a class that may begin a range.
    fn range(&mut self, from: Option<char>) -> Result<(), Syntax> {
        let mut ahead = self.characters.clone();
        if ahead.next() != Some('-') || matches!(ahead.next(), None | Some(']')) {
            return Ok(());
        }
        self.next();
        let to = match self.next() {
            Some('-') => return Err(Syntax::ClassOperation),
            Some('[') => return Err(Syntax::Bracket),
            Some('\\') => self.class_escape()?,
            to => to,
        };
        match (from, to) {
            (Some(from), Some(to)) if from <= to => Ok(()),
            _ => Err(Syntax::RangeBackwards),
        }
    }

    /// Reads on after a backslash inside a class. Returns the character it stands for; `None` for a class.
    fn class_escape(&mut self) -> Result<Option<char>, Syntax> {
        match self.next() {
            None => Err(Syntax::TrailingBackslash),
            Some('d' | 'D' | 's' | 'S' | 'w' | 'W') => Ok(None),
            Some(character) if ESCAPABLE.contains(character) => Ok(Some(character)),
            Some(character) => Err(Syntax::Escape(character)),
        }
    }
}
