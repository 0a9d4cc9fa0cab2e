//! `ADOPT`: decides which foreign records, rules and applications may be taken over when ExternalDNS asks for them.

use std::collections::BTreeSet;
use std::fmt;

use crate::collections::collect;
use crate::reconcile::stamp::Stamp;

const OWNER: &str = "owner=";

/// A file of environment variables often includes these marks in the value.
pub const QUOTATION_MARKS: [char; 2] = ['"', '\''];

/// The modes of `ADOPT`. Without a mode, nothing is taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adopt {
    /// CNAMEs without a stamp that point to a configured tunnel, and the rules of their hostnames.
    pub tunnel: bool,
    /// All records and rules that are in the way.
    pub all: bool,
    /// Access applications with exactly the wanted destinations.
    pub access: bool,
    /// Records of these owners, and the rules that their stamps name.
    pub owners: Vec<Box<str>>,
}

impl Adopt {
    /// Parses the words of the list.
    ///
    /// # Errors
    ///
    /// The first word that is not a mode.
    pub fn parse<'w>(words: &[&'w str]) -> Result<Self, &'w str> {
        let mut adopt = Self::default();
        for word in words {
            match *word {
                "tunnel" => adopt.tunnel = true,
                "all" => adopt.all = true,
                "access" => adopt.access = true,
                other => match other.strip_prefix(OWNER) {
                    Some(owner) if !owner.is_empty() && !owner.contains(QUOTATION_MARKS) => {
                        adopt.owners.push(owner.into())
                    }
                    _ => return Err(other),
                },
            }
        }
        Ok(adopt)
    }

    /// True if the modes allow a takeover that needs at least `need`.
    pub fn allows(&self, need: &Need) -> bool {
        self.all
            || match need {
                Need::Tunnel => self.tunnel,
                Need::Owner(owner) => self.owners.contains(owner),
                Need::All => false,
            }
    }
}

/// The least mode that allows the takeover of a record or rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A CNAME without a stamp points to a configured tunnel, or the rule's hostname has a record.
    Tunnel,
    /// The record or rule is this owner's.
    Owner(Box<str>),
    /// The owner is not known, or the record is another instance's with our owner, or the rule's hostname has no
    /// record.
    All,
}

impl Need {
    /// The need of a foreign record with a stamp. With our own owner, the record points to a tunnel that another
    /// instance serves.
    pub fn of_stamp(stamp: &Stamp, owner: &str) -> Self {
        if *stamp.owner == *owner { Self::All } else { Self::Owner(stamp.owner.clone()) }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tunnel => formatter.write_str("tunnel"),
            Self::Owner(owner) => write!(formatter, "{OWNER}{owner}"),
            Self::All => formatter.write_str("all"),
        }
    }
}

/// The smallest value of `ADOPT` that meets all of `needs`.
pub fn smallest(needs: &[Need]) -> Box<str> {
    let needs = if needs.contains(&Need::All) { &[Need::All] } else { needs };
    let words: BTreeSet<String> = collect(needs.iter().map(Need::to_string));
    words.into_iter().collect::<Vec<_>>().join(",").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adopt(text: &str) -> Adopt {
        Adopt::parse(&text.split(',').collect::<Vec<_>>()).expect("modes")
    }

    #[test]
    fn each_mode_reaches_what_it_says_and_all_reaches_everything() {
        let needs = [Need::Tunnel, Need::Owner("a".into()), Need::Owner("b".into()), Need::All];
        for (text, reached) in [
            ("tunnel", [true, false, false, false]),
            ("owner=a", [false, true, false, false]),
            ("owner=a,tunnel,owner=b", [true, true, true, false]),
            ("all", [true; 4]),
        ] {
            assert_eq!(needs.each_ref().map(|need| adopt(text).allows(need)), reached, "{text}");
        }
        assert!(needs.iter().all(|need| !Adopt::default().allows(need)), "off");
    }

    #[test]
    fn a_word_that_is_no_mode_is_refused() {
        for word in ["none", "true", "owner", "owner=", "Tunnel"] {
            assert_eq!(Adopt::parse(&["all", word]), Err(word));
        }
    }

    #[test]
    fn the_smallest_value_meets_every_need_and_says_nothing_twice() {
        let owner = || Need::Owner("a".into());
        for (needs, value) in [
            (vec![Need::Tunnel, Need::Tunnel], "tunnel"),
            (vec![owner(), Need::Tunnel, owner()], "owner=a,tunnel"),
            (vec![owner(), Need::All], "all"),
        ] {
            assert_eq!(&*smallest(&needs), value);
            assert!(needs.iter().all(|need| adopt(value).allows(need)));
        }
    }
}
