//! What balancers say to each other, as frames.

use ebb_cluster::Stamp;
use ring::{digest, hmac};

use super::topology::Mac;

/// EtherType of what balancers say to each other (IEEE 802, local experiments).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
/// Whom they say it to: a group of local administration.
const GROUP: Mac = [0x03, 0xeb, 0xb0, 0, 0, 1];
/// Begins what they say; its last sign is the format's number.
const MAGIC: [u8; 8] = *b"ebbpeer2";
/// Ethernet header, magic, cluster, number, flags, link, answers, hosts, stamp.
const HEAD: usize = 14 + 8 + 4 + 5 + STAMP;
const STAMP: usize = 16;
const SEAL: usize = 32;
/// Hosts named in a frame at most.
pub(super) const HOSTS_MAX: usize = 128;

/// It can answer for addresses.
const READY: u8 = 1;
/// It answers for addresses and can forward.
const SERVES: u8 = 2;

/// What all balancers of a cluster have in common besides the topology, and this one has not.
#[derive(Clone, Debug, Default)]
pub struct PeerAuthentication {
    /// The cluster's name: others may be on the same segments.
    pub cluster: String,
    /// What seals what they say; without one nobody is kept from saying it.
    pub token: Option<Vec<u8>>,
    /// Tells this process from those before it: random, not 0.
    pub session: u64,
}

/// What a balancer says on a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Its number.
    pub from: usize,
    /// The link: outside and inside of each side, in turn.
    pub link: usize,
    /// It can answer for addresses.
    pub ready: bool,
    /// It answers for addresses and can forward.
    pub serves: bool,
    /// When it says so.
    pub stamp: Stamp,
    /// What it has heard last of each balancer.
    pub answers: Vec<Stamp>,
    /// Hosts that it has heard on this side.
    pub hosts: Vec<Mac>,
}

/// Why nothing can be taken from a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// It is nothing that balancers say.
    Foreign,
    /// It is another cluster's, another version's, or cut off.
    Other,
    /// Its seal is wrong.
    Forged,
}

/// How a cluster's balancers write what they say.
pub struct Writing {
    tag: [u8; 4],
    key: Option<hmac::Key>,
}

impl Writing {
    /// Those of a cluster.
    pub fn new(authentication: &PeerAuthentication) -> Writing {
        let name = digest::digest(&digest::SHA256, authentication.cluster.as_bytes());
        let token = authentication.token.as_ref();
        Writing {
            tag: name.as_ref()[..4].try_into().expect("four bytes"),
            key: token.map(|token| hmac::Key::new(hmac::HMAC_SHA256, token)),
        }
    }

    /// A frame from the address `source`.
    pub fn frame(&self, source: Mac, words: &Words) -> Vec<u8> {
        let Words { from, link, ready, serves, stamp, answers, hosts } = words;
        let rest = STAMP * answers.len() + 6 * hosts.len() + SEAL;
        let mut frame = Vec::with_capacity(HEAD + rest);
        frame.extend(GROUP);
        frame.extend(source);
        frame.extend(ETHERTYPE);
        frame.extend(MAGIC);
        frame.extend(self.tag);
        let flags = if *ready { READY } else { 0 } | if *serves { SERVES } else { 0 };
        frame.extend([*from as u8, flags, *link as u8, answers.len() as u8, hosts.len() as u8]);
        for Stamp { session, number } in [stamp].into_iter().chain(answers) {
            frame.extend(session.to_be_bytes());
            frame.extend(number.to_be_bytes());
        }
        hosts.iter().for_each(|host| frame.extend(host));
        match &self.key {
            Some(key) => frame.extend(hmac::sign(key, &frame[14..]).as_ref()),
            None => frame.extend([0; SEAL]),
        }
        frame
    }

    /// What a frame says.
    ///
    /// # Errors
    /// [`Unread`].
    pub fn read(&self, frame: &[u8]) -> Result<Words, Unread> {
        if frame.get(12..14) != Some(&ETHERTYPE) {
            return Err(Unread::Foreign);
        }
        let ours = |body: &&[u8]| body[..8] == MAGIC && body[8..12] == self.tag;
        let body = frame.get(14..HEAD).filter(ours).ok_or(Unread::Other)?;
        let [from, flags, link, answers, hosts] = body[12..17].try_into().expect("five bytes");
        let hosts_at = HEAD + STAMP * usize::from(answers);
        let end = hosts_at + 6 * usize::from(hosts);
        let seal = frame.get(end..end + SEAL).ok_or(Unread::Other)?;
        let key = self.key.as_ref();
        if key.is_some_and(|key| hmac::verify(key, &frame[14..end], seal).is_err()) {
            return Err(Unread::Forged);
        }
        let number = |at: &[u8]| u64::from_be_bytes(at.try_into().expect("eight bytes"));
        let stamp = |at: &[u8]| Stamp { session: number(&at[..8]), number: number(&at[8..]) };
        Ok(Words {
            from: usize::from(from),
            link: usize::from(link),
            ready: flags & READY != 0,
            serves: flags & SERVES != 0,
            stamp: stamp(&body[17..]),
            answers: frame[HEAD..hosts_at].chunks_exact(STAMP).map(stamp).collect(),
            hosts: (frame[hosts_at..end].chunks_exact(6))
                .map(|host| host.try_into().expect("six bytes"))
                .collect(),
        })
    }
}

/// A frame from a host's address, which tells switches where the host is.
pub(super) fn reminder(host: Mac) -> Vec<u8> {
    let mut frame = Vec::with_capacity(60);
    frame.extend(GROUP);
    frame.extend(host);
    frame.extend(ETHERTYPE);
    frame.resize(60, 0);
    frame
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn writing(cluster: &str, token: Option<&str>) -> Writing {
        let token = token.map(|token| token.as_bytes().to_vec());
        Writing::new(&PeerAuthentication { cluster: cluster.to_owned(), token, session: 1 })
    }

    fn words() -> Words {
        Words {
            from: 3,
            link: 2,
            ready: true,
            serves: false,
            stamp: Stamp { session: 7, number: 8 },
            answers: vec![Stamp::default(), Stamp { session: u64::MAX, number: 9 }],
            hosts: vec![[2, 9, 9, 9, 9, 9]; HOSTS_MAX],
        }
    }

    #[test]
    fn what_is_said_is_read_by_whoever_has_the_token() {
        let ours = writing("c", Some("t"));
        let frame = ours.frame([2, 0, 0, 0, 0, 1], &words());
        assert_eq!(ours.read(&frame), Ok(words()));
        assert_eq!(writing("d", Some("t")).read(&frame), Err(Unread::Other));
        assert_eq!(writing("c", Some("u")).read(&frame), Err(Unread::Forged));
        assert_eq!(writing("c", None).read(&frame), Ok(words()));
        assert_eq!(ours.read(&reminder([2, 0, 0, 0, 0, 1])), Err(Unread::Other));
        let unsealed = writing("c", None).frame([2; 6], &words());
        assert_eq!(ours.read(&unsealed), Err(Unread::Forged));
        for at in 14..frame.len() {
            let mut spoilt = frame.clone();
            spoilt[at] ^= 1;
            assert!(ours.read(&spoilt).is_err(), "byte {at}");
        }
        assert!((0..frame.len()).all(|len| ours.read(&frame[..len]).is_err()));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), head in any::<bool>()) {
            let none = writing("c", None);
            if head && bytes.len() > HEAD {
                bytes[..26].copy_from_slice(&none.frame([2; 6], &words())[..26]);
            }
            if let Ok(words) = none.read(&bytes) {
                prop_assert_eq!(none.read(&none.frame([2; 6], &words)), Ok(words));
            }
        }
    }
}
