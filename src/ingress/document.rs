//! The `config` of a tunnel, and the edits of its rules.
//!
//! Cloudflare accepts a configuration only as a whole, and other programs write it too. So an edit changes the JSON
//! that was read: everything that the edit does not name keeps its order and its bytes, at every level.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use super::edit::{MarkedRules, RuleEdit, apply};
use super::hosts::HostIndex;
use super::origin_request::effective_options;
use super::raw_object::{RawObject, from_json, is_null, list};
use super::rule::{Rule, WantedRule};
use crate::model::Hostname;
use crate::model::endpoint::Property;

/// The `config` of a tunnel: raw JSON, and its ingress as a list of rules.
#[derive(Clone, Debug)]
pub struct Document {
    raw: Box<RawValue>,
    rules: Vec<Rule>,
    hosts: HostIndex,
    /// The tunnel's own `originRequest`, kept here because it is read for many rules.
    origin: Box<RawValue>,
}

/// The result of editing a document.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The document with all edits that were not refused.
    pub document: Document,
    /// The indices of the edits that changed something. All other edits that are not refused had nothing to change.
    pub changed: BTreeSet<usize>,
    /// The indices of the refused edits, ascending, with the reasons.
    pub refused: Vec<(usize, String)>,
}

impl Document {
    /// Parses a configuration. If it is missing or `null`, or if its `ingress` is absent, `null` or empty, the document
    /// has no rules, as for a tunnel that was never configured.
    ///
    /// # Errors
    /// When `config` is not an object or its `ingress` is not a list. A rule that cannot be read is not an error.
    pub fn parse(config: Option<&RawValue>) -> Result<Self, &'static str> {
        let config = config.filter(|config| !is_null(config));
        let raw = config.map_or_else(|| from_json("{}".to_owned()), ToOwned::to_owned);
        let object = RawObject::parse(&raw).ok_or("the tunnel's configuration is not a JSON object")?;
        let origin = object.nested("originRequest").to_raw();
        let rules = object.last("ingress").map_or(Some(Vec::new()), list);
        let rules = rules.ok_or("the ingress of the tunnel's configuration is not a list")?;
        let rules: Vec<Rule> = rules.into_iter().map(|rule| Rule::parse(rule.to_owned())).collect();
        Ok(Self { raw, hosts: HostIndex::of(&rules), rules, origin })
    }

    /// The rules in their order, including the catch-all.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rules of one hostname, in their order.
    pub fn rules_of(&self, hostname: &Hostname) -> Vec<&Rule> {
        self.near(hostname.as_str()).filter(|rule| rule.has_hostname(hostname)).collect()
    }

    /// The rules whose hosts may overlap with a hostname, in their order.
    pub fn near(&self, hostname: &str) -> impl Iterator<Item = &Rule> {
        self.hosts.near(hostname).into_iter().filter_map(|index| self.rules.get(index))
    }

    /// The document's bytes. An absent or `null` document is `{}`.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    /// Applies the edits. Their order has no effect. There is at most one edit for a hostname and path, because a
    /// hostname is planned once. `own` is true for the rules of this document that are ours; a rule that a `Put` may
    /// replace is ours too. Applying the same edits again changes nothing, and a document that does not change keeps
    /// every byte.
    ///
    /// A refused edit changes nothing, and the others are applied. A document that changes ends with a catch-all: the
    /// present one, or else `http_status:404`.
    pub fn edit(&self, edits: &[RuleEdit], own: &dyn Fn(&Rule) -> bool) -> Edited {
        let (rules, changed, refused) = apply(&self.rules, edits, own);
        let document = rules.map_or_else(|| self.clone(), |rules| self.with_rules(rules));
        Edited { document, changed, refused }
    }

    /// The rules, each marked as ours or not, for questions about many of them.
    pub fn marked(&self, own: &dyn Fn(&Rule) -> bool) -> MarkedRules<'_> {
        MarkedRules::new(&self.rules, own)
    }

    /// True if the tunnel's own `originRequest` requires Access, which cloudflared only respects in rules.
    pub fn asks_for_access(&self) -> bool {
        self.origin().nested("access").is_true("required")
    }

    /// True if the tunnel's own `originRequest` turns every rule with an address into a bastion, unless the rule says
    /// otherwise.
    pub fn is_bastion(&self) -> bool {
        self.origin().is_true("bastionMode")
    }

    /// The effective options of `rule` in this tunnel that the rule `wanted` would not have in the tunnel of `other`.
    pub fn lost_options(&self, rule: &Rule, other: &Self, wanted: &WantedRule) -> Vec<Property> {
        let after = effective_options(&Rule::wanted(wanted).origin(), &other.origin());
        let before = effective_options(&rule.origin(), &self.origin()).into_iter();
        before.filter(|option| !after.contains(option)).collect()
    }

    fn origin(&self) -> RawObject<'_> {
        RawObject::parse(&self.origin).unwrap_or_default()
    }

    fn with_rules(&self, rules: Vec<Rule>) -> Self {
        let texts = rules.iter().map(|rule| rule.raw().get()).collect::<Vec<_>>();
        let ingress = from_json(format!("[{}]", texts.join(",")));
        let mut config = RawObject::parse(&self.raw).unwrap_or_default();
        config.replace("ingress", Some(&ingress));
        Self { raw: config.to_raw(), hosts: HostIndex::of(&rules), rules, origin: self.origin.clone() }
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.raw.get() == other.raw.get()
    }
}

impl Eq for Document {}
