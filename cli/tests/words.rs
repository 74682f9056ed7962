//! The words that users read: every text among the strings of the sources, and the help of every command, in
//! one file, `words.txt`, to be read as a whole. Changed words change that file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::Command;
use std::str::FromStr;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

mod sources;

use sources::{root, sources};

const ACCEPT: &str = "EBB_WRITE_WORDS=1 cargo test -p ebb-cli --test words";

/// Two words or more, of which one is not a placeholder: no key, no unit, no format of numbers.
fn is_text(literal: &str) -> bool {
    let word = |word: &str| {
        let letters = word.chars().filter(|c| c.is_alphabetic()).count();
        !word.contains(['{', '}']) && letters >= 2
    };
    literal.split_whitespace().nth(1).is_some() && literal.split_whitespace().any(word)
}

/// Messages of broken invariants, which are for developers.
fn is_invariant(name: &str) -> bool {
    let names = ["assert", "debug_assert", "panic", "unreachable", "expect", "expect_err"];
    names.contains(&name) || name.starts_with("assert_") || name.starts_with("debug_assert_")
}

/// The texts among the tokens; documentation, tests and invariants are left out.
fn gather(stream: TokenStream, found: &mut BTreeSet<String>) {
    let mut trees = stream.into_iter().peekable();
    let mut name = String::new();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                // The `!` of an inner attribute.
                let inner = |tree: &TokenTree| matches!(tree, TokenTree::Punct(_));
                trees.next_if(inner);
                let Some(TokenTree::Group(attribute)) = trees.next() else { continue };
                let text = attribute.stream().to_string().replace(' ', "");
                if text == "cfg(test)" {
                    let ends = |tree: &TokenTree| match tree {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        TokenTree::Punct(mark) => mark.as_char() == ';',
                        _ => false,
                    };
                    _ = trees.find(ends);
                } else if !text.starts_with("doc=") {
                    gather(attribute.stream(), found);
                }
            }
            TokenTree::Ident(ident) => name = ident.to_string(),
            // Between the name of a macro and what it is given.
            TokenTree::Punct(mark) if mark.as_char() == '!' && mark.spacing() == Spacing::Alone => {
            }
            TokenTree::Group(group) => {
                if !is_invariant(&std::mem::take(&mut name)) {
                    gather(group.stream(), found);
                }
            }
            TokenTree::Literal(literal) => {
                if let syn::Lit::Str(text) = syn::Lit::new(literal) {
                    found.extend(Some(text.value()).filter(|text| is_text(text)));
                }
            }
            TokenTree::Punct(_) => name.clear(),
        }
    }
}

/// The help of a command and of those below it, as printed; lines that another command has as well once.
fn helps(path: &[String], seen: &mut BTreeSet<String>, into: &mut String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebb"));
    let output = command.args(path).arg("--help").output().expect("ebb runs");
    assert!(output.status.success(), "{path:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = [&["ebb".to_owned()], path, &["--help".to_owned()]].concat().join(" ");
    writeln!(into, "\n## {line}").expect("a string");
    let lines = text.lines().map(str::trim_end).filter(|line| seen.insert((*line).to_owned()));
    into.extend(lines.map(|line| format!("{line}\n")));
    let commands = text.split_once("\nCommands:\n").map_or("", |(_, commands)| commands);
    for line in commands.lines().take_while(|line| line.starts_with("  ")) {
        let name = line.split_whitespace().next().unwrap_or_default();
        // Indented further: the line before goes on.
        if !line.starts_with("   ") && name != "help" {
            helps(&[path, &[name.to_owned()]].concat(), seen, into);
        }
    }
}

fn words() -> String {
    let mut files = Vec::new();
    for folder in ["catalogue", "cli", "crates", "daemons", "systems"] {
        sources(&root().join(folder), &mut files);
    }
    files.sort();
    let mut page = String::new();
    for file in files {
        let source = std::fs::read_to_string(&file).expect("a source file");
        let mut found = BTreeSet::new();
        gather(TokenStream::from_str(&source).expect("Rust"), &mut found);
        if !found.is_empty() {
            let name = file.strip_prefix(root()).expect("below the root");
            writeln!(page, "\n## {}", name.display()).expect("a string");
            page.extend(found.iter().map(|text| format!("{}\n", text.replace('\n', "\\n"))));
        }
    }
    helps(&[], &mut BTreeSet::new(), &mut page);
    page.trim_start().to_owned()
}

#[test]
fn every_word_that_users_read_is_in_the_file() {
    let place = root().join("cli/tests/words.txt");
    let words = words();
    if std::env::var_os("EBB_WRITE_WORDS").is_some() {
        std::fs::write(&place, &words).expect("words.txt is written");
    }
    let kept = std::fs::read_to_string(&place).unwrap_or_default();
    if words == kept {
        return;
    }
    let (new, old): (BTreeSet<&str>, BTreeSet<&str>) =
        (words.lines().collect(), kept.lines().collect());
    let mut changed = String::new();
    changed.extend(old.difference(&new).map(|line| format!("- {line}\n")));
    changed.extend(new.difference(&old).map(|line| format!("+ {line}\n")));
    panic!("texts differ from cli/tests/words.txt:\n{changed}if they read well: {ACCEPT}");
}
