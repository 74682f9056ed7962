//! Codes of messages: each message of a daemon has one, it stays what it is, and docs/messages.md lists them all.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use proc_macro2::{TokenStream, TokenTree};

use crate::sources::{root, sources};

const AGAIN: &str = "EBB_WRITE_DOCS=1 cargo test --workspace --test commands every_message";

/// What a message says whose words are not in the source.
const WORDS: [(&str, &str); 18] = [
    ("EBB-C010", "why the configuration was not reloaded"),
    ("EBB-C011", "which key of the store is not believed, and why"),
    ("EBB-C012", "what failed or ended at a back-end or in the store"),
    ("EBB-C013", "what the member did: elections, plans, back-ends that wake, drain or end"),
    ("EBB-E003", "why the command failed"),
    ("EBB-R003", "flow export: what the collector did not take, or that it takes messages again"),
    ("EBB-R006", "which setting the machine refused, and what to do about it"),
    ("EBB-R007", "which setting could not be put back"),
    ("EBB-R008", "what may not be as the configuration means it"),
    ("EBB-R024", "what the card's VLAN offload means for the port"),
    ("EBB-R042", "the number of queues of an interface changed"),
    ("EBB-R055", "which settings this machine does not have"),
    ("EBB-R079", "the router stalled, and its packets were left to the kernel meanwhile"),
    ("EBB-T001", "the configuration was reloaded, and what of it was not"),
    ("EBB-T002", "why the configuration was not reloaded"),
    ("EBB-R120", "tunnels: why it cannot be written down which numbers are used"),
    ("EBB-R121", "tunnels: why the kernel's cannot be read"),
    ("EBB-R131", "an address of redundancy elimination cannot be used, or can again"),
];

/// A kind of message.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    level: String,
    words: String,
    fields: BTreeSet<String>,
}

fn string(tree: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = tree else { return None };
    match syn::Lit::new(literal.clone()) {
        syn::Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}

/// The arguments of a macro: code and message, if it has them.
fn arguments(stream: TokenStream, level: &str) -> (Option<String>, Option<Message>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let comma = |tree: &TokenTree| matches!(tree, TokenTree::Punct(mark) if mark.as_char() == ',');
    let (mut code, mut fields) = (None, BTreeSet::new());
    for part in trees.split(comma) {
        if let Some(words) = part.first().and_then(string) {
            let message = Message { level: level.to_owned(), words, fields };
            return (code, Some(message));
        }
        let name = part.iter().find_map(|tree| match tree {
            TokenTree::Ident(name) => Some(name.to_string()),
            _ => None,
        });
        match name.as_deref() {
            Some("code") => code = part.last().and_then(string),
            Some(name) => _ = fields.insert(name.to_owned()),
            None => {}
        }
    }
    (code, None)
}

/// Messages among the tokens, without those of tests.
fn gather(stream: TokenStream, found: &mut Vec<(Option<String>, Message)>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < trees.len() {
        let is = |offset: usize, mark: char| matches!(trees.get(at + offset), Some(TokenTree::Punct(one)) if one.as_char() == mark);
        match &trees[at] {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) = trees.get(at + 1)
                    && attribute.stream().to_string().replace(' ', "") == "cfg(test)"
                {
                    let rest = trees[at..].iter().position(|tree| {
                        matches!(tree, TokenTree::Group(group) if group.delimiter() == proc_macro2::Delimiter::Brace)
                            || matches!(tree, TokenTree::Punct(mark) if mark.as_char() == ';')
                    });
                    at += rest.unwrap_or(trees.len());
                }
            }
            TokenTree::Ident(name) if is(1, '!') => {
                let level = name.to_string();
                let levels = ["error", "warn", "info", "debug", "trace"];
                if let (true, Some(TokenTree::Group(group))) =
                    (levels.contains(&level.as_str()), trees.get(at + 2))
                    && let (code, Some(message)) = arguments(group.stream(), &level)
                {
                    found.push((code, message));
                }
            }
            TokenTree::Group(group) => gather(group.stream(), found),
            _ => {}
        }
        at += 1;
    }
}

/// All messages by code.
fn messages() -> BTreeMap<String, Message> {
    let mut files = Vec::new();
    for folder in ["cli/src", "crates", "daemons"] {
        sources(&root().join(folder), &mut files);
    }
    let mut all: BTreeMap<String, Message> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source file");
        let mut found = Vec::new();
        gather(TokenStream::from_str(&text).expect("Rust"), &mut found);
        for (code, message) in found {
            let place = file.display();
            let code = code.unwrap_or_else(|| panic!("{place}: no code: {message:?}"));
            let form = code.strip_prefix("EBB-").is_some_and(|rest| {
                rest.len() == 4
                    && rest.starts_with(|c: char| "CEHPRST".contains(c))
                    && rest[1..].bytes().all(|byte| byte.is_ascii_digit())
            });
            assert!(form, "{place}: {code} is no code");
            match all.get_mut(&code) {
                Some(known) => {
                    let same = (&known.level, &known.words) == (&message.level, &message.words);
                    assert!(same, "{place}: {code} is taken: {known:?}");
                    known.fields.extend(message.fields);
                }
                None => _ = all.insert(code, message),
            }
        }
    }
    all
}

fn page() -> String {
    let mut page = String::from(
        "# Messages of the daemons

**Reference** for operators: every message of the daemons, with its code, level and fields.

Each message has a code that stays what it is, whatever becomes of the words. In the journal it is the field `EBB_CODE`, and
`MESSAGE_ID` is the identifier below; further fields are `EBB_` and a name of the third column in capitals ([operate](operate.md)).
The first letter says whose it is: R the router's, C the cluster's, T of top-of-rack and optical switches, H of what is asked
of Linux, P of ports, S of sockets and metrics, E of the command itself.

| code | level | fields | message | MESSAGE_ID |
|---|---|---|---|---|
",
    );
    let all = messages();
    for (code, _) in WORDS {
        assert!(all.contains_key(code), "there is no {code}");
    }
    for (code, message) in &all {
        let given =
            WORDS.iter().find(|(known, _)| known == code).map(|(_, words)| format!("({words})"));
        let plain =
            message.words.split_whitespace().filter(|word| !word.contains(['{', '}'])).count();
        let words = given.unwrap_or_else(|| {
            assert!(plain > 0, "{code}: say in WORDS what it is about");
            message.words.replace('|', "\\|")
        });
        let fields: Vec<String> = message.fields.iter().map(|name| format!("`{name}`")).collect();
        let level = match message.level.as_str() {
            "warn" => "warning",
            other => other,
        };
        let id = ebb_service::message_id(code);
        page += &format!("| {code} | {level} | {} | {words} | `{id}` |\n", fields.join(", "));
    }
    page
}

#[test]
fn every_message_has_a_code_and_a_row() {
    let (path, page) = (root().join("docs/messages.md"), page());
    if std::env::var_os("EBB_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("the page is ours");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "{}: {AGAIN}", path.display());
    assert!(page.lines().count() > 100, "{page}");
}
