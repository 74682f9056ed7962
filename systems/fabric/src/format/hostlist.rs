//! SLURM's host lists: `n[01-03,7],login`.

/// A name that ends in a number: what is before the digits, the digits, and their value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Numbered<'a> {
    prefix: &'a str,
    number: u64,
    digits: &'a str,
}

/// Most digits of a number; SLURM's own parser takes more as part of the name.
const DIGITS_MAX: usize = 9;

fn numbered(name: &str) -> Option<Numbered<'_>> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count().min(DIGITS_MAX);
    let (prefix, digits) = name.split_at(name.len() - digits);
    Some(Numbered { prefix, digits, number: digits.parse().ok()? })
}

/// The names as one list, each once: numbers in a row after the same prefix are a range. Leading zeros stay.
pub(super) fn compress<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let (mut plain, mut counted) = (Vec::new(), Vec::new());
    for name in names {
        match numbered(name) {
            Some(numbered) => counted.push(numbered),
            None => plain.push(name.to_owned()),
        }
    }
    counted.sort_unstable_by_key(|it| (it.prefix, it.digits.len(), it.number));
    counted.dedup();
    plain.sort_unstable();
    plain.dedup();
    let mut out = plain;
    for group in counted.chunk_by(|one, other| one.prefix == other.prefix) {
        let ranges: Vec<String> = group.chunk_by(follows).map(range).collect();
        let (prefix, single) = (group[0].prefix, group.len() == 1);
        out.push(if single {
            format!("{prefix}{}", ranges[0])
        } else {
            format!("{prefix}[{}]", ranges.join(","))
        });
    }
    out.join(",")
}

/// Whether `other` is what a list counts to after `one`, with leading zeros as they are.
fn follows(one: &Numbered<'_>, other: &Numbered<'_>) -> bool {
    let next = format!("{:0width$}", one.number + 1, width = one.digits.len());
    next == other.digits
}

fn range(run: &[Numbered<'_>]) -> String {
    match run {
        [one] => one.digits.to_owned(),
        _ => format!("{}-{}", run[0].digits, run[run.len() - 1].digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_in_a_row_are_ranges_and_zeros_stay() {
        for (names, list) in [
            (&["n3", "n1", "n2"][..], "n[1-3]"),
            (&["n08", "n09", "n10", "n7"], "n[7,08-10]"),
            (&["n9", "n10", "n12"], "n[9-10,12]"),
            (&["b", "a", "a"], "a,b"),
            (&["x-04-0", "x-04-1", "y1"], "x-04-[0-1],y1"),
            (&["n0123456789012"], "n0123456789012"),
            (&[], ""),
        ] {
            assert_eq!(compress(names.iter().copied()), list);
        }
    }

    /// What SLURM makes of such a list (`hostlist_create`), for lists that `compress` writes.
    fn expand(list: &str) -> Vec<String> {
        let (mut out, mut rest) = (Vec::new(), list);
        while !rest.is_empty() {
            let end = rest.find([',', '[']).unwrap_or(rest.len());
            let (prefix, after) = rest.split_at(end);
            let Some(inner) = after.strip_prefix('[') else {
                out.push(prefix.to_owned());
                rest = after.strip_prefix(',').unwrap_or("");
                continue;
            };
            let (inner, after) = inner.split_once(']').expect("a closed bracket");
            for range in inner.split(',') {
                let (low, high) = range.split_once('-').unwrap_or((range, range));
                let (first, last): (u64, u64) = (low.parse().unwrap(), high.parse().unwrap());
                let width = low.len();
                out.extend((first..=last).map(|number| format!("{prefix}{number:0width$}")));
            }
            rest = after.strip_prefix(',').unwrap_or("");
        }
        out
    }

    proptest! {
        #[test]
        fn a_list_stands_for_its_names(
            names in prop::collection::btree_set("[ab]{1,2}(-?[0-9]{1,3})?", 1..40)
        ) {
            let mut again = expand(&compress(names.iter().map(String::as_str)));
            again.sort();
            prop_assert_eq!(again, names.into_iter().collect::<Vec<_>>());
        }
    }
}
