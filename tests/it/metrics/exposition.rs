//! A strict reader of Prometheus' text exposition format 0.0.4. What it does not like fails the test.

use std::collections::BTreeMap;

/// The labels of a sample by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// A family's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) help: String,
}

/// One scrape.
#[derive(Clone, Debug)]
pub(crate) struct Exposition {
    pub(crate) families: Vec<Family>,
    samples: BTreeMap<(String, Labels), f64>,
}

impl Exposition {
    /// Reads a scrape to its last byte.
    pub(crate) fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n'), "the last line has to end");
        let mut families: Vec<Family> = Vec::new();
        let mut samples = BTreeMap::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a name and a text");
                let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
                let kind = kind.and_then(|rest| rest.strip_prefix(name)).expect("a type for the same family");
                let kind = kind.strip_prefix(' ').expect("a blank").to_owned();
                assert!(["counter", "gauge", "histogram"].contains(&&*kind), "{kind}");
                assert!(is_name(name) && !help.contains('\\'), "{line}");
                assert!(!families.iter().any(|family| family.name == name), "{name} is there twice");
                families.push(Family { name: name.to_owned(), kind, help: help.to_owned() });
                continue;
            }
            let (name, labels, value) = sample(line);
            let family = families.last().expect("a family before its samples");
            let suffix = name.strip_prefix(&*family.name).expect("a sample of the family above");
            match &*family.kind {
                "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
                "counter" => assert!(suffix.is_empty() && name.ends_with("_total"), "{line}"),
                _ => assert!(suffix.is_empty() && !name.ends_with("_total"), "{line}"),
            }
            assert!(samples.insert((name, labels), value).is_none(), "twice: {line}");
        }
        Self { families, samples }
    }

    /// The value of a sample, `None` where there is none.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.samples.get(&(name.to_owned(), labels)).copied()
    }

    /// The samples of one name.
    pub(crate) fn samples(&self, name: &str) -> BTreeMap<Labels, f64> {
        let samples = self.samples.iter().filter(|((found, _), _)| found == name);
        samples.map(|((_, labels), value)| (labels.clone(), *value)).collect()
    }
}

/// `name{label="value",…} number`, without a time stamp.
fn sample(line: &str) -> (String, Labels, f64) {
    let end = line.find(['{', ' ']).expect("a name and what follows");
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").expect("a label and its value");
            assert!(is_name(label) && !label.contains(':') && !label.starts_with("__"), "{line}");
            let mut value = String::new();
            let mut characters = after.chars();
            loop {
                match characters.next().expect("a quote ends the value") {
                    '"' => break,
                    '\\' => value.push(match characters.next() {
                        Some('n') => '\n',
                        Some(escaped @ ('\\' | '"')) => escaped,
                        other => panic!("{other:?} needs no escape: {line}"),
                    }),
                    character => value.push(character),
                }
            }
            assert!(labels.insert(label.to_owned(), value).is_none(), "twice {label}: {line}");
            rest = characters.as_str();
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').expect("a brace ends the labels");
    }
    let value = rest.strip_prefix(' ').expect("a blank before the value");
    (name.to_owned(), labels, number(value))
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|character: char| character.is_ascii_digit())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A plain decimal number.
fn number(text: &str) -> f64 {
    assert!(text.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte)), "{text:?}");
    text.parse().expect("a number")
}
