//! What text must not do where it is put.

/// Text that means itself in HTML, in SVG and in their attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char if char.is_control() && char != '\n' => out.push('\u{fffd}'),
            char => out.push(char),
        }
    }
    out
}

/// Control characters could move the cursor or forge output; they become spaces.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|char| if char.is_control() && char != '\n' { ' ' } else { char }).collect()
}
