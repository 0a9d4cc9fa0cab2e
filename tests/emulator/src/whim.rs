//! What Cloudflare does beyond its written rules, each one switched on by a test.

use std::fmt;
use std::time::Duration;

use crate::answer::Refusal;
use crate::ingress::{Rule, RuleText};

/// Decides by looking at a rule whether it is disliked.
type RuleTest = Box<dyn Fn(&Rule) -> bool + Send>;

/// What this Cloudflare does beyond its rules. Nothing, unless told.
#[derive(Default)]
pub struct Whims {
    disliked_rules: Vec<(RuleTest, RuleText)>,
    disliked_names: Vec<(String, Refusal)>,
    /// Drops fields of `originRequest` that say cloudflared's default when a document is stored.
    pub drops_explicit_defaults: bool,
    /// Shows `originRequest: {}` in rules that were stored without one.
    pub adds_empty_origin_request: bool,
    /// Changes `comment_modified_on` alone, and not `modified_on`, with a record's comment.
    pub comments_have_their_own_time: bool,
    /// How many lists leave out a tunnel that a POST makes from now on, though its name is taken and it answers by id.
    pub unlisted_calls: usize,
    /// How long lists leave it out, besides.
    pub unlisted_time: Duration,
    /// How long lists leave out an application that a POST makes from now on, though it answers by id. About 30 seconds
    /// are known.
    pub unlisted_application_time: Duration,
    /// Members of self-hosted applications that this Cloudflare keeps besides those of its description.
    pub application_fields: Vec<String>,
    /// Takes a destination of an application that another one has.
    pub takes_taken_destinations: bool,
    /// Lets an application of `host/alpha` cover `host/alpha/x` too.
    pub paths_cover_sub_paths: bool,
    /// Gives the first page of a list whatever page is asked for, as a cache in front of it would that leaves it out of
    /// its key.
    pub ignores_page: bool,
}

impl Whims {
    /// Refuses every document that holds a rule for which `test` is true, with code 1056 and a text of
    /// cloudflared's that names the rule or not.
    pub fn dislike_rule(&mut self, text: RuleText, test: impl Fn(&Rule) -> bool + Send + 'static) {
        self.disliked_rules.push((Box::new(test), text));
    }

    /// Refuses to write a record of this full name, in any way but deleting it.
    pub fn dislike_name(&mut self, name: &str, refusal: Refusal) {
        self.disliked_names.push((name.to_ascii_lowercase(), refusal));
    }

    /// Likes all rules and names again.
    pub fn like_all(&mut self) {
        self.disliked_rules.clear();
        self.disliked_names.clear();
    }

    /// The text about the first disliked rule.
    pub(crate) fn refuse_rules(&self, rules: &[Rule]) -> Option<String> {
        rules.iter().enumerate().find_map(|(index, rule)| {
            let (_, text) = self.disliked_rules.iter().find(|(test, _)| test(rule))?;
            Some(text.render(index, rule))
        })
    }

    /// The refusal of a record's name.
    pub(crate) fn refuse_name(&self, name: &str) -> Option<&Refusal> {
        self.disliked_names.iter().find(|(disliked, _)| disliked == name).map(|(_, refusal)| refusal)
    }
}

impl fmt::Debug for Whims {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            disliked_rules,
            disliked_names,
            drops_explicit_defaults,
            adds_empty_origin_request,
            comments_have_their_own_time,
            unlisted_calls,
            unlisted_time,
            unlisted_application_time,
            application_fields,
            takes_taken_destinations,
            paths_cover_sub_paths,
            ignores_page,
        } = self;
        formatter
            .debug_struct("Whims")
            .field("disliked_rules", &disliked_rules.len())
            .field("disliked_names", disliked_names)
            .field("drops_explicit_defaults", drops_explicit_defaults)
            .field("adds_empty_origin_request", adds_empty_origin_request)
            .field("comments_have_their_own_time", comments_have_their_own_time)
            .field("unlisted_calls", unlisted_calls)
            .field("unlisted_time", unlisted_time)
            .field("unlisted_application_time", unlisted_application_time)
            .field("application_fields", application_fields)
            .field("takes_taken_destinations", takes_taken_destinations)
            .field("paths_cover_sub_paths", paths_cover_sub_paths)
            .field("ignores_page", ignores_page)
            .finish()
    }
}
