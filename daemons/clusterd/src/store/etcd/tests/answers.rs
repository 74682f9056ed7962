//! Answers that get lost on their way, and are asked for again elsewhere.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use ebb_cluster::Write;

use super::super::Etcd;
use super::leader;
use crate::config::StoreConfig;
use crate::store::{EtcdServer, Store};

/// A request or an answer with a length, as it is.
fn message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut bytes, mut more) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return Some(bytes);
            }
        }
        match stream.read(&mut more) {
            Ok(count) if count > 0 => bytes.extend(&more[..count]),
            _ => return None,
        }
    }
}

/// Hands on what it is asked; answers go back while none is to be lost.
fn between(of: &str, loses: &Arc<AtomicBool>) -> String {
    let (of, loses) = (of.trim_start_matches("http://").to_owned(), loses.clone());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let (mut near, of, loses) = (near.expect("a connection"), of.clone(), loses.clone());
            std::thread::spawn(move || {
                let mut far = TcpStream::connect(of).expect("etcd");
                while let Some(asked) = message(&mut near) {
                    far.write_all(&asked).expect("asked");
                    let answer = message(&mut far).filter(|_| !loses.load(Relaxed));
                    if answer.is_none_or(|answer| near.write_all(&answer).is_err()) {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}")
}

#[test]
fn what_was_made_is_not_said_to_be_refused_where_the_answer_was_lost() {
    if !EtcdServer::installed() {
        assert!(std::env::var_os("CI").is_none(), "CI must have etcd (Debian: etcd-server)");
        eprintln!("skipped: etcd is not installed");
        return;
    }
    let place = std::env::temp_dir().join(format!("ebb-answers-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory");
    let server = EtcdServer::start(&place).expect("etcd starts");
    let (good, loses) = (server.options(), Arc::new(AtomicBool::new(false)));
    let endpoints = vec![between(&good.endpoints[0], &loses), good.endpoints[0].clone()];
    let lossy = StoreConfig { endpoints, ..good.clone() };
    let length = Duration::from_secs(60);
    let member = |options| Etcd::new(options, "c", length).expect("options");
    let (mut one, mut two) = (member(&lossy), member(&good));
    let office = |owner: &str| Write::Leader { owner: owner.to_owned() };
    one.renew().expect("answers");
    two.renew().expect("answers");
    loses.store(true, Relaxed);
    assert!(one.write(&office("one")).is_err(), "it may have been made");
    leader(&mut two, "one");
    assert!(!one.write(&office("one")).expect("answers"), "it has been");
    drop(server);
    std::fs::remove_dir_all(&place).expect("removed");
}
