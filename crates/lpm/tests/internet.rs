//! The Internet's tables: every sampled address gets what a search by length finds.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;

use ebb_lpm::{Ipv4Writer, Ipv6Writer, MAX_VALUE, Value};
use flate2::read::GzDecoder;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Lines of `prefix/length number`, or `None` where there is no such file and need not be.
fn read(name: &str) -> Option<Vec<(IpAddr, u8, Value)>> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/routes");
    let Ok(file) = File::open(Path::new(directory).join(name)) else {
        assert!(std::env::var("CI").is_err(), "{directory}/{name} is missing");
        eprintln!("skipped: no {directory}/{name}");
        return None;
    };
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let parse = |line: String| {
        let (prefix, number) = line.split_once(' ')?;
        let (address, len) = prefix.split_once('/')?;
        let value = number.parse::<u32>().ok()? % MAX_VALUE + 1;
        Some((address.parse().ok()?, len.parse().ok()?, value))
    };
    Some(lines.map(|line| parse(line.expect("is text")).expect("is a route")).collect())
}

macro_rules! family {
    ($name:ident, $file:literal, $writer:ident, $address:ty, $variant:ident) => {
        #[test]
        fn $name() {
            let Some(routes) = read($file) else { return };
            let mut random = ChaCha8Rng::seed_from_u64(1);
            let mut routes: Vec<($address, u8, Value)> = routes
                .into_iter()
                .map(|(address, len, value)| match address {
                    IpAddr::$variant(address) => (<$address>::from(address), len, value),
                    _ => panic!("the other family"),
                })
                .collect();
            routes.shuffle(&mut random);
            let host = |len: u8| <$address>::MAX.checked_shr(u32::from(len)).unwrap_or(0);
            let (mut writer, table) = $writer::new();
            let mut by_len = BTreeMap::<u8, HashMap<$address, Value>>::new();
            let mut held = BTreeMap::new();
            for &(prefix, len, value) in &routes {
                writer.insert(prefix, len, value).expect("is valid");
                by_len.entry(len).or_default().insert(prefix, value);
                held.insert((prefix, len), value);
            }
            let check = |by_len: &BTreeMap<u8, HashMap<$address, Value>>,
                         random: &mut ChaCha8Rng| {
                let addresses: Vec<$address> = (0..200_000)
                    .map(|index| {
                        let (prefix, len, _) = routes[random.random_range(0..routes.len())];
                        match index % 4 {
                            0 => random.random(),
                            1 => prefix.wrapping_sub(1),
                            2 => (prefix | host(len)).wrapping_add(1),
                            _ => prefix | random.random::<$address>() & host(len),
                        }
                    })
                    .collect();
                let mut values = vec![0; addresses.len()];
                table.lookup_batch(&addresses, &mut values);
                let mut by_vectors = vec![0; addresses.len()];
                table.use_vector(true);
                table.lookup_batch(&addresses, &mut by_vectors);
                table.use_vector(false);
                assert_eq!(by_vectors, values);
                for (address, value) in addresses.into_iter().zip(values) {
                    let found = by_len
                        .iter()
                        .rev()
                        .find_map(|(&len, prefixes)| prefixes.get(&(address & !host(len))));
                    assert_eq!(value, found.copied().unwrap_or(0), "{address:x}");
                }
            };
            check(&by_len, &mut random);
            assert!(writer.iter().eq(held.iter().map(|(&(p, len), &v)| (p, len, v))));

            for &(prefix, len, _) in &routes[..routes.len() / 2] {
                if let Some(value) = writer.remove(prefix, len) {
                    let removed = by_len.get_mut(&len).and_then(|held| held.remove(&prefix));
                    assert_eq!(removed, Some(value));
                }
            }
            check(&by_len, &mut random);
        }
    };
}

family!(ipv4, "ipv4.txt.gz", Ipv4Writer, u32, V4);
family!(ipv6, "ipv6.txt.gz", Ipv6Writer, u128, V6);
