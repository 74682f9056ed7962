//! Perfect matchings of bipartite graphs.

use super::FREE;

/// Which inputs may be matched to which outputs: a row of bits for each input.
#[derive(Clone, Debug)]
pub struct Bipartite {
    ports: usize,
    words: usize,
    rows: Vec<u64>,
}

impl Bipartite {
    /// A graph without edges.
    pub fn new(ports: usize) -> Bipartite {
        let words = ports.div_ceil(64);
        Bipartite { ports, words, rows: vec![0; ports * words] }
    }

    /// Replaces all edges by the entries of a matrix that are at least `at_least`.
    pub fn fill(&mut self, matrix: &[f64], at_least: f64) {
        for (row, bits) in
            matrix.chunks_exact(self.ports).zip(self.rows.chunks_exact_mut(self.words))
        {
            for (entries, word) in row.chunks(64).zip(bits) {
                let bit = |(at, entry): (usize, &f64)| u64::from(*entry >= at_least) << at;
                *word = entries.iter().enumerate().map(bit).fold(0, |word, bit| word | bit);
            }
        }
    }

    fn has(&self, from: usize, to: usize) -> bool {
        self.rows[from * self.words + to / 64] >> (to % 64) & 1 == 1
    }

    /// Extends the pairs of `mates` that are edges to a perfect matching, and says whether there
    /// is one; `mates` holds what was found.
    ///
    /// Augmenting paths by breadth-first search over words of outputs (Hopcroft and Karp 1973 for
    /// the idea, one path at a time here).
    pub fn perfect(&self, mates: &mut [usize]) -> bool {
        let mut owner = vec![FREE; self.ports];
        for (from, mate) in mates.iter_mut().enumerate() {
            match *mate {
                FREE => {}
                to if self.has(from, to) && owner[to] == FREE => owner[to] = from,
                _ => *mate = FREE,
            }
        }
        let mut open = vec![0u64; self.words];
        (0..self.ports)
            .filter(|to| owner[*to] == FREE)
            .for_each(|to| open[to / 64] |= 1 << (to % 64));
        let mut search = Search {
            unseen: vec![0; self.words],
            queue: Vec::new(),
            parent: vec![FREE; self.ports],
        };
        (0..self.ports).all(|from| {
            mates[from] != FREE || self.augment(from, mates, &mut owner, &mut open, &mut search)
        })
    }

    fn augment(
        &self,
        from: usize,
        mates: &mut [usize],
        owner: &mut [usize],
        open: &mut [u64],
        search: &mut Search,
    ) -> bool {
        search.unseen.fill(u64::MAX);
        search.queue.clear();
        search.queue.push(from);
        let mut at = 0;
        while let Some(&row) = search.queue.get(at) {
            at += 1;
            let bits = &self.rows[row * self.words..][..self.words];
            let free = bits.iter().zip(&*open).position(|(bits, open)| bits & open != 0);
            if let Some(word) = free {
                let bit = (bits[word] & open[word]).trailing_zeros() as usize;
                open[word] &= !(1 << bit);
                search.flip(word * 64 + bit, row, mates, owner);
                return true;
            }
            for (word, bits) in bits.iter().enumerate() {
                let mut fresh = bits & search.unseen[word];
                search.unseen[word] &= !fresh;
                while fresh != 0 {
                    let to = word * 64 + fresh.trailing_zeros() as usize;
                    fresh &= fresh - 1;
                    search.parent[to] = row;
                    search.queue.push(owner[to]);
                }
            }
        }
        false
    }
}

/// What a search for an augmenting path remembers, used again by the next.
struct Search {
    unseen: Vec<u64>,
    queue: Vec<usize>,
    parent: Vec<usize>,
}

impl Search {
    /// Gives `to` to `row`, the output `row` had to the row it was reached from, and so on.
    fn flip(&mut self, mut to: usize, mut row: usize, mates: &mut [usize], owner: &mut [usize]) {
        loop {
            let had = mates[row];
            mates[row] = to;
            owner[to] = row;
            if had == FREE {
                return;
            }
            to = had;
            row = self.parent[to];
        }
    }
}
