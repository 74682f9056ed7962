//! The pages of the documentation: each says its kind and its readers, every link leads somewhere, and
//! every block is run by a test or says why not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::{NOT_RUN, RUN, is_form, lines, root};

/// A block of code, and what a comment above it says of not running it.
struct Block {
    language: String,
    text: String,
    not_run: Option<String>,
    line: usize,
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(directory: &Path, end: &str, found: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // What is built, what is installed, and what others keep beside it.
        if name.starts_with('.') || matches!(name.as_str(), "target" | "node_modules" | "venv") {
            continue;
        }
        if path.is_dir() {
            files(&path, end, found);
        } else if name.ends_with(end) {
            found.insert(path);
        }
    }
}

/// Every Markdown file of the repository.
fn markdown() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    files(&root(), ".md", &mut found);
    assert!(found.len() > 60, "{} pages", found.len());
    found
}

/// The pages that are written by hand: the kind of the others goes without saying.
fn written() -> BTreeSet<PathBuf> {
    let docs = root().join("docs");
    let own = |path: &PathBuf| {
        path.parent() == Some(&docs) && path.file_name().is_some_and(|name| name != "index.md")
    };
    markdown().into_iter().filter(own).collect()
}

fn blocks(text: &str) -> Vec<Block> {
    let (mut found, mut open, mut comment): (Vec<Block>, Option<Block>, Option<String>) =
        (Vec::new(), None, None);
    for (number, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (&mut open, fence) {
            (None, Some(language)) => {
                open = Some(Block {
                    language: language.trim().to_owned(),
                    text: String::new(),
                    not_run: comment.take(),
                    line: number + 1,
                });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(block), None) => {
                block.text += line;
                block.text.push('\n');
            }
            (None, None) => {
                let said = line.trim().strip_prefix("<!-- not run: ");
                comment = said.and_then(|said| said.strip_suffix(" -->")).map(str::to_owned);
            }
        }
    }
    assert!(open.is_none(), "a block without an end");
    found
}

/// A page without its blocks and without code within a line, which hold no links and no headings.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let odd = |(number, part): (usize, &str)| {
                if number % 2 == 0 { part.to_owned() } else { String::from("`code`") }
            };
            out.extend(line.split('`').enumerate().map(odd));
        }
        out.push('\n');
    }
    out
}

/// Targets of the links of a page, pictures included.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let ends = prose.split("](").skip(1);
    ends.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// The anchors of a page, as code hosts and the site make them of its headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = found.entry(slug.clone()).or_default();
        all.insert(if *before == 0 { slug } else { format!("{slug}-{before}") });
        *before += 1;
    }
    all
}

fn short(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            out.pop();
        } else if part != Component::CurDir {
            out.push(part);
        }
    }
    out
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = String::new();
    let mut checked = 0;
    for page in markdown() {
        let text = read(&page);
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let beside = page.parent().expect("a directory").join(file);
            let target = if file.is_empty() { page.clone() } else { normal(&beside) };
            if !target.exists() {
                wrong += &format!("{}: {link}: there is no such file\n", short(&page));
            } else if !anchor.is_empty() && !anchors(&read(&target)).contains(anchor) {
                wrong += &format!("{}: {link}: there is no such heading\n", short(&page));
            }
        }
    }
    assert!(checked > 200, "{checked} links");
    assert!(wrong.is_empty(), "{wrong}");
}

const KINDS: [(&str, &str); 4] = [
    ("Tutorial", "tutorials"),
    ("How-to", "how-to"),
    ("Reference", "reference"),
    ("Explanation", "explanation"),
];

const READERS: [&str; 6] = [
    "operators",
    "router engineers",
    "chip architects",
    "fabric operators",
    "optics researchers",
    "contributors",
];

/// A page begins with its kind, its readers and what it is for; the pages of its kind and of its readers
/// lead to it.
#[test]
fn every_page_says_what_it_is_for_and_is_found() {
    let mut wrong = String::new();
    let leads = |page: &str, to: &Path| {
        let place = root().join("docs").join(page);
        let parent = place.parent().expect("a directory").to_path_buf();
        links(&read(&place)).iter().any(|link| normal(&parent.join(link)) == to)
    };
    for page in written() {
        let text = read(&page);
        let paragraph = text.split("\n\n").nth(1).unwrap_or_default().replace('\n', " ");
        let parts = paragraph.strip_prefix("**").and_then(|rest| rest.split_once("** for "));
        let parts = parts.and_then(|(kind, rest)| Some((kind, rest.split_once(": ")?)));
        let Some((kind, (readers, what))) = parts else {
            wrong += &format!("{}: it begins with `{paragraph}`\n", short(&page));
            continue;
        };
        let Some((_, leading)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            wrong += &format!("{}: {kind} is not one of the four kinds\n", short(&page));
            continue;
        };
        if what.len() < 40 || !text.starts_with("# ") {
            wrong += &format!("{}: what is it for? {what}\n", short(&page));
        }
        if !leads(&format!("kinds/{leading}.md"), &page) {
            wrong += &format!("{}: docs/kinds/{leading}.md does not lead to it\n", short(&page));
        }
        for reader in readers.replace(" and ", ", ").split(", ") {
            if !READERS.contains(&reader) {
                wrong += &format!("{}: {reader} is no reader\n", short(&page));
                continue;
            }
            let leading = format!("readers/{}.md", reader.trim_end_matches('s').replace(' ', "-"));
            if !leads(&leading, &page) {
                wrong += &format!("{}: docs/{leading} does not lead to it\n", short(&page));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// README's map and the site's first page lead to the same readers.
#[test]
fn readers_are_led_from_both_front_pages() {
    for reader in READERS {
        let page = format!("readers/{}.md", reader.trim_end_matches('s').replace(' ', "-"));
        for (front, link) in [("README.md", format!("docs/{page}")), ("docs/index.md", page)] {
            let found = links(&read(&root().join(front))).contains(&link);
            assert!(found, "{front} does not lead to {link}");
        }
    }
}

/// What runs the blocks of a page that are not commands of `ebb`.
fn runner(page: &str, language: &str) -> bool {
    match language {
        // python/tests/test_pages.py
        "python" => page == "docs/python.md" || page.starts_with("docs/python/"),
        // catalogue/tests follows the steps of a first study.
        "rust" => page == "CONTRIBUTING.md",
        // cli/tests/live/first_day.rs and edge_router.rs run their pages from the beginning to the end.
        "sh" | "yaml" => ["docs/first-day.md", "docs/edge-router.md"].contains(&page),
        _ => false,
    }
}

fn problem(page: &str, block: &Block) -> Option<String> {
    if block.not_run.as_ref().is_some_and(|reason| reason.len() > 10)
        || runner(page, &block.language)
    {
        return None;
    }
    match block.language.as_str() {
        // What programs print, formulas, drawings, other programs' files.
        "text" => None,
        "toml" => toml::from_str::<toml::Table>(&block.text).err().map(|error| error.to_string()),
        "json" => {
            serde_json::from_str::<serde_json::Value>(&block.text).err().map(|e| e.to_string())
        }
        "sh" => {
            let said = block.text.replace("\\\n", " ");
            let said = said.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
            said.map(|line| (line, lines(line))).find_map(|(line, found)| {
                let known = |command: &String| {
                    let file = |word: &&str| word.ends_with(".toml") || word.ends_with(".cfg");
                    let mut files = command.split_whitespace().filter(file);
                    let run = RUN.iter().any(|start| command.starts_with(start));
                    is_form(command)
                        || (run && files.all(|file| root().join(file).exists()))
                        || NOT_RUN.iter().any(|(start, _)| command.starts_with(start))
                };
                let fine = !found.is_empty() && found.iter().all(known);
                (!fine).then(|| format!("nothing runs `{line}`"))
            })
        }
        other => Some(format!("nothing runs `{other}`")),
    }
}

#[test]
fn every_block_is_run_or_says_why_not() {
    let docs = root().join("docs");
    let front = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "SECURITY.md"];
    let mut pages: BTreeSet<PathBuf> = front.iter().map(|name| root().join(name)).collect();
    pages.extend(markdown().into_iter().filter(|path| path.starts_with(&docs)));
    let (mut wrong, mut seen) = (String::new(), 0);
    for path in pages {
        let page = short(&path);
        let text = read(&path);
        let indented = |pair: &[&str]| pair[0].is_empty() && pair[1].starts_with("    ");
        let all: Vec<&str> = text.lines().collect();
        if all.windows(2).any(indented) && !text.contains("```") {
            wrong += &format!("{page}: a block by indentation has no language\n");
        }
        for block in blocks(&text) {
            seen += 1;
            if let Some(problem) = problem(&page, &block) {
                wrong += &format!("{page}:{}: {problem}\n", block.line);
            }
        }
    }
    assert!(seen > 90, "{seen} blocks");
    assert!(wrong.is_empty(), "{wrong}");
}

/// The router of README is one that `ebb router run` takes.
#[cfg(feature = "systems")]
#[test]
fn the_configuration_in_readme_is_one() {
    let text = read(&root().join("README.md"));
    let block = blocks(&text).into_iter().find(|block| block.language == "toml").expect("one");
    ebb_routerd::config::Config::from_str("README.md", &block.text).expect("a configuration");
}
