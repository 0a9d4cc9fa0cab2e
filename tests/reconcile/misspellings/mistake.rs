//! A typist at work: what becomes of a valid object with one mistake in it.

use proptest::prelude::*;
use proptest::sample::Index;
use test_support::fake_cloudflare::{HOME, tunnel_id};

use crate::misspellings::object::Object;

/// The properties that say what is published, and so what is not: left out, more would be.
pub(crate) const LIMITING: [&str; 8] = [
    "webhook/tunnel",
    "webhook/tunnel-service",
    "webhook/tunnel-path",
    "webhook/tunnel-path-prefix",
    "webhook/access-required",
    "webhook/access-team-name",
    "webhook/access-aud-tag",
    "webhook/origin-ip-rules",
];

/// The properties that say how `cloudflared` talks to a service.
pub(crate) const OPTIONAL: [&str; 17] = [
    "webhook/origin-connect-timeout",
    "webhook/origin-tls-timeout",
    "webhook/origin-tcp-keep-alive",
    "webhook/origin-no-happy-eyeballs",
    "webhook/origin-keep-alive-timeout",
    "webhook/origin-keep-alive-connections",
    "webhook/origin-http-host-header",
    "webhook/origin-server-name",
    "webhook/origin-match-sni-to-host",
    "webhook/origin-ca-pool",
    "webhook/origin-no-tls-verify",
    "webhook/origin-disable-chunked-encoding",
    "webhook/origin-http2-origin",
    "webhook/origin-bastion-mode",
    "webhook/origin-proxy-type",
    "webhook/origin-proxy-address",
    "webhook/origin-proxy-port",
];

pub(crate) fn is_known(name: &str) -> bool {
    LIMITING.contains(&name) || OPTIONAL.contains(&name)
}

/// What is wrong.
#[derive(Clone, Debug)]
pub(crate) enum Mistake {
    /// The name of one property.
    Name(Index, Slip),
    /// The value of one property, or the target.
    Value(Index, Index),
}

/// How a name is written otherwise.
#[derive(Clone, Debug)]
pub(crate) enum Slip {
    Edits(Vec<Edit>),
    /// Which letters are in upper case, from the first on and then over again.
    Case(Vec<bool>),
    /// As an annotation has it.
    Hyphen,
    Underscores(Option<Index>),
    /// As the whole annotation has it, or with the slash.
    Prefix(&'static str, bool),
    WithoutWebhook,
    /// `webhook/path-prefix`.
    WithoutFirstWord,
    SwappedWords(Index, Index),
    Blanks(&'static str, &'static str),
    /// The group that is not named like its others.
    Group(Edit),
    /// What stands before the group's name.
    Separator(&'static str),
}

/// One slip of a finger.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Insert(Index, char),
    Delete(Index),
    Substitute(Index, char),
    Transpose(Index),
}

/// The object with a mistake.
#[derive(Clone, Debug)]
pub(crate) struct Mistaken {
    pub(crate) object: Object,
    /// Where only an option is at fault that limits nothing: the object without it, and without the one for all
    /// groups that it stood in for.
    pub(crate) without_option: Vec<Object>,
}

impl Mistake {
    /// `None` where what comes of it is right, or is another thing that is right in itself.
    pub(crate) fn in_object(&self, object: &Object) -> Option<Mistaken> {
        let mut mistaken = object.clone();
        let index = match self {
            Self::Name(which, slip) => {
                let index = (!object.properties.is_empty()).then(|| which.index(object.properties.len()))?;
                let name = slip.in_name(&object.properties.get(index)?.0)?;
                if object.properties.iter().any(|(other, _)| *other == name)
                    || matches!(slip, Slip::Group(_)) && is_group_of(object, &name)
                {
                    return None;
                }
                mistaken.properties.get_mut(index)?.0 = name;
                index
            }
            Self::Value(which, nth) => {
                let index = which.index(object.properties.len() + 1);
                let Some((name, value)) = mistaken.properties.get_mut(index) else {
                    mistaken.targets = nth.get(&invalid_targets(object)).clone();
                    let is_mistaken = mistaken != *object;
                    return is_mistaken.then_some(Mistaken { object: mistaken, without_option: Vec::new() });
                };
                *value = (*nth.get(invalid_values(property_of(name)))).to_owned();
                index
            }
        };
        let (name, _) = object.properties.get(index)?;
        let without = |left_out: &[&str]| {
            let mut without = object.clone();
            without.properties.retain(|(name, _)| !left_out.contains(&&**name));
            without
        };
        let property = property_of(name);
        let is_option = OPTIONAL.contains(&property);
        let without_option =
            if is_option { vec![without(&[name]), without(&[name, property])] } else { Vec::new() };
        Some(Mistaken { object: mistaken, without_option })
    }
}

/// A name without its group.
fn property_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(property, _)| property)
}

fn is_group_of(object: &Object, name: &str) -> bool {
    let group_of = |name: &str| name.split_once('.').map(|(_, group)| group.to_owned());
    object.properties.iter().any(|(other, _)| group_of(other) == group_of(name))
}

impl Slip {
    fn in_name(&self, name: &str) -> Option<String> {
        let (property, group) = match name.split_once('.') {
            Some((property, group)) => (property, Some(group)),
            None => (name, None),
        };
        let bare = property.strip_prefix("webhook/").expect("it is one of ours");
        let slipped = match self {
            Self::Edits(edits) => edits.iter().fold(property.to_owned(), |text, edit| edit.of(&text)),
            Self::Case(upper) => {
                let letters = property.chars().zip(upper.iter().cycle());
                letters
                    .map(|(letter, upper)| if *upper { letter.to_ascii_uppercase() } else { letter })
                    .collect()
            }
            Self::Hyphen => format!("webhook-{bare}"),
            Self::Underscores(None) => property.replace('-', "_"),
            Self::Underscores(Some(nth)) => {
                let hyphens: Vec<usize> = property.match_indices('-').map(|(at, _)| at).collect();
                let at = *(!hyphens.is_empty()).then(|| nth.get(&hyphens))?;
                let (before, after) = property.split_at(at);
                format!("{before}{}", after.replacen('-', "_", 1))
            }
            Self::Prefix(prefix, true) => format!("{prefix}webhook-{bare}"),
            Self::Prefix(prefix, false) => format!("{prefix}{property}"),
            Self::WithoutWebhook => bare.to_owned(),
            Self::WithoutFirstWord => format!("webhook/{}", bare.split_once('-')?.1),
            Self::SwappedWords(one, other) => {
                let mut words: Vec<&str> = bare.split('-').collect();
                let count = words.len();
                words.swap(one.index(count), other.index(count));
                format!("webhook/{}", words.join("-"))
            }
            Self::Blanks(before, after) => format!("{before}{property}{after}"),
            Self::Group(edit) => return Some(format!("{property}.{}", edit.of(group?))),
            Self::Separator(separator) => return Some(format!("{property}{separator}{}", group?)),
        };
        let slipped = group.map_or_else(|| slipped.clone(), |group| format!("{slipped}.{group}"));
        (!is_known(property_of(&slipped))).then_some(slipped)
    }
}

impl Edit {
    fn of(&self, text: &str) -> String {
        let mut letters: Vec<char> = text.chars().collect();
        let count = letters.len();
        match self {
            Self::Insert(at, letter) => letters.insert(at.index(count + 1), *letter),
            Self::Delete(at) if count > 1 => {
                letters.remove(at.index(count));
            }
            Self::Substitute(at, letter) => {
                letters.iter_mut().skip(at.index(count)).take(1).for_each(|place| *place = *letter);
            }
            Self::Transpose(at) if count > 1 => {
                let at = at.index(count - 1);
                letters.swap(at, at + 1);
            }
            Self::Delete(_) | Self::Transpose(_) => {}
        }
        letters.into_iter().collect()
    }
}

/// Values that no property of that name takes.
fn invalid_values(property: &str) -> &'static [&'static str] {
    match property {
        "webhook/tunnel" => &["hom", "False", "flase", "no", "", "home,office", "f70ff985"],
        "webhook/tunnel-service" => &INVALID_SERVICES,
        "webhook/tunnel-path" => &["^/api(", "[", "", "^/api/**", "^/a\\", "(?!x)"],
        "webhook/tunnel-path-prefix" => &["api", "", "/api/*", "/api?", "/%2fapi"],
        "webhook/access-required" => &["yes", "True", "1", "", "ture"],
        "webhook/access-team-name" => &["", "  ", "evil.example/x#", "my team", "team/"],
        "webhook/access-aud-tag" => &["", ",", " , "],
        "webhook/origin-ip-rules" => &[
            "",
            "10.0.0.0/8",
            r#"[{"prefix":"10.0.0.0/33","allow":true}]"#,
            r#"[{"prefix":"10.0.0.0/8","ports":[0],"allow":true}]"#,
            r#"[{"prefix":"10.0.0.0/8","port":[443],"allow":true}]"#,
            r#"[{"prefix":"10.0.0.0/8"}]"#,
        ],
        "webhook/origin-connect-timeout" => &["soon", "", "1.5s"],
        "webhook/origin-no-tls-verify" => &["yes", "True", ""],
        "webhook/origin-http-host-header" => &["", "two words"],
        "webhook/origin-keep-alive-connections" => &["-1", "", "many"],
        _ => &[""],
    }
}

const INVALID_SERVICES: [&str; 15] = [
    "web.shop.svc:80",
    "http:/web.shop.svc:80",
    "http//web.shop.svc:80",
    "http:web.shop.svc",
    "//web.shop.svc:80",
    "10.0.0.5:80",
    "htp://web.shop.svc:80",
    "http://web.shop.svc:99999",
    "http://web.shop.svc:80/path",
    "http-status:404",
    "http_status:40",
    "http_status:",
    "hello_word",
    "unix:run.sock",
    "tcp://db.shop.svc",
];

/// Targets that nobody means as a name of its own.
fn invalid_targets(object: &Object) -> Vec<Vec<String>> {
    let target = object.targets.first().cloned().unwrap_or_default();
    if target.contains("://") {
        let several = vec!["http://one.shop.svc:80".to_owned(), "http://two.shop.svc:80".to_owned()];
        let single = INVALID_SERVICES.iter().map(|service| vec![(*service).to_owned()]);
        return single.chain([several]).collect();
    }
    if target.ends_with(".cfargotunnel.com") {
        let texts = [
            target.replace("f70ff985", "g70ff985").replace("00000000", "0000000o"),
            target.replace("a4ef", "a4e"),
            target.replace("a4ef", "a4eff"),
            target.replace("-bbbc", "bbbc"),
            target.replace("-bbbc", "_bbbc"),
            target.replace("cfargotunnel", "cfargotunel"),
            target.replace("cfargotunnel", "cfargotunnle"),
            target.replace("cfargotunnel", "cfargo-tunnel"),
            target.replace("cfargotunnel", "argotunnel"),
            target.replace(".com", ".co"),
            target.replace(".cfargotunnel", "cfargotunnel"),
            format!("{target}:443"),
            "cfargotunnel.com".to_owned(),
            format!("home.{}", tunnel_id(HOME).hostname()),
        ];
        return texts.into_iter().map(|text| vec![text]).collect();
    }
    vec![object.targets.clone()]
}

fn any_edit() -> impl Strategy<Value = Edit> {
    let letter = || prop::sample::select("aeinrstxz-/._ 0W".chars().collect::<Vec<_>>());
    prop_oneof![
        any::<Index>().prop_map(Edit::Delete),
        any::<Index>().prop_map(Edit::Transpose),
        (any::<Index>(), letter()).prop_map(|(at, letter)| Edit::Insert(at, letter)),
        (any::<Index>(), letter()).prop_map(|(at, letter)| Edit::Substitute(at, letter)),
    ]
}

fn any_slip() -> impl Strategy<Value = Slip> {
    let prefix = prop::sample::select(vec![
        "external-dns.kubernetes.io/",
        "external-dns.alpha.kubernetes.io/",
        "external-dns.kubernets.io/",
        "x.y/",
        "webhook/",
    ]);
    let blank = prop::sample::select(vec!["", " ", "\t", "  ", "\n"]);
    prop_oneof![
        6 => prop::collection::vec(any_edit(), 1..=2).prop_map(Slip::Edits),
        1 => prop::collection::vec(any::<bool>(), 1..12).prop_map(Slip::Case),
        2 => Just(Slip::Hyphen),
        1 => prop::option::of(any::<Index>()).prop_map(Slip::Underscores),
        2 => (prefix, any::<bool>()).prop_map(|(prefix, as_annotation)| Slip::Prefix(prefix, as_annotation)),
        1 => Just(Slip::WithoutWebhook),
        1 => Just(Slip::WithoutFirstWord),
        1 => any::<(Index, Index)>().prop_map(|(one, other)| Slip::SwappedWords(one, other)),
        1 => (blank.clone(), blank).prop_map(|(before, after)| Slip::Blanks(before, after)),
        3 => any_edit().prop_map(Slip::Group),
        2 => prop::sample::select(vec!["-", "/", "_", ":", " "]).prop_map(Slip::Separator),
    ]
}

pub(crate) fn any_mistake() -> impl Strategy<Value = Mistake> {
    prop_oneof![
        3 => (any::<Index>(), any_slip()).prop_map(|(which, slip)| Mistake::Name(which, slip)),
        1 => any::<(Index, Index)>().prop_map(|(which, nth)| Mistake::Value(which, nth)),
    ]
}
