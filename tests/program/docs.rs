//! The documents hold together: every link from one to another leads to a file and a heading that are there, every
//! document that the code names is there, and every source file that a document or a comment names, no line is longer
//! than 120 characters, and tests cite each invariant.

use std::fs;
use std::path::{Path, PathBuf};

use regex_lite::Regex;

const LINE_MAX_CHARS: usize = 120;

const HOW_IT_WORKS: &str = "docs/how-it-works.md";

/// Their tables have a claim or an accident a row, and are read across.
const WITH_LONG_ROWS: [&str; 2] = ["docs/protocol.md", "docs/museum.md"];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file below a folder with one of these endings, without what is built, what is hidden and the official chart.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        if name.starts_with('.') || name == "target" || path.ends_with("deploy/chart/charts") {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path, endings));
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a text of the repository")
}

fn shown(path: &Path) -> String {
    path.strip_prefix(repository()).expect("it is in the repository").display().to_string()
}

/// The text outside of fenced blocks: what is fenced is no link and no heading.
fn unfenced(text: &str) -> String {
    let mut is_fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// What GitHub makes of the headings: lower case, blanks as dashes, and of punctuation `-` and `_` alone.
fn anchors(text: &str) -> Vec<String> {
    let prose = unfenced(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
            heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
        })
        .collect()
}

/// The targets of all links that stay in the repository.
fn links(text: &str) -> Vec<String> {
    let link = Regex::new(r"\]\(([^)\s]+)\)").expect("the expression is fixed");
    let code = Regex::new("`[^`]*`").expect("the expression is fixed");
    let prose = unfenced(text);
    // A link around code is one, a link within code is not.
    let prose = code.replace_all(&prose, "code");
    link.captures_iter(&prose).map(|found| found[1].to_owned()).filter(|to| !to.contains("://")).collect()
}

/// What is wrong with a link from a document, if anything is.
fn problem(document: &Path, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() {
        document.to_owned()
    } else {
        document.parent().expect("it is in a folder").join(file)
    };
    if !target.exists() {
        return Some(format!("{}: {link} leads nowhere", shown(document)));
    }
    let anchor = anchor?;
    let is_there = target.is_file() && anchors(&read(&target)).iter().any(|heading| heading == anchor);
    (!is_there).then(|| format!("{}: {link} has no such heading", shown(document)))
}

#[test]
fn every_link_of_a_document_leads_to_a_file_and_a_heading() {
    let documents = files(repository(), &[".md"]);
    let links: Vec<(PathBuf, String)> = documents
        .into_iter()
        .flat_map(|document| links(&read(&document)).into_iter().map(move |link| (document.clone(), link)))
        .collect();
    assert!(links.len() > 50, "only {} links: are they found?", links.len());
    let problems: Vec<String> = links.iter().filter_map(|(document, link)| problem(document, link)).collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn a_link_to_nowhere_is_found() {
    let text = "# A `word`: two\n[one](docs/how-it-works.md) [two\nlines](#a-word-two) `[no](link)` [out](https://x)\n\
                ```\n# no heading\n[no](link)\n```\n";
    assert_eq!(links(text), ["docs/how-it-works.md", "#a-word-two"]);
    assert_eq!(anchors(text), ["a-word-two"]);
    let readme = repository().join("README.md");
    assert_eq!(problem(&readme, "docs/how-it-works.md#layers"), None);
    assert_eq!(problem(&readme, "deploy"), None);
    for broken in ["docs/nowhere.md", "docs/how-it-works.md#nowhere", "#nowhere", "deploy#nowhere"] {
        assert!(problem(&readme, broken).is_some(), "{broken}");
    }
}

#[test]
fn every_document_that_the_code_names_is_there() {
    let name = Regex::new(r"\bdocs/[a-z0-9/-]+\.md\b").expect("the expression is fixed");
    let endings = [".rs", ".go", ".yaml", ".yml", ".json", ".toml", "justfile", "run", "check", "build"];
    let mut count = 0;
    for file in files(repository(), &endings) {
        if file.ends_with(file!()) {
            continue;
        }
        for found in name.find_iter(&read(&file)) {
            let document = repository().join(found.as_str());
            assert!(document.exists(), "{} names {}", shown(&file), found.as_str());
            count += 1;
        }
    }
    assert!(count > 0, "no document is named: are they found?");
}

#[test]
fn every_source_file_that_a_document_or_a_comment_names_is_there() {
    let name = Regex::new("`([a-z_/]+\\.rs)`").expect("the expression is fixed");
    let sources = files(repository(), &[".rs"]);
    let mut count = 0;
    for file in files(repository(), &[".md", ".rs"]) {
        for found in name.captures_iter(&read(&file)) {
            let is_there = sources.iter().any(|source| source.ends_with(&found[1]));
            assert!(is_there, "{} names {}", shown(&file), &found[1]);
            count += 1;
        }
    }
    assert!(count > 50, "only {count} files are named: are they found?");
}

/// The numbered list under the heading.
fn invariants() -> Vec<usize> {
    let text = read(&repository().join(HOW_IT_WORKS));
    let numbered = Regex::new(r"^([0-9]+)\. \*\*").expect("the expression is fixed");
    let section = text.lines().skip_while(|line| *line != "## Invariants").skip(1);
    let section = section.take_while(|line| !line.starts_with("## "));
    section.filter_map(|line| numbered.captures(line)?[1].parse().ok()).collect()
}

#[test]
fn a_test_cites_each_invariant() {
    let texts: Vec<String> =
        files(&repository().join("tests"), &[".rs"]).iter().map(|file| read(file)).collect();
    let invariants = invariants();
    assert_eq!(invariants, Vec::from_iter(1..=10));
    for number in invariants {
        let citation = format!("Invariant {number} of {HOW_IT_WORKS}.");
        assert!(texts.iter().any(|text| text.contains(&citation)), "no test says {citation:?}");
    }
}

#[test]
fn no_line_is_longer_than_a_diff_shows() {
    for document in files(repository(), &[".md"]) {
        let name = shown(&document);
        for (number, line) in read(&document).lines().enumerate() {
            if line.starts_with('|') && WITH_LONG_ROWS.contains(&&*name) {
                continue;
            }
            // An address cannot be broken.
            let length: usize = line
                .split(' ')
                .filter(|word| !word.contains("://"))
                .map(|word| word.chars().count() + 1)
                .sum();
            assert!(length <= LINE_MAX_CHARS + 1, "{name}:{} has {length} characters", number + 1);
        }
    }
}
