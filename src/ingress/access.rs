//! Cloudflare Access on a rule: cloudflared then requires a token before it passes a request on.

use serde_json::{Value, json};

use super::origin_option::BadOption;
use super::origin_option::parse_flag;
use crate::model::access::TeamName;
use crate::model::endpoint::Property;

/// Requires a valid Access token before a request reaches the service: `true` or `false`.
pub const ACCESS_REQUIRED: &str = "webhook/access-required";

/// The team's name at Cloudflare Access.
pub const ACCESS_TEAM_NAME: &str = "webhook/access-team-name";

/// The applications' audience tags, separated by commas.
pub const ACCESS_AUD_TAG: &str = "webhook/access-aud-tag";

/// The properties.
pub const ACCESS_PROPERTIES: [&str; 3] = [ACCESS_REQUIRED, ACCESS_TEAM_NAME, ACCESS_AUD_TAG];

/// The field of `originRequest`.
pub(super) const FIELD: &str = "access";

/// The members of `access` that are managed.
pub(super) const MEMBERS: [&str; 3] = ["required", "teamName", "audTag"];

/// The wanted `access`. If tokens are required, it names a team and applications: without a team cloudflared would
/// refuse the document, and without an application every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    required: bool,
    team_name: Box<str>,
    audience_tags: Vec<Box<str>>,
}

impl Access {
    /// Requires a token of the team for one of these applications.
    pub fn required(team: &TeamName, audience_tags: Vec<Box<str>>) -> Self {
        Self { required: true, team_name: team.as_str().into(), audience_tags }
    }

    /// Reads the properties; `None` if they mean the same as an absent field.
    pub fn read<'t>(text_of: &dyn Fn(&str) -> Option<&'t str>) -> Result<Option<Self>, Vec<BadOption>> {
        let [required, team, tags] = [ACCESS_REQUIRED, ACCESS_TEAM_NAME, ACCESS_AUD_TAG].map(text_of);
        let team = team.map(str::trim);
        let audience_tags = tags.unwrap_or_default().split(',').map(str::trim).filter(|tag| !tag.is_empty());
        let audience_tags: Vec<Box<str>> = audience_tags.map(Into::into).collect();
        let mut bad = Vec::new();
        if let Some(team) = team.filter(|team| TeamName::parse(team).is_none()) {
            bad.push(BadOption::new(
                ACCESS_TEAM_NAME,
                format!(
                    "is {team:?}; allowed is the first label of the team's domain, in lower case: for \
                     my-team.cloudflareaccess.com it is my-team"
                ),
            ));
        }
        if tags.is_some() && audience_tags.is_empty() {
            bad.push(BadOption::new(ACCESS_AUD_TAG, "is empty"));
        }
        match is_required(required, team.is_some(), tags.is_some()) {
            Ok(None) => Ok(None),
            Ok(Some(required)) if bad.is_empty() => {
                Ok(Some(Self { required, team_name: team.unwrap_or_default().into(), audience_tags }))
            }
            Ok(Some(_)) => Err(bad),
            Err(problem) => {
                bad.push(problem);
                Err(bad)
            }
        }
    }

    /// Reads the `access` of a rule as cloudflared does, whose decoder ignores the case of keys.
    pub(super) fn of(access: &Value) -> Self {
        let field = |name: &str| {
            let fields = access.as_object()?;
            fields.iter().rfind(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let tags = field("audTag").and_then(Value::as_array).into_iter().flatten();
        Self {
            required: field("required").and_then(Value::as_bool).unwrap_or_default(),
            team_name: field("teamName").and_then(Value::as_str).unwrap_or_default().into(),
            audience_tags: tags.filter_map(Value::as_str).map(Into::into).collect(),
        }
    }

    pub fn is_required(&self) -> bool {
        self.required
    }

    pub fn is_of(&self, team: &TeamName) -> bool {
        *self.team_name == *team.as_str()
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

    /// What is left of it without the tokens of an application; `None` if it accepts no others.
    pub fn beyond(mut self, audience_tag: Option<&str>) -> Option<Self> {
        self.audience_tags.retain(|tag| Some(&**tag) != audience_tag);
        (audience_tag.is_none() || !self.audience_tags.is_empty()).then_some(self)
    }

    /// The field's value.
    pub(super) fn to_json(&self) -> Value {
        let Self { required, team_name, audience_tags } = self;
        json!({"required": required, "teamName": team_name, "audTag": audience_tags})
    }

    /// The canonical properties.
    pub fn properties(&self) -> Vec<Property> {
        let Self { required, team_name, audience_tags } = self;
        if !required && team_name.is_empty() && audience_tags.is_empty() {
            return Vec::new();
        }
        let mut properties = vec![Property::new(ACCESS_REQUIRED, required.to_string())];
        if !team_name.is_empty() {
            properties.push(Property::new(ACCESS_TEAM_NAME, &**team_name));
        }
        if !audience_tags.is_empty() {
            properties.push(Property::new(ACCESS_AUD_TAG, audience_tags.join(",")));
        }
        properties
    }
}

/// Decides if tokens are required; `None` if the properties together mean the same as an absent field.
fn is_required(required: Option<&str>, has_team: bool, has_tags: bool) -> Result<Option<bool>, BadOption> {
    let required = required.map(parse_flag).transpose();
    match (required.map_err(|problem| BadOption::new(ACCESS_REQUIRED, problem))?, has_team, has_tags) {
        // cloudflared does not inherit Access from the tunnel's defaults, so `false` alone means the same as no field.
        (None | Some(false), false, false) => Ok(None),
        (None, ..) => Err(BadOption::new(
            ACCESS_REQUIRED,
            "is missing beside the other Access properties; say true or false",
        )),
        (Some(_), false, true) => {
            Err(BadOption::new(ACCESS_TEAM_NAME, "is missing; the tags mean nothing without it"))
        }
        (Some(true), _, false) => Err(BadOption::new(
            ACCESS_AUD_TAG,
            "or the team's name is missing; both are needed to check a token",
        )),
        (Some(required), true, _) => Ok(Some(required)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[(&str, &str)]) -> Access {
        let text_of = |name: &str| texts.iter().find(|(one, _)| *one == name).map(|(_, text)| *text);
        Access::read(&text_of).expect("good properties").expect("an access")
    }

    #[test]
    fn an_access_may_be_told_and_not_required() {
        let (team, tags) = ((ACCESS_TEAM_NAME, "my-team"), (ACCESS_AUD_TAG, "x"));
        assert!(read(&[(ACCESS_REQUIRED, "true"), team, tags]).is_required());
        assert!(!read(&[(ACCESS_REQUIRED, "false"), team, tags]).is_required());
    }

    #[test]
    fn a_check_written_by_hand_is_told_by_the_properties_that_would_write_it() {
        let property = |name: &'static str, value: &'static str| Property::new(name, value);
        for (access, expected) in [
            (json!({}), vec![]),
            (json!({"required": false, "teamName": "", "audTag": []}), vec![]),
            (json!({"required": true}), vec![property(ACCESS_REQUIRED, "true")]),
            (
                json!({"teamName": "my-team"}),
                vec![property(ACCESS_REQUIRED, "false"), property(ACCESS_TEAM_NAME, "my-team")],
            ),
            (
                json!({"AudTag": ["x", "y"]}),
                vec![property(ACCESS_REQUIRED, "false"), property(ACCESS_AUD_TAG, "x,y")],
            ),
        ] {
            assert_eq!(Access::of(&access).properties(), expected, "{access}");
        }
    }
}
