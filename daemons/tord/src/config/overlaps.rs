//! What may be written only once in a switch's configuration: a prefix, for whichever entry wins, half of its
//! packets go to the wrong rack; an interface; an address of the switch.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ebb_scenario::Invalid;
use ipnet::IpNet;

use super::TorConfig;

/// Refuses what is there twice, at its second place. A longer prefix within a shorter one is no mistake: the
/// longest match decides (RFC 1812 section 5.2.4.3).
pub(super) fn check(config: &TorConfig) -> Result<(), Invalid> {
    let mut places = Places::default();
    places.interface(&config.tor.control, "tor.control".to_owned())?;
    for (rack, each) in config.rack.iter().enumerate() {
        places.interface(&each.uplink, format!("rack[{rack}].uplink"))?;
        for (host, each) in each.host.iter().enumerate() {
            let within = format!("rack[{rack}].host[{host}]");
            places.interface(&each.name, format!("{within}.name"))?;
            for (at, prefix) in each.prefixes.iter().enumerate() {
                places.prefix(prefix, format!("{within}.prefixes[{at}]"))?;
            }
            for (at, address) in each.own.iter().enumerate() {
                places.own(*address, format!("{within}.own[{at}]"))?;
            }
        }
    }
    for (remote, each) in config.remote.iter().enumerate() {
        for (at, prefix) in each.prefixes.iter().enumerate() {
            places.prefix(prefix, format!("remote[{remote}].prefixes[{at}]"))?;
        }
    }
    Ok(())
}

/// Where each was first.
#[derive(Default)]
struct Places<'a> {
    prefixes: BTreeMap<IpNet, String>,
    interfaces: BTreeMap<&'a str, String>,
    own: BTreeMap<IpAddr, String>,
}

impl<'a> Places<'a> {
    fn prefix(&mut self, prefix: &IpNet, field: String) -> Result<(), Invalid> {
        let what = format!("the prefix {}", prefix.trunc());
        let remedy = "write each prefix once, at the rack whose hosts it has; a longer prefix within it is allowed";
        once(&mut self.prefixes, prefix.trunc(), field, &what, remedy)
    }

    fn interface(&mut self, name: &'a str, field: String) -> Result<(), Invalid> {
        once(
            &mut self.interfaces,
            name,
            field,
            &format!("interface {name}"),
            "use each interface once",
        )
    }

    fn own(&mut self, address: IpAddr, field: String) -> Result<(), Invalid> {
        let remedy = "write each address once, at the interface that has it";
        once(&mut self.own, address, field, &format!("address {address}"), remedy)
    }
}

fn once<K: Ord>(
    first: &mut BTreeMap<K, String>,
    key: K,
    field: String,
    what: &str,
    remedy: &str,
) -> Result<(), Invalid> {
    if let Some(place) = first.get(&key) {
        return Err(Invalid::new(field, format!("{what} is used at `{place}` already"), remedy));
    }
    first.insert(key, field);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{TOR_EXAMPLE, TorConfig};

    fn fault(from: &str, to: &str) -> Option<String> {
        let text = TOR_EXAMPLE.replace(from, to);
        assert_ne!(text, TOR_EXAMPLE, "{from}");
        TorConfig::parse("tor.toml", &text).err().map(|fault| fault.to_string())
    }

    #[test]
    fn what_is_there_twice_is_refused_at_its_second_place() {
        // The same network, whatever the host bits.
        for remote in ["10.77.0.0/24", "10.77.0.9/24"] {
            let said = fault("10.77.1.0/24", remote).expect("refused");
            for word in [
                "tor.toml:",
                "`remote[0].prefixes[0]`",
                "10.77.0.0/24",
                "`rack[0].host[0].prefixes[0]`",
            ] {
                assert!(said.contains(word), "{word}: {said}");
            }
        }
        let said = fault("name = \"eth1\"", "name = \"eth0\"").expect("refused");
        assert!(said.contains("rack[0].host[0].name") && said.contains("rack[0].uplink"), "{said}");
        let said = fault("own = [\"10.77.0.1\"]", "own = [\"10.77.0.1\", \"10.77.0.1\"]")
            .expect("refused");
        assert!(said.contains("rack[0].host[0].own[1]"), "{said}");
    }

    #[test]
    fn a_longer_prefix_within_a_shorter_one_is_no_mistake() {
        assert_eq!(fault("10.77.1.0/24", "10.77.0.128/25"), None);
        assert_eq!(fault("10.77.1.0/24", "10.77.0.0/16"), None);
    }
}
