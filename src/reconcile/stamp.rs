//! The stamp: the comment of a DNS record, which names the record's owner and the rules of its hostname.
//!
//! ```text
//! external-dns owner=default resource=ingress/shop/web h=9ab rules=k3f | a human's text
//! ```
//!
//! Fields are percent-encoded, and unknown fields are preserved. `rules` is a run of three-character [`Digest`]s, one
//! for each rule of the owner. A `!` in front means that an Access application of ours protects something of the
//! hostname. A `-` means that an endpoint asks for the record only, alone or before the digests of rules with paths. A
//! `~` means that the hostname was withdrawn, and that the record is kept for a foreign rule.
//! `h` is a code of the hostname, if there is room: see [`Stamp::of`]. The namespace guard uses the field `ns=`: see
//! [`Stamp::namespace`].

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use crate::model::text::{percent_decoded, percent_encoded};
use crate::model::{Record, TunnelId};

const PREFIX: &str = "external-dns owner=";
const REMARK_SEPARATOR: &str = " | ";
/// A remark that is cut leaves room for the digests of four more rules, or of a move.
const ROOM_BESIDE_CUT_BYTES: usize = 4 * size_of::<Digest>();
pub(super) const PROTECTED: char = '!';
const RECORD_ONLY: char = '-';
const RELEASED: char = '~';
const HOSTNAME_CODE_BYTES: usize = 3;
const DIGEST_ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Three characters that hash the tunnel and the path of a rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 3]);

impl Digest {
    /// The digest of the rule that `tunnel` has for `path`; `None` is the rule without a path.
    pub fn of(tunnel: &TunnelId, path: Option<&str>) -> Self {
        let path = path.into_iter().flat_map(|path| "\0".bytes().chain(path.bytes()));
        Self(hash_characters(tunnel.as_str().bytes().chain(path)))
    }

    /// Parses three characters of the alphabet.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; 3] = text.as_bytes().try_into().ok()?;
        bytes.iter().all(|byte| DIGEST_ALPHABET.contains(byte)).then_some(Self(bytes))
    }
}

/// Four characters that hash the name of a namespace, or a text that a person wrote in their place.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamespaceCode(Box<str>);

impl NamespaceCode {
    pub fn of(namespace: &str) -> Self {
        Self(code::<4>(namespace).into())
    }
}

impl fmt::Display for NamespaceCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// `N` characters that hash a text.
pub fn code<const N: usize>(text: &str) -> String {
    hash_characters::<N>(text.bytes()).map(char::from).iter().collect()
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| formatter.write_char(char::from(*byte)))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// An owner's claims on a hostname, besides the record itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// An Access application of ours protects something of the hostname, so applications have to be read.
    pub is_protected: bool,
    /// An endpoint asks only for the record.
    pub record_only: bool,
    /// The hostname was withdrawn, and its record is kept for a foreign rule.
    pub is_released: bool,
    /// One digest for each rule.
    pub digests: BTreeSet<Digest>,
}

impl Claims {
    /// True if no rule and no record is claimed.
    pub fn is_empty(&self) -> bool {
        !self.record_only && self.digests.is_empty()
    }

    /// The claims without these digests.
    pub(super) fn without(&self, digests: &BTreeSet<Digest>) -> Self {
        Self { digests: &self.digests - digests, ..self.clone() }
    }

    fn parse(run: &str) -> Option<Self> {
        let after = |run: &mut &str, mark| run.strip_prefix(mark).map(|rest| *run = rest).is_some();
        let mut digests = run;
        let [is_protected, record_only, is_released] =
            [PROTECTED, RECORD_ONLY, RELEASED].map(|mark| after(&mut digests, mark));
        let digests = digests
            .as_bytes()
            .chunks(3)
            .map(|chunk| Digest::parse(std::str::from_utf8(chunk).ok()?))
            .collect::<Option<_>>()?;
        Some(Self { is_protected, record_only, is_released, digests })
    }
}

impl fmt::Display for Claims {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let marks =
            [(PROTECTED, self.is_protected), (RECORD_ONLY, self.record_only), (RELEASED, self.is_released)];
        marks.iter().filter(|(_, is_set)| *is_set).try_for_each(|(mark, _)| formatter.write_char(*mark))?;
        self.digests.iter().try_for_each(|digest| write!(formatter, "{digest}"))
    }
}

/// The meaning of a record's comment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The `OWNER_ID` of the program that wrote the stamp.
    pub owner: Box<str>,
    /// The object that the hostname came from, such as `ingress/shop/web`.
    pub resource: Option<Box<str>>,
    /// The owner's claims on the hostname.
    pub claims: Claims,
    /// The code of the hostname that the stamp was written for; `None` if the comment had no room for it.
    hostname_code: Option<Box<str>>,
    /// The namespace that has the hostname. `render` never omits it for lack of room.
    pub namespace: Option<NamespaceCode>,
    other_fields: Vec<Box<str>>,
    remark: Option<Box<str>>,
}

impl Stamp {
    /// A stamp for a record that has none; it claims nothing yet.
    pub fn new(owner: &str) -> Self {
        Self { owner: owner.into(), ..Self::default() }
    }

    /// The stamp of `record`; `None` if its comment is no stamp, or was evidently copied from a record of
    /// another name.
    pub fn of(record: &Record) -> Option<Self> {
        let is_copied = |stamp: &Self| {
            let written_for = stamp.hostname_code.as_deref();
            written_for.is_some_and(|written| written != code::<HOSTNAME_CODE_BYTES>(&record.name))
        };
        Self::parse(&record.comment).filter(|stamp| !is_copied(stamp))
    }

    /// Parses a comment of any record; `None` if it is no stamp.
    pub fn parse(comment: &str) -> Option<Self> {
        // The prefix is checked first, because most comments are foreign.
        let text = comment.strip_prefix(PREFIX)?;
        let (fields, remark) = match text.split_once(REMARK_SEPARATOR) {
            Some((fields, remark)) => (fields, Some(remark)),
            None => (text, None),
        };
        let mut fields = fields.split(' ').filter(|field| !field.is_empty());
        let mut stamp = Self::new(&percent_decoded(fields.next()?)?);
        stamp.remark = remark.map(Into::into);
        let mut claims = None;
        for field in fields {
            match field.split_once('=') {
                Some(("resource", value)) => stamp.resource = Some(percent_decoded(value)?.into()),
                Some(("rules", value)) => claims = Some(Claims::parse(value)?),
                // An unknown form comes from a later release, and is preserved as an unknown field.
                Some(("h", value)) if value.len() == HOSTNAME_CODE_BYTES => {
                    stamp.hostname_code = Some(value.into())
                }
                // Of several such fields, which only a person writes, the first one counts.
                Some(("ns", value)) => {
                    stamp.namespace.get_or_insert_with(|| NamespaceCode(value.into()));
                }
                _ => stamp.other_fields.push(field.into()),
            }
        }
        stamp.claims = claims?;
        Some(stamp)
    }

    /// The comment, at most `limit_bytes` long. If the comment is too long, the resource is omitted first: without it,
    /// the published rules still show whose hostname it is. The hostname's code is next, because it protects: it shows
    /// that a comment was copied. `None` if the rest does not fit either.
    pub fn render(&self, limit_bytes: usize) -> Option<String> {
        let (resource, code) = (self.resource.as_deref(), self.hostname_code.as_deref());
        [(resource, code), (None, code), (None, None)]
            .into_iter()
            .map(|(resource, code)| self.render_with(resource, code))
            .find(|comment| comment.len() <= limit_bytes)
    }

    /// The stamp with these claims, and with `namespace` unless the stamp names a namespace already.
    pub fn claiming(&self, claims: Claims, namespace: Option<&NamespaceCode>) -> Self {
        let namespace = self.namespace.as_ref().or(namespace).cloned();
        Self { claims, namespace, ..self.clone() }
    }

    /// The stamp of a record that is kept although its hostname was withdrawn: it names neither object nor namespace.
    pub fn released(&self) -> Self {
        let claims = Claims { is_released: true, ..Claims::default() };
        Self { claims, resource: None, namespace: None, ..self.clone() }
    }

    /// The comment without its optional fields, and with the part of the remark that leaves room for further digests: a
    /// long remark is no reason to refuse the takeover of a record, or a change of its hostname.
    pub fn render_cut(&self, limit_bytes: usize) -> Option<String> {
        let mut stamp = Self { resource: None, hostname_code: None, remark: None, ..self.clone() };
        let comment = stamp.render(limit_bytes)?;
        let used = comment.len() + REMARK_SEPARATOR.len() + ROOM_BESIDE_CUT_BYTES;
        let room = limit_bytes.saturating_sub(used);
        let remark = self.remark.as_deref().unwrap_or_default();
        let (remark, _) = remark.split_at(remark.floor_char_boundary(room));
        stamp.set_remark(remark);
        stamp.render(limit_bytes)
    }

    /// Binds the stamp to a hostname.
    pub fn bind_to(&mut self, hostname: &str) {
        self.hostname_code = Some(code::<HOSTNAME_CODE_BYTES>(hostname).into());
    }

    /// Sets the text after the bar; surrounding blanks are removed.
    pub fn set_remark(&mut self, remark: &str) {
        self.remark = Some(remark.trim()).filter(|remark| !remark.is_empty()).map(Into::into);
    }

    fn render_with(&self, resource: Option<&str>, code: Option<&str>) -> String {
        let Self { owner, claims, namespace, other_fields, remark, .. } = self;
        let resource = resource.map(|resource| format!("resource={}", encode(resource)));
        let code = code.map(|code| format!("h={code}"));
        let namespace = namespace.as_ref().map(|namespace| format!("ns={namespace}"));
        let known = [Some(encode(owner)), resource, code, Some(format!("rules={claims}"))];
        let others = other_fields.iter().map(ToString::to_string);
        let fields: Vec<String> = known.into_iter().flatten().chain(others).chain(namespace).collect();
        let remark = remark.as_ref().map(|remark| format!("{REMARK_SEPARATOR}{remark}"));
        format!("{PREFIX}{}{}", fields.join(" "), remark.unwrap_or_default())
    }
}

/// The percent-encoded form of `text`, which has no blanks, bars or non-ASCII characters.
pub fn encode(text: &str) -> String {
    percent_encoded(text, b"-._~/:@,+")
}

/// Characters that hash a text: FNV-1a with 64 bits, which never changes, because digests are stored at Cloudflare.
fn hash_characters<const N: usize>(text: impl Iterator<Item = u8>) -> [u8; N] {
    let mut rest: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text {
        rest = (rest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    [(); N].map(|()| {
        let digit = usize::try_from(rest % 36).expect("it is below 36");
        rest /= 36;
        *DIGEST_ALPHABET.get(digit).expect("it is below 36")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tunnel() -> TunnelId {
        TunnelId::parse("f70ff985-a4ef-4643-bbbc-4a0ed4fc8415").expect("a well-formed id")
    }

    #[test]
    fn a_stamp_reads_back_as_it_was_written() {
        let comment = "external-dns owner=default resource=ingress/shop/web rules=k3fxyz later=1 | ask Jo";
        let stamp = Stamp::parse(comment).expect("it is ours");
        assert_eq!(&*stamp.owner, "default");
        assert_eq!(stamp.resource.as_deref(), Some("ingress/shop/web"));
        assert_eq!(
            stamp.claims.digests,
            ["k3f", "xyz"].iter().filter_map(|text| Digest::parse(text)).collect()
        );
        assert!(!stamp.claims.record_only);
        assert_eq!(stamp.render(100).as_deref(), Some(comment));
    }

    /// The fingerprint of a refused write contains this form.
    #[test]
    fn a_digest_is_shown_for_debugging_as_in_a_comment() {
        let digest = Digest::parse("k3f").expect("a digest");
        assert_eq!((format!("{digest:?}"), digest.to_string()), ("k3f".to_owned(), "k3f".to_owned()));
    }

    #[test]
    fn the_record_only_endpoint_stands_beside_rules_with_paths() {
        for comment in ["external-dns owner=a rules=-", "external-dns owner=a rules=-k3f"] {
            let stamp = Stamp::parse(comment).expect("it is ours");
            assert!(stamp.claims.record_only, "{comment}");
            assert_eq!(stamp.render(100).as_deref(), Some(comment));
        }
    }

    #[test]
    fn what_this_program_does_not_write_is_no_stamp() {
        for comment in [
            "",
            "a human's note",
            "external-dns/http://a:80",
            "external-dns owner=default",
            "external-dns owner= rules",
            "external-dns owner=default rules=k3",
            "external-dns owner=default rules=K3F",
            "external-dns owner=%zz rules=-",
            "external-dns owner=a%2 rules=-",
            "managed-by=external-dns owner=default rules=-",
        ] {
            assert_eq!(Stamp::parse(comment), None, "{comment:?}");
        }
    }

    #[test]
    fn the_resource_goes_first_when_space_is_short_and_a_remark_never() {
        let mut stamp = Stamp::parse("external-dns owner=default rules=- | keep me").expect("it is ours");
        stamp.resource = Some("ingress/a-namespace/a-name".into());
        assert_eq!(
            stamp.render(100).as_deref(),
            Some("external-dns owner=default resource=ingress/a-namespace/a-name rules=- | keep me")
        );
        assert_eq!(stamp.render(60).as_deref(), Some("external-dns owner=default rules=- | keep me"));
        assert_eq!(stamp.render(40), None);
    }

    #[test]
    fn the_code_of_the_hostname_goes_after_the_resource_and_before_all_else() {
        let mut stamp =
            Stamp::parse("external-dns owner=default rules=- ns=abcd | keep me").expect("it is ours");
        stamp.resource = Some("ingress/shop/web".into());
        stamp.bind_to("a.example.com");
        for (limit_bytes, expected) in [
            (
                84,
                Some("external-dns owner=default resource=ingress/shop/web h=f39 rules=- ns=abcd | keep me"),
            ),
            (83, Some("external-dns owner=default h=f39 rules=- ns=abcd | keep me")),
            (57, Some("external-dns owner=default rules=- ns=abcd | keep me")),
            (51, None),
        ] {
            assert_eq!(stamp.render(limit_bytes).as_deref(), expected, "{limit_bytes}");
        }
    }

    #[test]
    fn a_code_of_the_hostname_in_an_unknown_form_is_kept_and_says_nothing() {
        let comment = "external-dns owner=default rules=- h=0k3zz";
        let stamp = Stamp::parse(comment).expect("it is ours");
        assert_eq!((stamp.hostname_code.as_deref(), stamp.render(100).as_deref()), (None, Some(comment)));
    }

    #[test]
    fn a_remark_is_cut_between_characters_where_a_record_is_taken_over() {
        let mut stamp = Stamp::parse("external-dns owner=a rules=- ns=abcd").expect("it is ours");
        stamp.resource = Some("ingress/shop/web".into());
        stamp.bind_to("a.example.com");
        stamp.set_remark(" Jürgen's ");
        for (limit_bytes, expected) in [
            (500, Some("external-dns owner=a rules=- ns=abcd | Jürgen's")),
            (60, Some("external-dns owner=a rules=- ns=abcd | Jürgen's")),
            (54, Some("external-dns owner=a rules=- ns=abcd | Jü")),
            (53, Some("external-dns owner=a rules=- ns=abcd | J")),
            (51, Some("external-dns owner=a rules=- ns=abcd")),
            (36, Some("external-dns owner=a rules=- ns=abcd")),
            (35, None),
        ] {
            let comment = stamp.render_cut(limit_bytes);
            assert_eq!(comment.as_deref(), expected);
            assert!(comment.is_none_or(|comment| Stamp::parse(&comment).is_some()));
        }
    }

    #[test]
    fn the_namespace_is_claimed_once_behind_the_other_fields_and_reads_back() {
        let mut stamp = Stamp::parse("external-dns owner=a rules=- later=1").expect("it is ours");
        assert_eq!(stamp.namespace, None);
        stamp = stamp.claiming(stamp.claims.clone(), Some(&NamespaceCode::of("shop")));
        stamp = stamp.claiming(stamp.claims.clone(), Some(&NamespaceCode::of("bank")));
        let comment = stamp.render(100).expect("it fits");
        assert_eq!(comment, "external-dns owner=a rules=- later=1 ns=h6q2");
        assert_eq!(Stamp::parse(&comment), Some(stamp));
        // A second field would be the first one in the next comment.
        let twice = Stamp::parse(&format!("{comment} ns=bank")).expect("it is ours");
        assert_eq!(twice.render(100), Some(comment));
    }

    #[test]
    fn digests_differ_by_tunnel_and_by_path_and_never_change() {
        let other = TunnelId::parse("00000000-a4ef-4643-bbbc-4a0ed4fc8415").expect("a well-formed id");
        let digests: BTreeSet<Digest> = [
            Digest::of(&tunnel(), None),
            Digest::of(&tunnel(), Some("^/api")),
            Digest::of(&other, None),
            Digest::of(&other, Some("^/api")),
        ]
        .into();
        assert_eq!(digests.len(), 4);
        assert_eq!(
            Digest::of(&tunnel(), None).to_string(),
            "nbf",
            "what is stored at Cloudflare must stay readable"
        );
    }

    proptest! {
        #[test]
        fn any_owner_and_resource_survive(owner in "\\PC{1,20}", resource in proptest::option::of("\\PC{1,40}")) {
            let mut stamp = Stamp::new(&owner);
            stamp.resource = resource.map(Into::into);
            stamp.claims.record_only = true;
            let comment = stamp.render(usize::MAX).expect("no limit");
            prop_assert!(comment.is_ascii());
            prop_assert_eq!(Stamp::parse(&comment), Some(stamp));
        }

        #[test]
        fn no_comment_of_a_human_makes_the_reader_fail(comment in "(external-dns owner=)?\\PC{0,60}") {
            if let Some(stamp) = Stamp::parse(&comment) {
                let again = stamp.render(usize::MAX).expect("no limit");
                prop_assert_eq!(Stamp::parse(&again), Some(stamp));
            }
        }
    }
}
