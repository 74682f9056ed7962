//! `[[esp.tunnel]]`: IPsec tunnels with fixed keys, which stand in files of their own.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ebb_apps::esp::{Algorithm, DontFragment, Key, Tunnel};
use ipnet::IpNet;
use toml::Spanned;
use zeroize::Zeroizing;

use super::application_types::{Esp, EspAlgorithm, EspDf, EspTunnel};
use super::read::{Section, or};
use super::types::{App, Config, PacketPath};

impl EspAlgorithm {
    fn known(self) -> Algorithm {
        match self {
            EspAlgorithm::Aes128Gcm => Algorithm::Aes128Gcm,
            EspAlgorithm::Aes256Gcm => Algorithm::Aes256Gcm,
            EspAlgorithm::Chacha20Poly1305 => Algorithm::Chacha20Poly1305,
            EspAlgorithm::Aes128CbcHmacSha256 => Algorithm::Aes128CbcHmacSha256,
        }
    }
}

impl EspDf {
    fn known(self) -> DontFragment {
        match self {
            EspDf::Copy => DontFragment::Copy,
            EspDf::Set => DontFragment::Set,
            EspDf::Clear => DontFragment::Clear,
        }
    }
}

/// Least path MTU with which an IPv6 packet of the least size fits into any tunnel.
const MTU_MIN_V6: u16 = 1400;
/// More than any key's digits.
const KEY_FILE_LEN_MAX: u64 = 256;

/// A missing field is a problem, too.
fn required<T>(
    section: &Section<'_, '_>,
    key: &str,
    value: Option<Spanned<T>>,
    example: &str,
) -> Option<Spanned<T>> {
    if value.is_none() && !section.has_problem_of(key) {
        let remedy = format!("for example {key} = {example}");
        section.report(key, section.span.clone(), "every tunnel needs it", &remedy);
    }
    value
}

fn prefixes(section: &mut Section<'_, '_>, key: &'static str) -> Option<Spanned<Vec<IpNet>>> {
    let nets = section
        .value::<Vec<IpNet>>(key, "expected a list of prefixes, for example [\"10.2.0.0/16\"]")?;
    for net in nets.get_ref().iter().filter(|net| **net != net.trunc()) {
        let remedy = format!("write \"{}\"", net.trunc());
        section.report(key, nets.span(), &format!("{net} has bits set after its length"), &remedy);
    }
    Some(nets)
}

pub(super) fn esp(mut section: Section<'_, '_>) -> Esp {
    let tunnels = section.sections("tunnel").into_iter();
    let tunnels = tunnels.filter_map(|section| tunnel(section, true)).collect();
    let default = Esp::default();
    let esp = Esp {
        state_directory: section.path("state_directory").unwrap_or(default.state_directory),
        kernel: or(section.choice("kernel"), default.kernel),
        tunnels,
    };
    section.finish();
    esp
}

/// With the files of its keys, or without, where these come another way.
pub(super) fn tunnel(mut section: Section<'_, '_>, in_files: bool) -> Option<EspTunnel> {
    const ADDRESS: &str = "expected an address, for example \"192.0.2.1\"";
    let local = section.value::<IpAddr>("local", ADDRESS);
    let local = required(&section, "local", local, "\"192.0.2.1\"");
    let remote = section.value::<IpAddr>("remote", ADDRESS);
    let remote = required(&section, "remote", remote, "\"198.51.100.1\"");
    let remote_prefixes = prefixes(&mut section, "remote_prefixes");
    let remote_prefixes =
        required(&section, "remote_prefixes", remote_prefixes, "[\"10.2.0.0/16\"]");
    let local_prefixes = prefixes(&mut section, "local_prefixes");
    let clear_prefixes = prefixes(&mut section, "clear_prefixes");
    let algorithm = section.choice::<EspAlgorithm>("algorithm");
    let spi_out = section.number::<u32>("spi_out");
    let spi_out = required(&section, "spi_out", spi_out, "4097");
    let spi_in = section.number::<u32>("spi_in");
    let spi_in = required(&section, "spi_in", spi_in, "4098");
    let mut key_file = |key, example| {
        let file = section.value::<PathBuf>(key, "expected a path in quotes");
        match (in_files, file) {
            (true, file) => required(&section, key, file, example),
            (false, None) => Some(Spanned::new(0..0, PathBuf::new())),
            (false, Some(file)) => {
                let remedy = "remove it, or give no keys beside it";
                section.report(key, file.span(), "the keys were given another way", remedy);
                None
            }
        }
    };
    let key_file_out = key_file("key_file_out", "\"peer-out.key\"");
    let key_file_in = key_file("key_file_in", "\"peer-in.key\"");
    let window = section.number::<u32>("window");
    let extended = section.choice::<bool>("extended_sequence");
    let udp = section.choice::<bool>("udp");
    let mtu = section.number::<u16>("mtu");
    let df = section.choice::<EspDf>("df");
    if let (Some(local), Some(remote)) = (&local, &remote) {
        agree(&section, (local, remote), udp.as_ref());
    }
    if let Some(nets) = &remote_prefixes {
        if nets.get_ref().is_empty() {
            section.report(
                "remote_prefixes",
                nets.span(),
                "nothing goes through the tunnel",
                "name a prefix",
            );
        }
        let local = local_prefixes.as_ref().map_or(&[][..], |local| local.get_ref());
        let goes_in = |net: &IpNet| {
            let same = |one: &&IpNet| one.addr().is_ipv4() == net.addr().is_ipv4();
            let mut local = local.iter().filter(same).peekable();
            local.peek().is_none() || local.any(|one| one.prefix_len() == 0)
        };
        let all = nets.get_ref().iter().find(|net| net.prefix_len() == 0 && goes_in(net));
        if let Some(net) = all {
            let message = format!(
                "all packets to {net} would go through the tunnel, the router's own among them"
            );
            section.report(
                "local_prefixes",
                nets.span(),
                &message,
                "name the prefixes behind this router",
            );
        }
        let has_v6 = nets.get_ref().iter().any(|net| net.addr().is_ipv6());
        if let Some(mtu) = mtu.as_ref().filter(|mtu| has_v6 && *mtu.get_ref() < MTU_MIN_V6) {
            let message = "IPv6 packets of 1280 bytes would not fit";
            section.report("mtu", mtu.span(), message, &format!("use at least {MTU_MIN_V6}"));
        }
    }
    section.finish();
    Some(EspTunnel {
        local: local?.into_inner(),
        remote: remote?.into_inner(),
        remote_prefixes: remote_prefixes?.into_inner(),
        local_prefixes: or(local_prefixes, Vec::new()),
        clear_prefixes: or(clear_prefixes, Vec::new()),
        algorithm: or(algorithm, EspTunnel::default_algorithm()),
        spi_out: spi_out?.into_inner(),
        spi_in: spi_in?.into_inner(),
        key_file_out: key_file_out?.into_inner(),
        key_file_in: key_file_in?.into_inner(),
        window: or(window, EspTunnel::default_window()),
        extended_sequence: or(extended, false),
        udp: or(udp, false),
        mtu: or(mtu, EspTunnel::default_mtu()),
        df: or(df, EspTunnel::default_df()),
    })
}

fn agree(
    section: &Section<'_, '_>,
    (local, remote): (&Spanned<IpAddr>, &Spanned<IpAddr>),
    udp: Option<&Spanned<bool>>,
) {
    if local.get_ref().is_ipv4() != remote.get_ref().is_ipv4() {
        let message =
            format!("{} and {} are of two versions of IP", local.get_ref(), remote.get_ref());
        section.report("remote", remote.span(), &message, "use addresses of one version");
    }
    if let Some(udp) = udp.filter(|udp| *udp.get_ref() && local.get_ref().is_ipv6()) {
        let message = "ESP in UDP goes over IPv4 only";
        section.report("udp", udp.span(), message, "set udp = false");
    }
}

/// What tunnels ask of each other and of `apps`.
pub(super) fn check(root: &Section<'_, '_>, config: &Config) {
    let tunnels = &config.esp.tunnels;
    let is_used = config.apps().contains(&App::Esp);
    if !is_used && !tunnels.is_empty() {
        let message =
            "there are tunnels, but apps does not have \"esp\": their packets would leave in clear";
        root.report("router.apps", 0..0, message, "add \"esp\" to apps, or remove [[esp.tunnel]]");
    }
    for (number, port) in config.ports.iter().enumerate() {
        if is_used && port.path == PacketPath::Kernel {
            let message = "packets for tunnels would pass in clear: the kernel encrypts none";
            let field = format!("port[{number}].path");
            root.report(&field, 0..0, message, "use path = \"worker\" or \"auto\"");
        }
    }
    let (mut indices, mut prefixes) = (BTreeMap::new(), BTreeMap::new());
    for (number, tunnel) in tunnels.iter().enumerate() {
        if let Some(other) = indices.insert(tunnel.spi_in, number) {
            let message = format!("{} is already the index of tunnel[{other}]", tunnel.spi_in);
            root.report(
                &format!("esp.tunnel[{number}].spi_in"),
                0..0,
                &message,
                "give each its own",
            );
        }
        for net in tunnel.remote_prefixes.iter().filter(|_| tunnel.local_prefixes.is_empty()) {
            if let Some(other) = prefixes.insert(*net, number) {
                let message = format!("{net} already belongs to tunnel[{other}]");
                let field = format!("esp.tunnel[{number}].remote_prefixes");
                root.report(&field, 0..0, &message, "name it once, or give local_prefixes");
            }
        }
    }
}

impl Config {
    /// Whether tunnels come and go with the kernel's.
    pub fn follows_tunnels(&self) -> bool {
        self.esp.kernel && self.apps().contains(&App::Esp)
    }
}

impl Esp {
    /// Relative paths become relative to the configuration file's folder.
    pub(super) fn below(&mut self, folder: &Path) {
        self.state_directory = folder.join(&self.state_directory);
        self.tunnels.iter_mut().for_each(|tunnel| tunnel.below(folder));
    }

    /// The tunnels with their keys, read from their files.
    ///
    /// # Errors
    /// With the field and the remedy, when a file cannot be read, may be read by others, or holds no key of the
    /// algorithm's length. Nothing of a key is in the message.
    pub fn tunnels(&self) -> Result<Vec<Tunnel>> {
        let tunnels = self.tunnels.iter().enumerate().filter(|(_, tunnel)| tunnel.is_lasting());
        let tunnels: Vec<Tunnel> =
            tunnels.map(|(number, tunnel)| tunnel.with_keys(number)).collect::<Result<_>>()?;
        let directions = tunnels.iter().enumerate().flat_map(|(number, tunnel)| {
            let field = move |way| format!("esp.tunnel[{number}].key_file_{way}");
            [(field("out"), &tunnel.out.1), (field("in"), &tunnel.into.1)]
        });
        let keys: Vec<(String, &Key)> = directions.collect();
        for (at, (field, key)) in keys.iter().enumerate() {
            // Each use of a key has numbers of its own, which would be the same.
            if let Some((other, _)) = keys[..at].iter().find(|(_, other)| other == key) {
                anyhow::bail!(
                    "{field}: the key is that of {other}, too: make one for each direction of each tunnel \
                     (openssl rand -hex {})",
                    tunnels[at / 2].algorithm.key_len()
                );
            }
        }
        Ok(tunnels)
    }
}

impl EspTunnel {
    pub(super) fn below(&mut self, folder: &Path) {
        for file in [&mut self.key_file_out, &mut self.key_file_in] {
            *file = folder.join(&*file);
        }
    }

    /// Whether its keys stand in files: otherwise they were given while it ran.
    pub fn is_lasting(&self) -> bool {
        !self.key_file_out.as_os_str().is_empty()
    }

    /// With its keys, read from their files; `number` stands for it in messages.
    ///
    /// # Errors
    /// As [`Esp::tunnels`].
    pub fn with_keys(&self, number: usize) -> Result<Tunnel> {
        let algorithm = self.algorithm();
        let field = |name: &str| format!("esp.tunnel[{number}].{name}");
        let key = |name: &str, file: &Path| {
            read_key(file, algorithm)
                .with_context(|| format!("{}: cannot use {}", field(name), file.display()))
        };
        let out = key("key_file_out", &self.key_file_out)?;
        let into = key("key_file_in", &self.key_file_in)?;
        Ok(self.keyed(out, into))
    }

    /// How it encrypts.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm.known()
    }

    /// With these keys.
    pub fn keyed(&self, out: Key, into: Key) -> Tunnel {
        Tunnel {
            local: self.local,
            remote: self.remote,
            remote_prefixes: self.remote_prefixes.clone(),
            local_prefixes: self.local_prefixes.clone(),
            clear_prefixes: self.clear_prefixes.clone(),
            algorithm: self.algorithm(),
            out: (self.spi_out, out),
            into: (self.spi_in, into),
            window: self.window,
            extended_sequence: self.extended_sequence,
            udp: self.udp,
            mtu: self.mtu,
            df: self.df.known(),
        }
    }
}

fn read_key(file: &Path, algorithm: Algorithm) -> Result<Key> {
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;
    let open = std::fs::File::open(file)
        .with_context(|| format!("create the file: openssl rand -hex {}", algorithm.key_len()))?;
    let about = open.metadata().context("it cannot be examined")?;
    ensure!(about.is_file(), "it is not a file");
    // Of the opened file: another may have its name by now.
    ensure!(
        about.mode() & 0o007 == 0,
        "other users may read or change it: chmod o= {}",
        file.display()
    );
    ensure!(about.len() <= KEY_FILE_LEN_MAX, "it is too long to be a key in hexadecimal digits");
    let mut text = Zeroizing::new(String::with_capacity(KEY_FILE_LEN_MAX as usize + 1));
    open.take(KEY_FILE_LEN_MAX).read_to_string(&mut text).context("it cannot be read")?;
    Ok(Key::from_hex(&text, algorithm)?)
}
