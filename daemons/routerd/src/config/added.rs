//! `[[esp.tunnel]]` of a text of its own: a tunnel that is added to a router that runs.

use std::path::Path;

use super::application_types::EspTunnel;
use super::problem::ConfigError;
use super::read::Reader;
use super::tunnels;
use super::types::Config;

/// The one tunnel that `text` describes as a configuration does, and nothing else; `name` stands for it in messages.
/// Relative paths are relative to `folder`; without, it names no files of keys, which are given another way.
///
/// # Errors
/// With all problems of the text.
pub fn read_tunnel(
    name: &str,
    text: &str,
    folder: Option<&Path>,
) -> Result<EspTunnel, ConfigError> {
    let reader = Reader::new(name, text);
    let found = one(&reader, folder.is_some());
    let problems = reader.problems();
    match found {
        Some(mut tunnel) if problems.is_empty() => {
            if let Some(folder) = folder {
                tunnel.below(folder);
            }
            Ok(tunnel)
        }
        _ => Err(ConfigError::Invalid(problems)),
    }
}

impl Config {
    /// Whether its tunnels fit to each other and to its applications; `name` stands for its text in messages.
    ///
    /// # Errors
    /// With all problems.
    pub fn check_tunnels(&self, name: &str) -> Result<(), ConfigError> {
        let reader = Reader::new(name, "");
        reader.root().iter().for_each(|root| tunnels::check(root, self));
        let problems = reader.problems();
        if problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid(problems)) }
    }
}

fn one(reader: &Reader<'_>, in_files: bool) -> Option<EspTunnel> {
    let mut root = reader.root()?;
    let mut esp = root.section("esp");
    let mut sections = esp.sections("tunnel");
    if sections.len() != 1 && !root.has_problem_below("esp") {
        let message = format!("there are {} tunnels in it", sections.len());
        root.report("esp.tunnel", 0..0, &message, "describe exactly one, below [[esp.tunnel]]");
    }
    let tunnel = sections.pop().and_then(|section| tunnels::tunnel(section, in_files));
    esp.finish();
    root.finish();
    tunnel
}

#[cfg(test)]
mod tests {
    use super::*;

    const TUNNEL: &str = "[[esp.tunnel]]\nlocal = \"192.0.2.1\"\nremote = \"198.51.100.1\"\n\
        remote_prefixes = [\"10.2.0.0/16\"]\nspi_out = 4097\nspi_in = 4098\n";
    const FILES: &str = "key_file_out = \"out.key\"\nkey_file_in = \"/in.key\"\n";

    #[test]
    fn a_tunnel_stands_alone_in_its_text() {
        let read = |text: &str, folder: Option<&str>| {
            read_tunnel("t.toml", text, folder.map(Path::new)).map_err(|error| error.to_string())
        };
        let whole = format!("{TUNNEL}{FILES}");
        let found = read(&whole, Some("/etc/ebb")).expect("a tunnel");
        assert_eq!(found.key_file_out, Path::new("/etc/ebb/out.key"));
        assert!(found.key_file_in == Path::new("/in.key") && found.is_lasting());
        assert!(!read(TUNNEL, None).expect("a tunnel").is_lasting());
        let refused = |text: &str, folder, words: &str| {
            let said = read(text, folder).expect_err(text);
            assert!(said.contains(words), "{words:?} is not in {said:?}");
        };
        refused(TUNNEL, Some("/"), "esp.tunnel[0].key_file_out: every tunnel needs it");
        refused(&whole, None, "esp.tunnel[0].key_file_out: the keys were given another way");
        refused("", None, "there are 0 tunnels in it");
        refused(&format!("{TUNNEL}{TUNNEL}"), None, "there are 2 tunnels in it");
        refused(&format!("[router]\nworkers = 1\n{TUNNEL}"), None, "router");
        refused(&TUNNEL.replace("4098", "5"), None, "spi_in");
        refused("a = [", None, "TOML syntax");
    }
}
