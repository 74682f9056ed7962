use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ebb_cluster::{Snapshot, Write};
use ring::hmac;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::routes::{Routes, encode};

use super::{Store, StoreError};
use crate::config::StoreConfig;

/// A member's access to etcd (version 3.4 or later), by its JSON gateway.
pub struct Etcd {
    agent: ureq::Agent,
    endpoints: Vec<String>,
    /// Name and password, and the token that they gave.
    login: Option<(String, String)>,
    token: Option<String>,
    prefix: String,
    lease: Option<String>,
    length: Duration,
    /// What seals values.
    seal: Option<hmac::Key>,
}

/// An answer that is late is none.
const PATIENCE: Duration = Duration::from_secs(1);

fn wrong(field: &str, what: impl std::fmt::Display, remedy: &str) -> StoreError {
    StoreError(format!("field `store.{field}`: {what}; {remedy}"))
}

fn pem(field: &str, path: &str) -> Result<Vec<u8>, StoreError> {
    std::fs::read(path).map_err(|error| {
        wrong(
            field,
            format!("{path} cannot be read: {error}"),
            "a PEM file that this user may read",
        )
    })
}

impl Etcd {
    /// For the cluster called `name`, with a lease of `length`, at least two seconds, which is the least
    /// that etcd grants. Nothing is asked yet.
    ///
    /// # Errors
    /// When a file cannot be read or is no certificate, with field and remedy.
    pub fn new(options: &StoreConfig, name: &str, length: Duration) -> Result<Etcd, StoreError> {
        if options.endpoints.is_empty() {
            return Err(wrong("endpoints", "there is none", "such as [\"http://127.0.0.1:2379\"]"));
        }
        let tls = tls(options)?;
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .tls_config(tls)
            .build();
        let login = match (&options.user, &options.password_file) {
            (Some(user), Some(file)) => {
                let password = std::fs::read_to_string(file).map_err(|error| {
                    let what = format!("{file} cannot be read: {error}");
                    wrong("password_file", what, "a file with the password alone")
                })?;
                Some((user.clone(), password.trim_end_matches(['\r', '\n']).to_owned()))
            }
            (None, None) => None,
            _ => {
                return Err(wrong(
                    "user",
                    "is without `password_file`, or the other way round",
                    "both or none",
                ));
            }
        };
        Ok(Etcd {
            agent: config.new_agent(),
            endpoints: options.endpoints.clone(),
            login,
            token: None,
            prefix: format!("/ebb/cluster/{name}/"),
            lease: None,
            length,
            seal: None,
        })
    }

    /// With what one must know to join: values are sealed with it, and others are not believed.
    #[must_use]
    pub fn with_token(mut self, token: Option<&[u8]>) -> Etcd {
        self.seal = token.map(|token| hmac::Key::new(hmac::HMAC_SHA256, token));
        self
    }

    /// A value as it is kept: with the seal of itself under its key, where there is a token.
    fn sealed(&self, rest: &str, value: &str) -> String {
        let Some(key) = &self.seal else { return value.to_owned() };
        let tag = hmac::sign(key, format!("{rest}\0{value}").as_bytes());
        format!("{}:{value}", STANDARD.encode(tag.as_ref()))
    }

    fn unsealed(&self, rest: &str, kept: &str) -> Result<String, StoreError> {
        let remedy = "the token of those that run already";
        let tagged = kept.split_once(':').filter(|(tag, _)| tag.len() == 44);
        match (&self.seal, tagged) {
            (None, None) => Ok(kept.to_owned()),
            (None, Some(_)) => {
                let what = format!("{rest} of the cluster is sealed, and there is no token");
                Err(StoreError(format!("field `cluster.token_file`: {what}; {remedy}")))
            }
            (Some(key), tagged) => {
                let good = tagged.filter(|(tag, value)| {
                    let tag = STANDARD.decode(tag).unwrap_or_default();
                    hmac::verify(key, format!("{rest}\0{value}").as_bytes(), &tag).is_ok()
                });
                good.map(|(_, value)| value.to_owned()).ok_or_else(|| {
                    let what = format!("{rest} of the cluster is not sealed with this token");
                    StoreError(format!("field `cluster.token_file`: {what}; {remedy}"))
                })
            }
        }
    }

    /// The version that a member says it is.
    ///
    /// # Errors
    /// When none answers.
    pub fn version(&mut self) -> Result<String, StoreError> {
        let answer: Value = self.ask("maintenance/status", &json!({}))?;
        Ok(answer["version"].as_str().unwrap_or("unknown").to_owned())
    }

    /// One question; the next member where one does not answer, a new token where the old has ended.
    fn ask<T: DeserializeOwned>(&mut self, path: &str, body: &Value) -> Result<T, StoreError> {
        let text = self.text(path, body)?;
        serde_json::from_str(&text).map_err(|error| {
            StoreError(format!(
                "etcd at {} answers no JSON that is known: {error}",
                self.endpoints[0]
            ))
        })
    }

    fn text(&mut self, path: &str, body: &Value) -> Result<String, StoreError> {
        let mut last = StoreError(String::new());
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
                    last = StoreError(format!("etcd: status {status}: the token has ended"));
                    continue;
                }
                Ok((status, text)) => {
                    last = self.refused(status, &text);
                }
                Err(error) => last = self.unreachable(&error),
            }
            self.endpoints.rotate_left(1);
        }
        Err(last)
    }

    fn post(&self, path: &str, body: &Value) -> Result<(u16, String), ureq::Error> {
        let url = format!("{}/v3/{path}", self.endpoints[0].trim_end_matches('/'));
        let mut request = self.agent.post(&url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", token);
        }
        let mut response = request.send(body.to_string())?;
        let status = response.status().as_u16();
        Ok((status, response.body_mut().read_to_string()?))
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
                let what = format!("{name} is refused (status {status})");
                Err(wrong("user", what, "name and password of a user of etcd"))
            }
            Err(error) => Err(self.unreachable(&error)),
        }
    }

    fn refused(&self, status: u16, text: &str) -> StoreError {
        let said: Value = serde_json::from_str(text).unwrap_or_default();
        let message = said["message"].as_str().or(said["error"].as_str()).unwrap_or("no reason");
        let (field, remedy) = if message.contains("user name is empty") || status == 401 {
            ("user", "a user and its `password_file`: authentication is on")
        } else if message.contains("permission denied") {
            ("user", "one that may read and write below /ebb/cluster/")
        } else {
            ("endpoints", "members that are well")
        };
        wrong(field, format!("{} refuses: {message} (status {status})", self.endpoints[0]), remedy)
    }

    fn unreachable(&self, error: &ureq::Error) -> StoreError {
        let said = error.to_string();
        let lower = said.to_lowercase();
        let (field, remedy) = if lower.contains("certificate") || lower.contains("tls") {
            (
                "ca",
                "the authority that signed the members' certificates, and a `certificate` that they take",
            )
        } else {
            ("endpoints", "members that run and can be reached from here")
        };
        wrong(field, format!("{} cannot be asked: {said}", self.endpoints[0]), remedy)
    }

    fn key(&self, rest: &str) -> String {
        STANDARD.encode(format!("{}{rest}", self.prefix))
    }

    /// Beside what a snapshot reads, which is asked for far more often.
    fn routes_key(&self) -> String {
        STANDARD.encode(format!("{}.routes", self.prefix.trim_end_matches('/')))
    }

    /// What a conditional write asks of etcd.
    fn transaction(&self, write: &Write) -> Value {
        let put = |rest: &str, value: String| {
            let value = STANDARD.encode(self.sealed(rest, &value));
            json!({ "requestPut": { "key": self.key(rest), "value": value } })
        };
        let gone = |rest: &str| json!({ "requestDeleteRange": { "key": self.key(rest) } });
        let text = |value: Result<String, serde_json::Error>| value.expect("numbers and names");
        match write {
            Write::Head { owner } => {
                let mut put = put("head", owner.clone());
                put["requestPut"]["lease"] = json!(self.lease.as_deref().unwrap_or("0"));
                let absent =
                    json!({ "target": "CREATE", "key": self.key("head"), "createRevision": "0" });
                json!({ "compare": [absent], "success": [put] })
            }
            Write::Book { book, term, after } => {
                let mine = json!({ "target": "CREATE", "key": self.key("head"), "createRevision": term.to_string() });
                let unchanged = json!({ "target": "MOD", "key": self.key("book"), "modRevision": after.to_string() });
                let put = put("book", text(serde_json::to_string(book)));
                json!({ "compare": [mine, unchanged], "success": [put] })
            }
            Write::Acknowledge { balancer, acknowledgement } => {
                let value = text(serde_json::to_string(acknowledgement));
                json!({ "success": [put(&format!("balancers/{balancer}"), value)] })
            }
            Write::Report { member, report } => {
                let value = text(serde_json::to_string(report));
                json!({ "success": [put(&format!("members/{member}"), value)] })
            }
            Write::Hold { member, hold: true } => {
                json!({ "success": [put(&format!("held/{member}"), "held".to_owned())] })
            }
            Write::Hold { member, hold: false } => {
                json!({ "success": [gone(&format!("held/{member}"))] })
            }
            Write::Leave { balancer } => {
                json!({ "success": [gone(&format!("balancers/{balancer}"))] })
            }
        }
    }
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
            return Err(wrong(field, format!("{path} holds no certificate"), "a PEM file"));
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
            let bytes = pem("key", key)?;
            let key = PrivateKey::from_pem(&bytes)
                .map_err(|_| wrong("key", format!("{key} holds no private key"), "a PEM file"))?;
            builder = builder.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
        }
        (None, None) => {}
        _ => {
            return Err(wrong(
                "certificate",
                "is without `key`, or the other way round",
                "both or none",
            ));
        }
    }
    Ok(builder.build())
}

#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<Pair>,
}

/// Numbers of 64 bits are text in JSON; those that are 0 are left out.
#[derive(Deserialize)]
struct Pair {
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    create_revision: String,
    #[serde(default)]
    mod_revision: String,
}

#[derive(Deserialize)]
struct Done {
    #[serde(default)]
    succeeded: bool,
}

impl Store for Etcd {
    fn renew(&mut self) -> Result<bool, StoreError> {
        if let Some(lease) = &self.lease {
            let answer: Value = self.ask("lease/keepalive", &json!({ "ID": lease.clone() }))?;
            let left = answer["result"]["TTL"].as_str().unwrap_or("0");
            if left.parse::<u64>().unwrap_or(0) > 0 {
                return Ok(true);
            }
        }
        let seconds = self.length.as_secs().max(2).to_string();
        let answer: Value = self.ask("lease/grant", &json!({ "TTL": seconds, "ID": "0" }))?;
        self.lease = answer["ID"].as_str().map(str::to_owned);
        Ok(false)
    }

    fn snapshot(&mut self) -> Result<Snapshot, StoreError> {
        let end = {
            let mut end = self.prefix.clone().into_bytes();
            *end.last_mut().expect("a prefix") += 1;
            STANDARD.encode(end)
        };
        let range: Range =
            self.ask("kv/range", &json!({ "key": self.key(""), "range_end": end }))?;
        let mut snapshot = Snapshot::default();
        let mut pairs = BTreeMap::new();
        for pair in range.kvs {
            let decoded = |text: &str| {
                let bytes = STANDARD.decode(text).unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            };
            let name = decoded(&pair.key);
            let rest = name.strip_prefix(&self.prefix).unwrap_or_default().to_owned();
            let value = self.unsealed(&rest, &decoded(&pair.value))?;
            pairs.insert(rest, (value, pair.create_revision, pair.mod_revision));
        }
        for (name, (value, created, changed)) in pairs {
            let unknown = |error: serde_json::Error| {
                StoreError(format!(
                    "key {}{name} of etcd holds what no cluster wrote: {error}",
                    self.prefix
                ))
            };
            let number = |text: &str| text.parse::<u64>().unwrap_or(0);
            match name.split_once('/') {
                None if name == "head" => snapshot.head = Some((value, number(&created))),
                None if name == "book" => {
                    let book = serde_json::from_str(&value).map_err(unknown)?;
                    snapshot.book = Some((book, number(&changed)));
                }
                Some(("balancers", balancer)) => {
                    let said = serde_json::from_str(&value).map_err(unknown)?;
                    snapshot.balancers.insert(balancer.to_owned(), said);
                }
                Some(("members", member)) => {
                    let said = serde_json::from_str(&value).map_err(unknown)?;
                    snapshot.members.insert(member.to_owned(), said);
                }
                Some(("held", member)) => _ = snapshot.held.insert(member.to_owned()),
                _ => {}
            }
        }
        Ok(snapshot)
    }

    fn write(&mut self, write: &Write) -> Result<bool, StoreError> {
        let transaction = self.transaction(write);
        let done: Done = self.ask("kv/txn", &transaction)?;
        Ok(done.succeeded)
    }

    fn routes(&mut self, known: u64) -> Result<Option<(u64, Routes)>, StoreError> {
        let key = self.routes_key();
        // Their revision alone costs little to ask for.
        let range: Range = self.ask("kv/range", &json!({ "key": key, "keys_only": true }))?;
        let number = |pair: &Pair| pair.mod_revision.parse::<u64>().unwrap_or(0);
        if range.kvs.first().map_or(0, number) == known {
            return Ok(None);
        }
        let range: Range = self.ask("kv/range", &json!({ "key": key }))?;
        let Some(pair) = range.kvs.first() else { return Ok(Some((0, Routes::new()))) };
        let bytes = STANDARD.decode(&pair.value).unwrap_or_default();
        let value = self.unsealed("routes", &String::from_utf8_lossy(&bytes))?;
        let routes = serde_json::from_str(&value).map_err(|error| {
            StoreError(format!("the routes in etcd are none that a cluster wrote: {error}"))
        })?;
        Ok(Some((number(pair), routes)))
    }

    fn publish(&mut self, routes: &Routes, writes: u64) -> Result<bool, StoreError> {
        let value = STANDARD.encode(self.sealed("routes", &encode(routes)));
        let same =
            json!({ "target": "MOD", "key": self.key("book"), "modRevision": writes.to_string() });
        let put = json!({ "requestPut": { "key": self.routes_key(), "value": value } });
        let done: Done = self.ask("kv/txn", &json!({ "compare": [same], "success": [put] }))?;
        Ok(done.succeeded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::EtcdServer;
    use ebb_cluster::{Acknowledgement, Book, MemberReport};

    #[test]
    fn what_is_wrong_names_its_field() {
        let refused = |options: StoreConfig| {
            Etcd::new(&options, "test", PATIENCE).err().expect("refused").to_string()
        };
        let endpoints = vec!["http://127.0.0.1:1".to_owned()];
        let good = StoreConfig { endpoints, ..StoreConfig::default() };
        assert!(refused(StoreConfig::default()).starts_with("field `store.endpoints`"));
        let text = |text: &str| Some(text.to_owned());
        let lone = StoreConfig { certificate: text("/nowhere"), ..good.clone() };
        assert!(refused(lone).starts_with("field `store.certificate`"));
        let absent = StoreConfig { ca: text("/nowhere"), ..good.clone() };
        assert!(refused(absent).starts_with("field `store.ca`: /nowhere cannot be read"));
        let mut nobody = Etcd::new(&good, "test", PATIENCE).expect("nothing is asked yet");
        let said = nobody.snapshot().expect_err("nobody is there").to_string();
        assert!(said.starts_with("field `store.endpoints`: http://127.0.0.1:1 cannot"), "{said}");
    }

    #[test]
    fn one_head_and_only_it_writes_the_book() {
        if !EtcdServer::installed() {
            assert!(std::env::var_os("CI").is_none(), "CI must have etcd (Debian: etcd-server)");
            eprintln!("skipped: etcd is not installed");
            return;
        }
        let place = std::env::temp_dir().join(format!("ebb-etcd-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("a directory");
        let server = EtcdServer::start(&place).expect("etcd starts");
        let length = Duration::from_secs(2);
        let member = || Etcd::new(&server.options(), "test", length).expect("options");
        let (mut one, mut two) = (member(), member());
        let office = |owner: &str| Write::Head { owner: owner.to_owned() };
        assert!(!one.renew().expect("answers") && one.renew().expect("answers"));
        two.renew().expect("answers");
        assert!(one.write(&office("one")).expect("answers"));
        assert!(!two.write(&office("two")).expect("answers"));
        let (owner, term) = two.snapshot().expect("answers").head.expect("a head");
        assert_eq!(owner, "one");
        let book = Book { version: 1, ..Book::default() };
        let write = |term, after| Write::Book { book: book.clone(), term, after };
        assert!(!two.write(&write(term + 1, 0)).expect("answers"), "no such term");
        assert!(one.write(&write(term, 0)).expect("answers"));
        assert!(!one.write(&write(term, 0)).expect("answers"), "somebody has written since");
        let said = Acknowledgement { version: 1, load_pps: 2.5, ..Acknowledgement::default() };
        let report = MemberReport { up: true, version: 1 };
        let acknowledge =
            Write::Acknowledge { balancer: "b".to_owned(), acknowledgement: said.clone() };
        assert!(one.write(&acknowledge).expect("answers"));
        assert!(one.write(&Write::Report { member: "r".to_owned(), report }).expect("answers"));
        let seen = two.snapshot().expect("answers");
        assert_eq!((&seen.balancers["b"], seen.members["r"]), (&said, report));
        assert_eq!(seen.book.as_ref().expect("a book").0, book);
        let routes = Routes::from([("192.0.2.0/24".parse().expect("a network"), Vec::new())]);
        let writes = seen.book.expect("a book").1;
        assert_eq!(two.routes(0).expect("answers"), None);
        assert!(!one.publish(&routes, writes + 1).expect("answers"), "no such book");
        assert!(one.publish(&routes, writes).expect("answers"));
        let (revision, found) = two.routes(0).expect("answers").expect("published");
        assert_eq!((found, two.routes(revision).expect("answers")), (routes, None));
        for (hold, held) in [(true, 1), (false, 0)] {
            let write = Write::Hold { member: "r".to_owned(), hold };
            assert!(one.write(&write).expect("answers"));
            assert_eq!(two.snapshot().expect("answers").held.len(), held);
        }
        assert!(one.write(&Write::Leave { balancer: "b".to_owned() }).expect("answers"));
        assert!(two.snapshot().expect("answers").balancers.is_empty());
        // Whoever has another token, or none, is told so; nothing is believed from them.
        let with = |token: &[u8]| {
            Etcd::new(&server.options(), "sealed", length).expect("options").with_token(Some(token))
        };
        let (mut ours, mut theirs, mut none) = (
            with(b"ours"),
            with(b"theirs"),
            Etcd::new(&server.options(), "sealed", length).expect("options"),
        );
        ours.write(&Write::Report { member: "r".to_owned(), report }).expect("answers");
        assert_eq!(ours.snapshot().expect("its own").members["r"], report);
        for other in [&mut theirs, &mut none] {
            let said = other.snapshot().expect_err("refused").to_string();
            assert!(said.starts_with("field `cluster.token_file`: members/r"), "{said}");
        }
        none.write(&Write::Report { member: "r".to_owned(), report }).expect("answers");
        assert!(ours.snapshot().is_err(), "not sealed");
        // Nobody keeps the first lease alive: the office falls vacant.
        for _ in 0..100 {
            two.renew().expect("answers");
            if two.write(&office("two")).expect("answers") {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let (owner, next) = two.snapshot().expect("answers").head.expect("a head");
        assert!(owner == "two" && next > term);
        drop(server);
        std::fs::remove_dir_all(&place).expect("removed");
    }
}
