//! What somebody may have meant, and what a message of the TOML reader means to people.

/// The word of `known` that differs from `word` by a slip of the keyboard at most.
///
/// ```
/// use ebb_scenario::nearest;
/// let keys = ["workers", "mode", "redirect"];
/// assert_eq!(nearest("worker", keys), Some("workers"));
/// assert_eq!(nearest("moed", keys), Some("mode"));
/// assert_eq!(nearest("colour", keys), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slips = |other: &&str| strsim::damerau_levenshtein(word, other);
    let best = known.into_iter().min_by_key(slips)?;
    // One slip in a short word, two in a long one.
    (slips(&best) <= 1 + word.len() / 6).then_some(best)
}

/// What to write instead of a word that is not known here.
pub(crate) fn remedy(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => String::new(),
        None => format!("known: {}", known.join(", ")),
    }
}

/// A value in words.
pub(crate) fn say(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => format!("the text \"{text}\""),
        toml::Value::Integer(_) | toml::Value::Float(_) => format!("the number `{value}`"),
        toml::Value::Array(values) => format!("a list of {}", values.len()),
        toml::Value::Table(_) => "a table".to_owned(),
        other => other.to_string(),
    }
}

/// Rust's words for kinds of values, and everybody's.
const KINDS: [(&str, &str); 20] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number of 0 or more"),
    ("u64", "a whole number of 0 or more"),
    ("usize", "a whole number of 0 or more"),
    ("i8", "a whole number"),
    ("i16", "a whole number"),
    ("i32", "a whole number"),
    ("i64", "a whole number"),
    ("isize", "a whole number"),
    ("f32", "a number"),
    ("f64", "a number"),
    ("a boolean", "true or false"),
    ("bool", "true or false"),
    ("a string", "text in quotes"),
    ("a borrowed string", "text in quotes"),
    ("a sequence", "a list"),
    ("a map", "a table"),
    ("map", "a table"),
    ("sequence", "a list"),
];

/// A message of the reader without the names of Rust's types, with what may have been meant.
pub(crate) fn plain(message: &str) -> (String, String) {
    let (found, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    if let Some(word) = quoted(found).filter(|_| found.starts_with("unknown ")) {
        let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
        return (found.replace("variant", "value"), remedy(word, &known));
    }
    let found = found
        .replace("invalid type: ", "has the wrong type: ")
        .replace("invalid value: ", "has an invalid value: ")
        .replace("floating point ", "the number ")
        .replace("integer ", "the number ")
        .replace("string ", "the text ")
        .replace("boolean ", "")
        .replace(": sequence", ": a list")
        .replace(": map", ": a table");
    let known = KINDS.iter().find(|(rust, _)| *rust == expected).map(|(_, plain)| *plain);
    let wanted = match known {
        Some(plain) => plain.to_owned(),
        None if expected.starts_with("struct ") => "a table".to_owned(),
        None if expected.starts_with("tuple ") => "a list".to_owned(),
        None if expected.contains("enum ") => "text in quotes".to_owned(),
        None => expected.to_owned(),
    };
    (found, if wanted.is_empty() { wanted } else { format!("expected {wanted}") })
}

fn quoted(text: &str) -> Option<&str> {
    text.split('`').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_for_people() {
        for (rust, message, remedy) in [
            (
                "unknown field `enigne`, expected one of `title`, `engine`",
                "unknown field `enigne`",
                "did you mean `engine`?",
            ),
            (
                "unknown field `colour`, expected `title` or `engine`",
                "unknown field `colour`",
                "known: title, engine",
            ),
            (
                "unknown variant `pakcet`, expected `packet` or `slot`",
                "unknown value `pakcet`",
                "did you mean `packet`?",
            ),
            (
                "invalid type: string \"a\", expected u16",
                "has the wrong type: the text \"a\"",
                "expected a whole number from 0 to 65535",
            ),
            (
                "invalid type: floating point `1.5`, expected struct Limits",
                "has the wrong type: the number `1.5`",
                "expected a table",
            ),
            ("missing field `cores`", "missing field `cores`", ""),
        ] {
            assert_eq!(plain(rust), (message.to_owned(), remedy.to_owned()));
        }
    }
}
