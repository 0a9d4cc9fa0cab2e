//! Cloudflare Access on a rule: cloudflared passes on only requests with a valid token.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::origin_option::{Mistake, parse_flag};
use super::raw_object::{RawObject, text};
use crate::collections::collect;
use crate::model::access::{Application, TeamName};
use crate::model::endpoint::Property;

/// Requires a valid Access token before a request reaches the service: `true` or `false`.
pub const ACCESS_REQUIRED: &str = "webhook/access-required";

/// The team's name at Cloudflare Access.
pub const ACCESS_TEAM_NAME: &str = "webhook/access-team-name";

/// The applications' audience tags, separated by commas.
pub const ACCESS_AUD_TAG: &str = "webhook/access-aud-tag";

pub const ACCESS_PROPERTIES: [&str; 3] = [ACCESS_REQUIRED, ACCESS_TEAM_NAME, ACCESS_AUD_TAG];

/// The field of `originRequest`.
pub(super) const FIELD: &str = "access";

/// The members of `access` that this program manages.
pub(super) const MEMBERS: [&str; 3] = ["required", "teamName", "audTag"];

/// An `access` that requires tokens; one that requires none means the same as no `access`. We write a team and
/// applications into it: without a team, cloudflared would refuse the document, and without an application, cloudflared
/// would refuse every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessCheck {
    team_name: Box<str>,
    audience_tags: Vec<Box<str>>,
}

impl AccessCheck {
    /// Requires a token of the team for one of these applications.
    pub fn required<'a>(team: &TeamName, applications: impl IntoIterator<Item = &'a Application>) -> Self {
        let tags: BTreeSet<&Box<str>> = collect(applications.into_iter().map(|one| &one.audience));
        Self { team_name: team.as_str().into(), audience_tags: tags.into_iter().cloned().collect() }
    }

    /// Reads the properties; `None` if they mean the same as an absent field.
    pub fn read<'t>(text_of: &dyn Fn(&str) -> Option<&'t str>) -> Result<Option<Self>, Vec<Mistake>> {
        let [required, team, tags] = [ACCESS_REQUIRED, ACCESS_TEAM_NAME, ACCESS_AUD_TAG].map(text_of);
        let required = required.map_or(Ok(false), parse_flag);
        let required = required.map_err(|problem| vec![Mistake::new(ACCESS_REQUIRED, problem)])?;
        // cloudflared does not inherit Access from the tunnel's defaults, so `false` alone means the same as no field.
        if !required && team.or(tags).is_none() {
            return Ok(None);
        }
        let audience_tags = tags.unwrap_or_default().split(',').map(str::trim).filter(|tag| !tag.is_empty());
        let access = Self {
            team_name: team.unwrap_or_default().trim().into(),
            audience_tags: audience_tags.map(Into::into).collect(),
        };
        let mut bad = Vec::new();
        if !required {
            bad.push(Mistake::new(
                ACCESS_REQUIRED,
                "is not true, so the team and the tags have no effect: set it to true, or remove them",
            ));
        }
        if team.is_none() {
            bad.push(Mistake::new(ACCESS_TEAM_NAME, "is missing: the tags have no effect without it"));
        } else if TeamName::parse(&access.team_name).is_none() {
            let problem = format!(
                "is {:?}; allowed is the first label of the team's domain, in lower case: for \
                 my-team.cloudflareaccess.com it is my-team",
                access.team_name
            );
            bad.push(Mistake::new(ACCESS_TEAM_NAME, problem));
        }
        if access.audience_tags.is_empty() {
            bad.push(Mistake::new(
                ACCESS_AUD_TAG,
                "names no application, so cloudflared would refuse every request",
            ));
        }
        if bad.is_empty() { Ok(Some(access)) } else { Err(bad) }
    }

    /// Reads the `access` of a rule.
    pub(super) fn of(access: &RawObject<'_>) -> Option<Self> {
        let team_name = access.last_non_null("teamName").and_then(text).unwrap_or_default().into();
        let tags = access.last("audTag").and_then(|tags| serde_json::from_str::<Vec<Value>>(tags.get()).ok());
        let tags = tags.iter().flatten().filter_map(Value::as_str);
        let audience_tags = tags.map(Into::into).collect();
        access.is_true("required").then_some(Self { team_name, audience_tags })
    }

    pub fn is_of(&self, team: &TeamName) -> bool {
        *self.team_name == *team.as_str()
    }

    /// True if the tokens of this application are accepted.
    pub fn accepts(&self, application: &Application) -> bool {
        self.audience_tags.contains(&application.audience)
    }

    /// The audience tags of the applications whose tokens are accepted.
    pub fn audience_tags(&self) -> &[Box<str>] {
        &self.audience_tags
    }

    /// Accepts the tokens of these applications as well.
    #[must_use]
    pub fn accepting<'t>(mut self, audience_tags: impl IntoIterator<Item = &'t Box<str>>) -> Self {
        for tag in audience_tags {
            if !self.audience_tags.contains(tag) {
                self.audience_tags.push(tag.clone());
            }
        }
        self
    }

    /// The same without the tokens of one application; `None` if no other application is left.
    pub fn without_audience(mut self, audience_tag: Option<&str>) -> Option<Self> {
        self.audience_tags.retain(|tag| Some(&**tag) != audience_tag);
        (audience_tag.is_none() || !self.audience_tags.is_empty()).then_some(self)
    }

    /// The field's value.
    pub(super) fn to_json(&self) -> Value {
        let Self { team_name, audience_tags } = self;
        json!({"required": true, "teamName": team_name, "audTag": audience_tags})
    }

    /// The canonical properties.
    pub fn properties(&self) -> [Property; 3] {
        let Self { team_name, audience_tags } = self;
        [
            Property::new(ACCESS_REQUIRED, "true"),
            Property::new(ACCESS_TEAM_NAME, &**team_name),
            Property::new(ACCESS_AUD_TAG, audience_tags.join(",")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_of_any_author_is_told_by_its_properties_and_one_that_is_not_required_is_none() {
        for (access, expected) in [
            ("{}", None),
            (r#"{"required": false, "teamName": "", "audTag": []}"#, None),
            (r#"{"required": false, "teamName": "my-team", "audTag": ["x"]}"#, None),
            (r#"{"required": "true", "teamName": "my-team"}"#, None),
            // The last one counts, whatever its case is.
            (r#"{"required": true, "Required": false}"#, None),
            (r#"{"Required": false, "required": true, "required": null}"#, Some(["true", "", ""])),
            (r#"{"required": true}"#, Some(["true", "", ""])),
            (
                r#"{"Required": true, "TEAMNAME": "my-team", "audtag": ["x", "y"]}"#,
                Some(["true", "my-team", "x,y"]),
            ),
        ] {
            let read = AccessCheck::of(&serde_json::from_str(access).expect("an object"));
            let read = read.map(|access| access.properties().map(|property| property.value));
            assert_eq!(read, expected.map(|texts| texts.map(Into::into)), "{access}");
        }
    }

    #[test]
    fn a_mistake_names_the_property_that_was_written_wrong_or_is_missing() {
        let [required, team, tags] =
            [(ACCESS_REQUIRED, "true"), (ACCESS_TEAM_NAME, "my-team"), (ACCESS_AUD_TAG, "x")];
        for (texts, expected) in [
            (vec![(ACCESS_REQUIRED, "yes")], vec![(ACCESS_REQUIRED, "")]),
            (vec![required, tags], vec![(ACCESS_TEAM_NAME, "is missing")]),
            (vec![required, (ACCESS_TEAM_NAME, "My Team"), tags], vec![(ACCESS_TEAM_NAME, "first label")]),
            (vec![required, team], vec![(ACCESS_AUD_TAG, "names no application")]),
            (vec![team, tags], vec![(ACCESS_REQUIRED, "is not true")]),
        ] {
            let text_of = |name: &str| texts.iter().find(|(one, _)| *one == name).map(|(_, text)| *text);
            let bad = AccessCheck::read(&text_of).expect_err("a mistake");
            let told = bad.iter().zip(&expected);
            assert!(
                told.clone()
                    .all(|(one, (property, text))| *one.subject == **property && one.problem.contains(text))
            );
            assert_eq!(bad.len(), expected.len(), "{texts:?}");
        }
    }
}
