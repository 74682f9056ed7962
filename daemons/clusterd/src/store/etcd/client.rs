//! Questions to a member of etcd, over its JSON gateway, and what is wrong when there is no answer.

use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::time::Duration;

use ebb_host::secret::{self, SecretError};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::config::StoreConfig;
use crate::store::StoreError;

/// An answer that is late is none.
const PATIENCE: Duration = Duration::from_secs(1);
/// An answer without end is followed for so long.
const FOLLOW: Duration = Duration::from_secs(3);

/// Bytes of an answer at most: 64 values of 1.5 MiB in base64.
const ANSWER_MAX: u64 = 128 << 20;

/// How a connection ends that the other side has closed.
const CLOSED: [ErrorKind; 3] =
    [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof];

fn wrong(field: &str, what: impl std::fmt::Display, remedy: &str) -> StoreError {
    StoreError(format!("field `store.{field}`: {what}; {remedy}"))
}

fn pem(field: &str, path: &str) -> Result<Vec<u8>, StoreError> {
    std::fs::read(path).map_err(|error| {
        wrong(
            field,
            format!("cannot read {path}: {error}"),
            "give a PEM file that this user can read",
        )
    })
}

fn read_secret(
    field: &str,
    path: &str,
    read: fn(&Path) -> Result<String, SecretError>,
) -> Result<String, StoreError> {
    read(Path::new(path)).map_err(|error| wrong(field, &error, &error.remedy()))
}

/// One's way to etcd: the member that answered last, and a login where there is one.
#[derive(Clone)]
pub(super) struct Client {
    agent: ureq::Agent,
    /// Where answers do not end.
    follower: ureq::Agent,
    endpoints: Vec<String>,
    /// Name and password, and the token that they gave.
    login: Option<(String, String)>,
    token: Option<String>,
    /// Why a member did not answer the last question that another one answered: it may have done what was asked, too.
    pub(super) doubt: Option<StoreError>,
}

impl Client {
    /// Nothing is asked yet.
    ///
    /// # Errors
    /// When a file cannot be read or is no certificate, with field and remedy.
    pub(super) fn new(options: &StoreConfig) -> Result<Client, StoreError> {
        if options.endpoints.is_empty() {
            return Err(wrong("endpoints", "is empty", "for example [\"http://127.0.0.1:2379\"]"));
        }
        let tls = tls(options)?;
        let common = || ureq::Agent::config_builder().http_status_as_error(false);
        let agent = common().timeout_global(Some(PATIENCE)).tls_config(tls.clone()).build();
        let follower = common()
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_recv_body(Some(FOLLOW))
            .tls_config(tls)
            .build();
        let login = match (&options.user, &options.password_file) {
            (Some(user), Some(file)) => {
                let password = read_secret("password_file", file, secret::read)?;
                Some((user.clone(), password.trim_end_matches(['\r', '\n']).to_owned()))
            }
            (None, None) => None,
            _ => {
                return Err(wrong(
                    "user",
                    "`user` and `password_file` belong together",
                    "set both or none",
                ));
            }
        };
        Ok(Client {
            agent: agent.new_agent(),
            follower: follower.new_agent(),
            endpoints: options.endpoints.clone(),
            login,
            token: None,
            doubt: None,
        })
    }

    /// One question; the next member where one does not answer, a new token where the old has ended.
    pub(super) fn ask<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &Value,
    ) -> Result<T, StoreError> {
        let text = self.text(path, body)?;
        serde_json::from_str(&text).map_err(|error| {
            StoreError(format!(
                "cannot understand the answer of etcd at {}: {error}",
                self.endpoints[0]
            ))
        })
    }

    fn text(&mut self, path: &str, body: &Value) -> Result<String, StoreError> {
        let mut last = StoreError(String::new());
        self.doubt = None;
        for _ in 0..self.endpoints.len() {
            if self.login.is_some() && self.token.is_none() {
                match self.log_in() {
                    Ok(()) => {}
                    Err(error) => {
                        last = error;
                        self.endpoints.rotate_left(1);
                        continue;
                    }
                }
            }
            match self.post(path, body) {
                Ok((200, text)) => return Ok(text),
                Ok((status, text))
                    if self.token.is_some() && text.contains("invalid auth token") =>
                {
                    self.token = None;
                    last = StoreError(format!("etcd: status {status}: the login has expired"));
                    continue;
                }
                Ok((status, text)) => {
                    last = self.refused(status, &text);
                    self.doubt = Some(last.clone());
                }
                Err(error) => {
                    last = self.unreachable(&error);
                    if !has_heard_nothing(&error) {
                        self.doubt = Some(last.clone());
                    }
                }
            }
            self.endpoints.rotate_left(1);
        }
        Err(last)
    }

    fn send(
        &self,
        agent: &ureq::Agent,
        path: &str,
        body: &Value,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        let url = format!("{}/v3/{path}", self.endpoints[0].trim_end_matches('/'));
        let mut request = agent.post(&url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", token);
        }
        request.send(body.to_string())
    }

    fn post(&self, path: &str, body: &Value) -> Result<(u16, String), ureq::Error> {
        let mut response = self.send(&self.agent, path, body)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_MAX);
        Ok((status, body.read_to_string()?))
    }

    fn log_in(&mut self) -> Result<(), StoreError> {
        let (name, password) = self.login.clone().expect("asked for");
        let body = json!({ "name": name, "password": password });
        match self.post("auth/authenticate", &body) {
            Ok((200, text)) => {
                let answer: Value = serde_json::from_str(&text).unwrap_or_default();
                self.token = answer["token"].as_str().map(str::to_owned);
                Ok(())
            }
            Ok((status, _)) => {
                let what = format!("etcd rejected the login of {name} (status {status})");
                Err(wrong("user", what, "check name and password"))
            }
            Err(error) => Err(self.unreachable(&error)),
        }
    }

    fn refused(&self, status: u16, text: &str) -> StoreError {
        let said: Value = serde_json::from_str(text).unwrap_or_default();
        let message =
            said["message"].as_str().or(said["error"].as_str()).unwrap_or("no reason given");
        let (field, remedy) = if message.contains("user name is empty") || status == 401 {
            ("user", "etcd requires authentication: set `user` and `password_file`")
        } else if message.contains("permission denied") {
            ("user", "use one that may read and write below /ebb/cluster/")
        } else if message.contains("space exceeded") {
            let remedy = "run `etcdctl compact`, `defrag` and `alarm disarm`, and set etcd's \
                --auto-compaction-retention";
            ("endpoints", remedy)
        } else {
            ("endpoints", "check the health of etcd")
        };
        wrong(
            field,
            format!("{} rejected the request: {message} (status {status})", self.endpoints[0]),
            remedy,
        )
    }

    fn unreachable(&self, error: &ureq::Error) -> StoreError {
        let said = error.to_string();
        let lower = said.to_lowercase();
        // With TLS 1.3 a member refuses whoever asks only after the handshake: what arrives first is its
        // alert, or that it has closed the connection.
        let refused = lower.contains("fatal alert")
            || matches!(error, ureq::Error::Io(cause) if CLOSED.contains(&cause.kind()));
        let (field, remedy) = if refused && self.endpoints[0].starts_with("https:") {
            ("certificate", "use a certificate and `key` from an authority that etcd trusts")
        } else if lower.contains("certificate") || lower.contains("tls") {
            ("ca", "use the authority that signed etcd's certificates")
        } else {
            ("endpoints", "check that etcd runs and is reachable from here")
        };
        wrong(field, format!("cannot reach {}: {said}", self.endpoints[0]), remedy)
    }

    /// Hands each line of an answer without end to `see`, until it says no or some seconds are over.
    ///
    /// # Errors
    /// When the member that answered last does not any more.
    pub(super) fn follow(
        &self,
        path: &str,
        body: &Value,
        mut see: impl FnMut(&str) -> bool,
    ) -> Result<(), StoreError> {
        let response = self.send(&self.follower, path, body);
        let response = response.map_err(|error| self.unreachable(&error))?;
        for line in BufReader::new(response.into_body().into_reader()).lines() {
            match line {
                Ok(line) if see(&line) => {}
                Ok(_) => break,
                // The answer has no end; what ends it is the time.
                Err(error) if is_timeout(&error) => break,
                Err(error) => return Err(self.unreachable(&ureq::Error::Io(error))),
            }
        }
        Ok(())
    }
}

/// Whether a member was not even asked.
fn has_heard_nothing(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(cause) => cause.kind() == ErrorKind::ConnectionRefused,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
        _ => false,
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>());
    error.kind() == std::io::ErrorKind::TimedOut || matches!(inner, Some(ureq::Error::Timeout(_)))
}

fn tls(options: &StoreConfig) -> Result<TlsConfig, StoreError> {
    let certificates = |field: &str, path: &str| -> Result<Vec<Certificate<'static>>, StoreError> {
        let bytes = pem(field, path)?;
        let items = ureq::tls::parse_pem(&bytes).filter_map(|item| match item {
            Ok(ureq::tls::PemItem::Certificate(one)) => Some(one),
            _ => None,
        });
        let found: Vec<_> = items.collect();
        if found.is_empty() {
            return Err(wrong(
                field,
                format!("there is no certificate in {path}"),
                "expected a PEM file",
            ));
        }
        Ok(found)
    };
    let mut builder = TlsConfig::builder();
    if let Some(path) = &options.ca {
        builder = builder.root_certs(RootCerts::new_with_certs(&certificates("ca", path)?));
    }
    match (&options.certificate, &options.key) {
        (Some(certificate), Some(key)) => {
            let chain = certificates("certificate", certificate)?;
            let text = read_secret("key", key, secret::read_shared)?;
            let key = PrivateKey::from_pem(text.as_bytes()).map_err(|_| {
                wrong("key", format!("there is no private key in {key}"), "expected a PEM file")
            })?;
            builder = builder.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
        }
        (None, None) => {}
        _ => {
            return Err(wrong(
                "certificate",
                "`certificate` and `key` belong together",
                "set both or none",
            ));
        }
    }
    Ok(builder.build())
}
