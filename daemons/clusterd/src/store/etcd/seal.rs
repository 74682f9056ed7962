//! Seals of what is kept in etcd: that a member of the cluster wrote it, where, and not before what is known.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use crate::store::StoreError;

/// Begins what is sealed: the format's number.
const FORMAT: &[u8] = b"ebb record 2";
/// Length of a seal in base64.
const TAG_LEN: usize = 44;

/// What seals a cluster's values, if anything does.
///
/// A seal (HMAC-SHA-256) covers the cluster, the key, the lease that the value goes with, the value, and the store's
/// revision that its writer knew. It thus belongs to no other key, and once somebody has seen a later value, the one
/// before is known to be old when it is put back.
#[derive(Clone, Default)]
pub(super) struct Seal {
    key: Option<hmac::Key>,
    /// Before the cluster's keys.
    prefix: String,
}

/// A value that a member of the cluster wrote.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sealed {
    pub(super) value: String,
    /// Its writer knew what was there until then; none, where nothing is sealed.
    pub(super) after: Option<u64>,
}

/// Why a value is not believed.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    pub(super) why: StoreError,
    /// It has a seal, of another token: whoever joins with the wrong one finds only these.
    pub(super) foreign: bool,
}

impl Seal {
    pub(super) fn new(token: Option<&[u8]>, prefix: &str) -> Seal {
        let key = token.map(|token| hmac::Key::new(hmac::HMAC_SHA256, token));
        Seal { key, prefix: prefix.to_owned() }
    }

    /// A value as it is kept at `rest` behind the prefix, under a lease or none (`"0"`), by whoever knows what was
    /// there until the revision `after`.
    pub(super) fn sealed(&self, (rest, lease): (&str, &str), after: u64, value: &str) -> String {
        let Some(key) = &self.key else { return value.to_owned() };
        let mut context = hmac::Context::with_key(key);
        self.said(rest, lease, &after.to_string(), value, |part| context.update(part));
        format!("{}:{after}:{value}", STANDARD.encode(context.sign().as_ref()))
    }

    /// What a kept value says.
    pub(super) fn unsealed(
        &self,
        (rest, lease): (&str, &str),
        kept: &str,
    ) -> Result<Sealed, Refusal> {
        let parts = kept.split_once(':').filter(|(tag, _)| tag.len() == TAG_LEN);
        let parts = parts.and_then(|(tag, text)| Some((tag, text.split_once(':')?)));
        let refused = |what: &str, remedy: &str, foreign| {
            let what = format!("key {}{rest} {what}", self.prefix);
            let why = StoreError(format!("field `cluster.token_file`: {what}; {remedy}"));
            Err(Refusal { why, foreign })
        };
        let Some(key) = &self.key else {
            return match parts {
                None => Ok(Sealed { value: kept.to_owned(), after: None }),
                Some(_) => {
                    let remedy = "use the token of the members that already run";
                    refused("is sealed, but no token is set", remedy, true)
                }
            };
        };
        let Some((tag, (after, value))) = parts else {
            return refused("has no seal", "remove it from the store", false);
        };
        let (number, mut said) = (after.parse().ok(), Vec::with_capacity(kept.len() + 256));
        self.said(rest, lease, after, value, |part| said.extend_from_slice(part));
        let tag = STANDARD.decode(tag).unwrap_or_default();
        if number.is_none() || hmac::verify(key, &said, &tag).is_err() {
            let remedy = "use the token of the members that already run, or remove the key";
            return refused("is not sealed with this token", remedy, true);
        }
        Ok(Sealed { value: value.to_owned(), after: number })
    }

    /// All that a seal is about.
    fn said(&self, rest: &str, lease: &str, after: &str, value: &str, mut take: impl FnMut(&[u8])) {
        take(FORMAT);
        for part in [&self.prefix, rest, lease, after] {
            take(part.as_bytes());
            take(&[0]);
        }
        take(value.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(token: &str, prefix: &str) -> Seal {
        Seal::new(Some(token.as_bytes()), prefix)
    }

    #[test]
    fn a_seal_holds_for_its_cluster_key_lease_and_value_alone() {
        let ours = seal("t", "/a/");
        let kept = ours.sealed(("head", "7"), 40, "m1:x");
        let said = Sealed { value: "m1:x".to_owned(), after: Some(40) };
        assert_eq!(ours.unsealed(("head", "7"), &kept).expect("ours"), said);
        for (seal, place) in [
            (seal("u", "/a/"), ("head", "7")),
            (seal("t", "/b/"), ("head", "7")),
            (ours.clone(), ("book", "7")),
            (ours.clone(), ("head", "0")),
        ] {
            assert!(seal.unsealed(place, &kept).expect_err("another").foreign, "{place:?}");
        }
        for at in 0..kept.len() {
            let mut spoilt = kept.clone().into_bytes();
            spoilt[at] ^= 1;
            let spoilt = String::from_utf8(spoilt).expect("ASCII");
            assert!(ours.unsealed(("head", "7"), &spoilt).is_err(), "byte {at}");
        }
        assert!(!ours.unsealed(("head", "7"), "junk").expect_err("no seal").foreign);
    }

    #[test]
    fn without_a_token_nothing_is_sealed_and_no_seal_believed() {
        let none = Seal::default();
        assert_eq!(none.sealed(("book", "0"), 3, "{}"), "{}");
        let said = Sealed { value: "{\"a\":1}".to_owned(), after: None };
        assert_eq!(none.unsealed(("book", "0"), "{\"a\":1}").expect("as it is"), said);
        let kept = seal("t", "").sealed(("book", "0"), 3, "{}");
        let refused = none.unsealed(("book", "0"), &kept).expect_err("sealed");
        assert!(refused.foreign && refused.why.0.starts_with("field `cluster.token_file`"));
    }
}
