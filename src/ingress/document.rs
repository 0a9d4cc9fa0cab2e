//! The `config` of a tunnel, and the edits of its rules.
//!
//! Cloudflare takes a configuration only as a whole, and other authors write it too. So it is edited as the
//! JSON it came as: what an edit does not name keeps its order and its bytes, at every level.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;

use serde_json::value::RawValue;

use super::edit::{Applied, EditRefusal, Owned, RuleEdit, apply};
use super::order::Scope;
use super::raw_object::{RawObject, from_json, is_null, list};
use super::rule::Rule;
use crate::model::hostname::Hostname;

/// The `config` of a tunnel: raw JSON, and its ingress as a list of rules.
#[derive(Clone, Debug)]
pub struct Document {
    raw: Box<RawValue>,
    rules: Vec<Rule>,
}

/// What edits made of a document.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The document with the edits that were not refused.
    pub document: Document,
    /// Whether it has other bytes than before.
    pub changed: bool,
    /// The indices of the edits that made it so. What is asked for by all others stands there already.
    pub effective: BTreeSet<usize>,
    /// The indices of the refused edits, ascending, and why.
    pub refused: Vec<(usize, EditRefusal)>,
}

impl Document {
    /// Reads a configuration. Nothing, `null`, `{}` and an absent, `null` or empty `ingress` are an empty
    /// document: that of a tunnel never configured.
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

    /// Applies the edits, in an order of its own: the result does not depend on theirs. `own` says which
    /// rules of this document are ours; a rule that a `Put` may replace is ours too. Applying the same edits
    /// again changes nothing, and where nothing changes the document keeps every byte.
    ///
    /// A refused edit changes nothing, and the others are applied. A document that changes ends with a
    /// catch-all: the one it has, else `http_status:404`.
    pub fn edit(&self, edits: &[RuleEdit], own: &dyn Fn(&Rule) -> bool) -> Edited {
        let Applied { rules, effective, refused } = apply(&self.rules, edits, own);
        let changed = rules.is_some();
        let document = rules.map_or_else(|| self.clone(), |rules| self.with_rules(rules));
        Edited { document, changed, effective, refused }
    }

    /// The rules, with which of them are ours: to ask about many of them.
    pub fn owned(&self, own: &dyn Fn(&Rule) -> bool) -> Owned<'_> {
        Owned::new(&self.rules, own)
    }

    /// [`Owned::is_shadowed`], to ask once.
    pub fn is_shadowed(&self, hostname: &Hostname, path: Option<&str>, own: &dyn Fn(&Rule) -> bool) -> bool {
        self.owned(own).is_shadowed(hostname, path)
    }

    /// The rule in front of the one for this hostname and path that takes every request from it, whoever's it
    /// is: no request reaches the latter. Nothing where there is no such rule.
    pub fn hidden_by(&self, hostname: &Hostname, path: Option<&str>) -> Option<&Rule> {
        let scope = Scope::new(hostname, path);
        let present = self.rules.iter().position(|rule| scope.is_of(rule))?;
        self.rules.iter().take(present).find(|rule| scope.is_covered_by(rule))
    }

    /// Whether the tunnel's own `originRequest` asks for Access, which cloudflared heeds in rules alone.
    pub fn asks_for_access(&self) -> bool {
        self.origin().and_then(|origin| is_set(&origin.nested("access")?, "required")).unwrap_or_default()
    }

    /// Whether the tunnel's own `originRequest` makes a bastion of every rule with an address that does not say
    /// otherwise.
    pub fn is_bastion(&self) -> bool {
        self.origin().and_then(|origin| is_set(&origin, "bastionMode")).unwrap_or_default()
    }

    fn origin(&self) -> Option<RawObject<'_>> {
        RawObject::parse(&self.raw)?.nested("originRequest")
    }

    fn with_rules(&self, rules: Vec<Rule>) -> Self {
        let texts = rules.iter().map(|rule| rule.raw().get()).collect::<Vec<_>>();
        let ingress = from_json(format!("[{}]", texts.join(",")));
        let mut config = RawObject::parse(&self.raw).unwrap_or_default();
        config.set("ingress", &ingress);
        Self { raw: config.to_raw(), rules }
    }
}

fn is_set(object: &RawObject<'_>, name: &str) -> Option<bool> {
    Some(object.last_value(name)?.get() == "true")
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
