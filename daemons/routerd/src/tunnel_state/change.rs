//! Tunnels with fixed keys that are added and removed while packets flow.

use anyhow::{Result, ensure};
use ebb_apps::esp::{Start, Tunnel};
use ebb_host::clock;

use super::{FIRST, Keeper};

impl Keeper {
    /// A tunnel more, where its keys were left.
    ///
    /// # Errors
    /// When an association has one of its keys, or what is remembered of them cannot be read or written down.
    pub fn add(&self, tunnel: &Tunnel) -> Result<()> {
        let (esp, store) = (&self.remembered.esp, &self.remembered.store);
        let [out, into] = [&tunnel.out.1, &tunnel.into.1].map(|key| key.name());
        let (sealing, opening) = (esp.sealing(), esp.opening());
        let used = sealing.iter().map(|one| one.name()).chain(opening.iter().map(|one| one.name()));
        let mut used: Vec<&str> = used.collect();
        for (field, key) in [("key_file_out", &out), ("key_file_in", &into)] {
            // Each use of a key has numbers of its own, which would be the same.
            ensure!(
                !used.contains(&key.as_str()),
                "{field}: the key is at work already: make one for each direction of each tunnel (openssl rand -hex {})",
                tunnel.algorithm.key_len()
            );
            used.push(key);
        }
        let claim = store.claim(&out, None, FIRST, clock::since_1970())?;
        esp.add(tunnel, Start { claim, seen: store.saw(&into, 0)? });
        // For more numbers, soon.
        self.remembered.bell.ring();
        Ok(())
    }

    /// Takes away the tunnel that receives with this index, and writes down what has come; whether there was one.
    ///
    /// # Errors
    /// When that cannot be written down; the tunnel is gone all the same.
    pub fn remove(&self, spi_in: u32) -> Result<bool> {
        let Some((_, into)) = self.remembered.esp.remove(spi_in) else { return Ok(false) };
        self.remembered.store.saw(into.name(), into.seen())?;
        Ok(true)
    }
}
