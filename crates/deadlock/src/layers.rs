//! Paths dealt out to layers: each goes to the first one whose dependencies stay free of cycles
//! (LASH: Skeie, Lysne and Theiss 2002). A layer owns buffers that the others do not use.

use crate::order::{OnlineOrder, WouldClose};

/// Layers, each free of cycles.
#[derive(Clone, Debug)]
pub struct Layers<N> {
    layers: Vec<OnlineOrder<N>>,
    most: usize,
}

impl<N: Copy + Ord> Layers<N> {
    /// No layer yet, and at most this many.
    #[must_use]
    pub fn new(most: usize) -> Layers<N> {
        Layers { layers: Vec::new(), most }
    }

    /// How many layers are in use.
    #[must_use]
    pub fn count(&self) -> usize {
        self.layers.len()
    }

    /// Puts a path, by its dependencies in order, into the first layer that stays free of cycles;
    /// its number, from 0.
    ///
    /// # Errors
    /// When there is none: the cycle that it would close in the last layer. Nothing has changed.
    pub fn place(&mut self, path: &[(N, N)]) -> Result<usize, WouldClose<N>> {
        let mut closed = None;
        for (number, layer) in self.layers.iter_mut().enumerate() {
            match layer.add_all(path) {
                Ok(()) => return Ok(number),
                Err(refused) => closed = Some(refused),
            }
        }
        if let Some(refused) = closed.filter(|_| self.layers.len() >= self.most) {
            return Err(refused);
        }
        let mut layer = OnlineOrder::new();
        layer.add_all(path)?;
        self.layers.push(layer);
        Ok(self.layers.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_that_closes_a_ring_goes_to_a_second_layer() {
        let mut layers = Layers::new(2);
        for (from, to) in [(0, 1), (1, 2), (2, 3)] {
            assert_eq!(layers.place(&[(from, to)]), Ok(0));
        }
        assert_eq!(layers.place(&[(3, 0)]), Ok(1));
        assert_eq!(layers.place(&[(0, 3)]), Ok(0));
        let refused = layers.place(&[(1, 3), (3, 1), (1, 0)]).expect_err("a ring by itself");
        assert_eq!((refused.cycle, layers.count()), (vec![1, 3], 2));
        assert_eq!(layers.place(&[(3, 1)]), Ok(1), "nothing was left behind");
    }
}
