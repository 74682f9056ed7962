//! What a running router is asked on its socket, beside what every daemon is ([`ebb_service`]).

use std::net::IpAddr;
use std::path::PathBuf;

use ebb_capture::{Filter, Instruction};
use ebb_graph::DropReason;
use ebb_service::RequestError;
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::tap::CapturePoint;

/// What a client can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `{"get":"config"}`: the configuration in force.
    Config,
    /// `{"get":"routes"}`: the forwarding table, or the part of it inside a prefix.
    Routes {
        /// `"prefix":"10.0.0.0/8"`
        prefix: Option<IpNet>,
        /// `"limit":1000`: most entries to list.
        limit: usize,
    },
    /// `{"get":"neighbours"}`: the neighbours known.
    Neighbours,
    /// `{"get":"next_hops"}`: next hops with what left through them.
    NextHops,
    /// `{"get":"lookup","address":"10.0.0.1"}`: what happens to packets for an address.
    Lookup {
        /// The address.
        address: IpAddr,
    },
    /// `{"set":{"mode":"napi"}}`: another policy.
    SetMode(String),
    /// `{"reload":{}}`: the configuration file is read again.
    Reload,
    /// `{"upgrade":{}}`: another program takes over while packets flow.
    Upgrade {
        /// `"program":"/usr/local/bin/ebb"`; absent: the one that runs, as it is on disk by now.
        program: Option<PathBuf>,
    },
    /// `{"get":"tunnels"}`: tunnels with fixed keys, without these.
    Tunnels,
    /// `{"add_tunnel":{"text":"[[esp.tunnel]]…","folder":"/etc/ebb"}}`: a tunnel more, whose keys stand in files; or in
    /// place of `folder` `"key_out"` and `"key_in"`, in hexadecimal.
    AddTunnel(AddTunnel),
    /// `{"remove_tunnel":{"spi_in":4098}}`
    RemoveTunnel {
        /// Index of what it receives.
        spi_in: u32,
    },
    /// `{"explain":{"port":"eth1","frame":"0200…"}}`: what would become of a frame.
    Explain {
        /// The port that would receive it, by name.
        port: String,
        /// The frame, in hexadecimal; a destination of six zero bytes stands for the port's own address.
        frame: Vec<u8>,
    },
    /// `{"capture":{"port":"eth1","count":100}}`: packets of a port.
    Capture {
        /// The port's name.
        port: String,
        /// How many packets, 1 to 100,000.
        count: u32,
        /// `"place":"received"`, `"transmitted"` or `"dropped"`; for the last, `"reason"` names one
        /// reason ([`DropReason::name`]).
        place: CapturePoint,
        /// `"filter":[[40,0,0,12],...]`: classic BPF, code, two jumps and constant of each
        /// instruction; absent: all packets.
        filter: Option<Filter>,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    get: Option<Get>,
    prefix: Option<IpNet>,
    limit: Option<usize>,
    address: Option<IpAddr>,
    set: Option<Set>,
    reload: Option<Reload>,
    upgrade: Option<Upgrade>,
    capture: Option<Capture>,
    explain: Option<Explain>,
    add_tunnel: Option<AddTunnel>,
    remove_tunnel: Option<RemoveTunnel>,
}

/// A tunnel to be added.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct AddTunnel {
    /// As a configuration has it: `[[esp.tunnel]]` and its fields.
    pub text: String,
    /// To which paths in it are relative.
    pub folder: Option<PathBuf>,
    /// In place of files.
    pub key_out: Option<Digits>,
    /// In place of files.
    pub key_in: Option<Digits>,
}

/// A key's digits: wiped, and never shown.
#[derive(Clone, Deserialize, PartialEq, Eq)]
#[serde(from = "String")]
pub struct Digits(pub Zeroizing<String>);

impl From<String> for Digits {
    fn from(digits: String) -> Digits {
        Digits(Zeroizing::new(digits))
    }
}

impl std::fmt::Debug for Digits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Digits(not shown)")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveTunnel {
    spi_in: u32,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Get {
    Config,
    Routes,
    Neighbours,
    NextHops,
    Lookup,
    Tunnels,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    mode: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reload {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Upgrade {
    program: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Explain {
    port: String,
    frame: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Capture {
    port: String,
    count: u32,
    place: Option<Where>,
    reason: Option<String>,
    filter: Option<Vec<(u16, u8, u8, u32)>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Where {
    Received,
    Transmitted,
    Dropped,
}

impl Command {
    /// Understands one request.
    ///
    /// # Errors
    /// When it is none; what is wrong is said for the client to read.
    pub fn read(fields: Map<String, Value>) -> Result<Command, RequestError> {
        of_raw(Raw::deserialize(Value::Object(fields))?)
    }
}

fn of_raw(raw: Raw) -> Result<Command, RequestError> {
    let invalid = |message: &str| Err(RequestError::Invalid(message.to_owned()));
    if (raw.prefix.is_some() || raw.limit.is_some()) && raw.get != Some(Get::Routes) {
        return invalid("`prefix` and `limit` belong to {\"get\":\"routes\"}");
    }
    if raw.address.is_some() != (raw.get == Some(Get::Lookup)) {
        return invalid("`address` belongs to {\"get\":\"lookup\"}");
    }
    let requests = [
        raw.get.is_some(),
        raw.set.is_some(),
        raw.reload.is_some(),
        raw.upgrade.is_some(),
        raw.capture.is_some(),
        raw.explain.is_some(),
        raw.add_tunnel.is_some(),
        raw.remove_tunnel.is_some(),
    ];
    let requests = requests.into_iter().filter(|is_there| *is_there).count();
    if let Some(explain) = raw.explain {
        return if requests == 1 { of_explain(explain) } else { invalid(EXACTLY_ONE) };
    }
    match (raw.add_tunnel, raw.remove_tunnel) {
        (None, None) => {}
        _ if requests != 1 => return invalid(EXACTLY_ONE),
        (Some(tunnel), _) => return of_tunnel(tunnel),
        (_, Some(RemoveTunnel { spi_in })) => return Ok(Command::RemoveTunnel { spi_in }),
    }
    match (raw.get, raw.set, raw.reload, raw.upgrade, raw.capture) {
        (Some(get), None, None, None, None) => Ok(match get {
            Get::Config => Command::Config,
            Get::Neighbours => Command::Neighbours,
            Get::NextHops => Command::NextHops,
            Get::Tunnels => Command::Tunnels,
            Get::Routes => Command::Routes { prefix: raw.prefix, limit: raw.limit.unwrap_or(1000) },
            Get::Lookup => match raw.address {
                Some(address) => Command::Lookup { address },
                None => return invalid("`address` is missing"),
            },
        }),
        (None, Some(set), None, None, None) => Ok(Command::SetMode(set.mode)),
        (None, None, Some(Reload {}), None, None) => Ok(Command::Reload),
        (None, None, None, Some(Upgrade { program }), None) => match program {
            Some(program) if !program.is_absolute() => {
                invalid("`program` must be an absolute path")
            }
            program => Ok(Command::Upgrade { program }),
        },
        (None, None, None, None, Some(capture)) => of_capture(capture),
        _ => invalid(EXACTLY_ONE),
    }
}

const EXACTLY_ONE: &str = "expected exactly one of `get`, `set`, `reload`, `upgrade`, `capture`, `explain`, `add_tunnel`, `remove_tunnel`";
/// Longest frame that is explained: the kernel runs programs on what a page holds beside its own.
const FRAME_MAX: usize = 3_600;

fn of_tunnel(tunnel: AddTunnel) -> Result<Command, RequestError> {
    let invalid = |message: &str| Err(RequestError::Invalid(message.to_owned()));
    let given = tunnel.key_out.is_some();
    if given != tunnel.key_in.is_some() {
        return invalid("`key_out` and `key_in` belong together");
    }
    match &tunnel.folder {
        Some(_) if given => invalid("expected either `folder` or keys"),
        None if !given => invalid("expected `folder` or keys"),
        Some(folder) if !folder.is_absolute() => invalid("`folder` must be an absolute path"),
        _ => Ok(Command::AddTunnel(tunnel)),
    }
}

fn of_explain(Explain { port, frame }: Explain) -> Result<Command, RequestError> {
    let invalid = |message: String| Err(RequestError::Invalid(message));
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    let bytes: Option<Vec<u8>> = frame.as_bytes().chunks(2).map(pair).collect();
    match bytes {
        Some(frame) if (14..=FRAME_MAX).contains(&frame.len()) => {
            Ok(Command::Explain { port, frame })
        }
        Some(frame) => {
            invalid(format!("`frame` has {} bytes; expected 14 to {FRAME_MAX}", frame.len()))
        }
        None => invalid("`frame` is no hexadecimal number of whole bytes".into()),
    }
}

fn of_capture(capture: Capture) -> Result<Command, RequestError> {
    let Capture { port, count, place, reason, filter } = capture;
    let invalid = |message: String| Err(RequestError::Invalid(message));
    if !(1..=100_000).contains(&count) {
        return invalid("`count` must be from 1 to 100000".into());
    }
    let place = match (place, reason) {
        (None | Some(Where::Received), None) => CapturePoint::Received,
        (Some(Where::Transmitted), None) => CapturePoint::Transmitted,
        (Some(Where::Dropped), None) => CapturePoint::Dropped(None),
        (Some(Where::Dropped), Some(name)) => {
            match DropReason::ALL.iter().find(|reason| reason.name() == name) {
                Some(reason) => CapturePoint::Dropped(Some(*reason)),
                None => {
                    let names: Vec<_> = DropReason::ALL.iter().map(|one| one.name()).collect();
                    return invalid(format!(
                        "unknown reason {name:?}; expected one of {}",
                        names.join(", ")
                    ));
                }
            }
        }
        _ => return invalid("`reason` belongs to {\"place\":\"dropped\"}".into()),
    };
    let instruction =
        |(code, jump_true, jump_false, k)| Instruction { code, jump_true, jump_false, k };
    let filter = filter.map(|lines| Filter::new(lines.into_iter().map(instruction).collect()));
    match filter.transpose() {
        Ok(filter) => Ok(Command::Capture { port, count, place, filter }),
        Err(error) => invalid(format!("`filter`: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use ebb_service::{Request, parse_request};
    use proptest::prelude::*;

    use super::*;

    fn command(text: &str) -> Result<Command, RequestError> {
        match parse_request(text.as_bytes())? {
            Request::Command(fields) => Command::read(fields),
            other => Err(RequestError::Invalid(format!("{other:?}"))),
        }
    }

    #[test]
    fn every_command_has_its_request() {
        let table = [
            (r#"{"get":"config"}"#, Command::Config),
            (r#"{"get":"neighbours"}"#, Command::Neighbours),
            (r#"{"get":"next_hops"}"#, Command::NextHops),
            (r#"{"get":"routes"}"#, Command::Routes { prefix: None, limit: 1000 }),
            (
                r#"{"get":"routes","prefix":"10.0.0.0/8","limit":3}"#,
                Command::Routes { prefix: "10.0.0.0/8".parse().ok(), limit: 3 },
            ),
            (
                r#"{"get":"lookup","address":"2001:db8::1"}"#,
                Command::Lookup { address: "2001:db8::1".parse().unwrap() },
            ),
            (r#"{"get":"tunnels"}"#, Command::Tunnels),
            (r#"{"remove_tunnel":{"spi_in":4098}}"#, Command::RemoveTunnel { spi_in: 4098 }),
            (
                r#"{"add_tunnel":{"text":"a","folder":"/etc/ebb"}}"#,
                Command::AddTunnel(AddTunnel {
                    text: "a".into(),
                    folder: Some("/etc/ebb".into()),
                    key_out: None,
                    key_in: None,
                }),
            ),
            (r#"{"set":{"mode":"napi"}}"#, Command::SetMode("napi".into())),
            (r#"{"reload":{}}"#, Command::Reload),
            (r#"{"upgrade":{}}"#, Command::Upgrade { program: None }),
            (
                r#"{"upgrade":{"program":"/opt/ebb"}}"#,
                Command::Upgrade { program: Some("/opt/ebb".into()) },
            ),
            (
                r#"{"capture":{"port":"eth1","count":5}}"#,
                Command::Capture {
                    port: "eth1".into(),
                    count: 5,
                    place: CapturePoint::Received,
                    filter: None,
                },
            ),
            (
                r#"{"capture":{"port":"eth1","count":5,"place":"dropped","reason":"no_route","filter":[[6,0,0,1]]}}"#,
                Command::Capture {
                    port: "eth1".into(),
                    count: 5,
                    place: CapturePoint::Dropped(Some(DropReason::NoRoute)),
                    filter: Filter::new(vec![Instruction {
                        code: 6,
                        jump_true: 0,
                        jump_false: 0,
                        k: 1,
                    }])
                    .ok(),
                },
            ),
        ];
        for (text, meant) in table {
            assert_eq!(command(text).expect(text), meant);
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for text in [
            "{\"get\":\"Status\"}",
            "{\"get\":\"status\",\"prefix\":\"10.0.0.0/8\"}",
            "{\"get\":\"lookup\"}",
            "{\"get\":\"lookup\",\"address\":\"x\"}",
            "{\"get\":\"status\",\"reload\":{}}",
            "{\"set\":{}}",
            "{\"set\":{\"mode\":\"napi\",\"cores\":3}}",
            "{\"add_tunnel\":{\"text\":\"a\"}}",
            "{\"add_tunnel\":{\"text\":\"a\",\"folder\":\"etc\"}}",
            "{\"add_tunnel\":{\"text\":\"a\",\"key_out\":\"00\"}}",
            "{\"add_tunnel\":{\"text\":\"a\",\"folder\":\"/\"},\"reload\":{}}",
            "{\"remove_tunnel\":{}}",
            "{\"reload\":1}",
            "{\"upgrade\":{\"program\":\"ebb\"}}",
            "{\"capture\":{\"port\":\"eth1\",\"count\":0}}",
            "{\"capture\":{\"port\":\"eth1\",\"count\":-1}}",
            "{\"capture\":{\"port\":\"eth1\",\"count\":1,\"reason\":\"no_route\"}}",
            "{\"capture\":{\"port\":\"eth1\",\"count\":1,\"place\":\"dropped\",\"reason\":\"x\"}}",
            "{\"capture\":{\"port\":\"eth1\",\"count\":1,\"filter\":[[40,0,0,12]]}}",
        ] {
            assert!(command(text).is_err(), "{text:?} was accepted");
        }
    }

    proptest! {
        #[test]
        fn no_json_panics(
            key in "(get|set|reload|capture|prefix|limit|address|x)",
            value in "(\"status\"|\"lookup\"|\\{\\}|\\{\"mode\":\"x\"\\}|-1|1e99|null|\\[\\[\\]\\])",
            other in "(get|set|reload|address)",
        ) {
            let text = format!("{{\"{key}\":{value},\"{other}\":{value}}}");
            let _ = command(&text);
        }
    }
}
