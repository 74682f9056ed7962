//! The routes of all back-ends, in chunks: a change of one route rewrites one small value of the store, and
//! whoever has the others already keeps them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use ipnet::IpNet;

use super::{Hop, Hops, Routes};

/// Chunks of a table: with the 0.7 to 1 million routes of the Internet some 12 KiB each.
pub const CHUNKS: usize = 1024;

static NOTHING: LazyLock<Arc<Routes>> = LazyLock::new(Arc::default);

/// All routes, each in the chunk that its network says. Clones share their chunks.
#[derive(Clone, Debug)]
pub struct Published {
    chunks: Vec<Arc<Routes>>,
    total: usize,
}

impl Default for Published {
    fn default() -> Published {
        Published { chunks: vec![NOTHING.clone(); CHUNKS], total: 0 }
    }
}

impl Published {
    /// The chunk of a network, the same on every machine.
    pub fn chunk_of(net: &IpNet) -> usize {
        let (bits, family) = match net {
            IpNet::V4(net) => (u64::from(u32::from(net.network())), 4),
            IpNet::V6(net) => {
                let bits = u128::from(net.network());
                ((bits >> 64) as u64 ^ bits as u64, 6)
            }
        };
        let mixed = bits.wrapping_add(family << 8 | u64::from(net.prefix_len()));
        // Fibonacci hashing: the upper bits depend on all.
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> (64 - CHUNKS.ilog2())) as usize
    }

    /// Routes of a chunk.
    pub fn chunk(&self, index: usize) -> &Arc<Routes> {
        &self.chunks[index]
    }

    /// Ways to a network.
    pub fn get(&self, net: &IpNet) -> Option<&Hops> {
        self.chunks[Published::chunk_of(net)].get(net)
    }

    /// Every route.
    pub fn iter(&self) -> impl Iterator<Item = (&IpNet, &Hops)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.total
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Another content of a chunk.
    ///
    /// # Errors
    /// A network that belongs elsewhere.
    pub fn set(&mut self, index: usize, routes: Arc<Routes>) -> Result<(), IpNet> {
        if let Some(net) = routes.keys().find(|net| Published::chunk_of(net) != index) {
            return Err(*net);
        }
        self.total = self.total - self.chunks[index].len() + routes.len();
        self.chunks[index] = routes;
        Ok(())
    }

    /// Networks whose ways differ, at the cost of the chunks that are not shared.
    pub fn differences(&self, other: &Published, each: &mut dyn FnMut(IpNet)) {
        for (one, other) in self.chunks.iter().zip(&other.chunks) {
            if !Arc::ptr_eq(one, other) {
                differences(one, other, &mut |net| each(*net));
            }
        }
    }
}

/// Keys under which two maps differ.
pub(super) fn differences<K: Ord, V: PartialEq>(
    one: &BTreeMap<K, V>,
    other: &BTreeMap<K, V>,
    each: &mut dyn FnMut(&K),
) {
    for (key, value) in one {
        if other.get(key) != Some(value) {
            each(key);
        }
    }
    other.keys().filter(|key| !one.contains_key(key)).for_each(each);
}

/// A chunk as the store keeps it: networks by their ways, of which there are few.
pub fn encode(routes: &Routes) -> String {
    let mut by_hops: BTreeMap<&[Hop], Vec<&IpNet>> = BTreeMap::new();
    for (net, hops) in routes {
        by_hops.entry(hops).or_default().push(net);
    }
    let all: Vec<_> = by_hops.into_iter().collect();
    serde_json::to_string(&all).expect("networks and numbers")
}

/// The chunk that was encoded.
///
/// # Errors
/// When the text is none.
pub fn decode(text: &str) -> serde_json::Result<Routes> {
    let all: Vec<(Vec<Hop>, Vec<IpNet>)> = serde_json::from_str(text)?;
    let mut routes = Routes::new();
    for (hops, nets) in all {
        let hops = Hops::from(hops);
        routes.extend(nets.into_iter().map(|net| (net, hops.clone())));
    }
    Ok(routes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::tests::routes;

    #[test]
    fn a_chunk_is_kept_as_text_that_reads_back() {
        let mut all = routes(&["192.0.2.0/24", "2001:db8::/32", "0.0.0.0/0"]);
        let two = [Hop { side: 1, via: None, weight: 3 }, Hop { side: 0, via: None, weight: 1 }];
        all.insert("198.51.100.0/24".parse().expect("a network"), Hops::from(two));
        assert_eq!(decode(&encode(&all)).expect("ours"), all);
        assert_eq!(decode("[]").expect("nothing"), Routes::new());
        for other in ["", "{}", "[[[], [\"192.0.2.0/33\"]]]", "[[[{\"side\": -1}], []]]"] {
            assert!(decode(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_table_spreads_over_its_chunks_and_tells_what_differs() {
        let mut table = Published::default();
        let nets: Vec<String> = (0..256)
            .flat_map(|n| (0..200).map(move |m| format!("{}.{m}.{}.0/24", 1 + n % 220, n / 220)))
            .chain((0..9_000).map(|n| format!("2001:{n:x}::/32")))
            .collect();
        let nets: Vec<&str> = nets.iter().map(String::as_str).collect();
        let all = routes(&nets);
        let mut chunks = vec![Routes::new(); CHUNKS];
        for (net, hops) in &all {
            chunks[Published::chunk_of(net)].insert(*net, hops.clone());
        }
        let most = chunks.iter().map(Routes::len).max().expect("chunks");
        assert!(most < 4 * all.len() / CHUNKS, "{most} of {}", all.len());
        for (index, chunk) in chunks.into_iter().enumerate() {
            table.set(index, Arc::new(chunk)).expect("where it belongs");
        }
        assert_eq!((table.len(), table.iter().count()), (all.len(), all.len()));
        let mut other = table.clone();
        let net = "192.0.2.0/24".parse().expect("a network");
        let index = Published::chunk_of(&net);
        let mut chunk = Routes::clone(table.chunk(index));
        chunk.insert(net, Hops::from([]));
        let gone = chunk.pop_first().expect("some").0;
        other.set(index, Arc::new(chunk)).expect("where it belongs");
        let mut found = Vec::new();
        other.differences(&table, &mut |net| found.push(net));
        found.sort();
        let mut expected = vec![gone, net];
        expected.sort();
        assert_eq!(found, expected);
        let stray = Arc::new(routes(&["192.0.2.0/24"]));
        assert_eq!(other.set((index + 1) % CHUNKS, stray), Err(net));
    }
}
