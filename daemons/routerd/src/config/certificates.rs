//! What flow export over TLS needs: authorities, the router's certificate and its key, read from the files that the
//! configuration names, with the field in every error.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use zeroize::Zeroizing;

use super::application_types::{FlowExport, FlowTransport};

impl FlowExport {
    /// Relative paths become relative to the configuration file's folder.
    pub(super) fn below(&mut self, folder: &Path) {
        let pem = [&mut self.ca_file, &mut self.certificate_file, &mut self.key_file];
        for file in pem.into_iter().chain([&mut self.file]).flatten() {
            *file = folder.join(&*file);
        }
    }

    /// How a connection to the collector is secured, and by which name it must be known; nothing where it is not. Both
    /// ends show certificates (RFC 7011 section 11.1).
    ///
    /// # Errors
    /// With the field and the remedy, when a file cannot be read, does not hold what it should, or others may read the
    /// key. Nothing of the key is in the message.
    pub fn tls(&self) -> Result<Option<(Arc<ClientConfig>, ServerName<'static>)>> {
        let (Some(collector), FlowTransport::Tls) = (self.collector, self.transport) else {
            return Ok(None);
        };
        let name = match &self.collector_name {
            Some(name) => server_name(name)?,
            None => ServerName::IpAddress(collector.ip().into()),
        };
        let authorities = certificates("ca_file", self.ca_file.as_deref())?;
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| wrong("ca_file", error))?;
        }
        let chain = certificates("certificate_file", self.certificate_file.as_deref())?;
        let key = private_key(self.key_file.as_deref())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .context("ipfix.transport: TLS is not possible")?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)
            .map_err(|error| wrong("key_file", format!("{error}: it must be the certificate's")))?;
        Ok(Some((Arc::new(config), name)))
    }
}

/// A name as certificates have it: of DNS, or an address.
fn server_name(name: &str) -> Result<ServerName<'static>> {
    let problem = |_| anyhow!("ipfix.collector_name: {name:?} is neither a name nor an address");
    ServerName::try_from(name.to_owned()).map_err(problem)
}

fn wrong(field: &str, what: impl Display) -> anyhow::Error {
    anyhow!("ipfix.{field}: {what}")
}

fn named<'a>(field: &str, path: Option<&'a Path>) -> Result<&'a Path> {
    path.with_context(|| format!("ipfix.{field}: TLS needs it"))
}

/// Those of a file, one at least.
fn certificates(field: &str, path: Option<&Path>) -> Result<Vec<CertificateDer<'static>>> {
    let path = named(field, path)?;
    let text = std::fs::read(path).with_context(|| {
        format!("ipfix.{field}: cannot read {}: name a file of certificates in PEM", path.display())
    })?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| wrong(field, format!("{}: {error}", path.display())))?;
    ensure!(!found.is_empty(), "ipfix.{field}: {} holds no certificate in PEM", path.display());
    Ok(found)
}

fn private_key(path: Option<&Path>) -> Result<PrivateKeyDer<'static>> {
    let path = named("key_file", path)?;
    let text = ebb_host::secret::read_shared(path)
        .map_err(|error| wrong("key_file", format!("{error}: {}", error.remedy())))?;
    let text = Zeroizing::new(text);
    // The reader's own words might quote the file.
    let no_key = |_| wrong("key_file", format!("{} holds no private key in PEM", path.display()));
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(no_key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::*;

    fn made(directory: &Path) -> FlowExport {
        let file = |name: &str| Some(directory.join(name));
        FlowExport {
            collector: Some("192.0.2.9:4740".parse().expect("an address")),
            transport: FlowTransport::Tls,
            ca_file: file("ca.pem"),
            certificate_file: file("own.pem"),
            key_file: file("own.key"),
            ..FlowExport::default()
        }
    }

    /// A certificate of its own key: authority and router in one.
    fn self_signed(directory: &Path, key: &str, certificate: &str) {
        let (key, certificate) = (directory.join(key), directory.join(certificate));
        let made = std::process::Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
            ])
            .args(["-subj", "/CN=router", "-keyout"])
            .args([key.as_os_str(), "-out".as_ref(), certificate.as_os_str()])
            .output();
        assert!(made.expect("openssl").status.success());
    }

    #[test]
    fn each_file_that_will_not_do_is_named_with_its_field() {
        let directory = std::env::temp_dir().join(format!("ebb-tls-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        let place = |name: &str| directory.join(name);
        let said = |of: &FlowExport| format!("{:#}", of.tls().expect_err("refused"));
        let open = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(place("own.key"), permissions).expect("a mode");
        };
        let of = made(&directory);
        assert!(said(&of).contains("ipfix.ca_file: cannot read"), "{}", said(&of));
        std::fs::write(place("ca.pem"), "nothing\n").expect("written");
        assert!(said(&of).contains("holds no certificate in PEM"), "{}", said(&of));
        self_signed(&directory, "ca.key", "ca.pem");
        assert!(said(&of).contains("ipfix.certificate_file: cannot read"), "{}", said(&of));
        self_signed(&directory, "own.key", "own.pem");
        open(0o644);
        assert!(
            said(&of).contains("ipfix.key_file") && said(&of).contains("chmod"),
            "{}",
            said(&of)
        );
        open(0o600);
        assert!(of.tls().expect("all is well").is_some());
        let named = FlowExport { collector_name: Some("not a name".into()), ..of.clone() };
        assert!(said(&named).contains("ipfix.collector_name"), "{}", said(&named));
        std::fs::copy(place("ca.key"), place("own.key")).expect("another's key");
        assert!(said(&of).contains("it must be the certificate's"), "{}", said(&of));
        std::fs::write(place("own.key"), "secret words\n").expect("written");
        let words = said(&of);
        assert!(
            words.contains("holds no private key in PEM") && !words.contains("secret"),
            "{words}"
        );
        let without = FlowExport { ca_file: None::<PathBuf>, ..of };
        assert!(said(&without).contains("ipfix.ca_file: TLS needs it"));
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
