use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::*;

/// A path that no other test has, and nothing there.
fn place(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("ebb-service-{name}-{}.sock", std::process::id()));
    _ = fs::remove_file(&path);
    path
}

fn parrot(line: &str) -> Result<Value, String> {
    match line {
        "sing" => Err("no voice".to_owned()),
        "fall" => panic!("as the test wants it"),
        other => Ok(json!({ "said": other })),
    }
}

#[test]
fn requests_are_answered_or_refused_line_by_line() {
    let path = place("lines");
    let _serving = serve(&path, parrot).expect("a socket");
    assert_eq!(ask(&path, "  hello you ").expect("an answer"), json!({ "said": "hello you" }));
    let refused = ask(&path, "sing").expect_err("refused");
    assert!(matches!(&refused, AskError::Refused(said) if said == "no voice"), "{refused:?}");
    let mut client = UnixStream::connect(&path).expect("it listens");
    client.write_all(b"one\ntwo\n").expect("it reads");
    let lines = BufReader::new(client).lines().take(2);
    let lines: Vec<String> = lines.map(|line| line.expect("an answer")).collect();
    assert_eq!(lines, [r#"{"said":"one"}"#, r#"{"said":"two"}"#]);
}

#[test]
fn a_request_without_end_is_refused() {
    let path = place("overlong");
    let _serving = serve(&path, parrot).expect("a socket");
    let mut client = UnixStream::connect(&path).expect("it listens");
    client.write_all(&[b'x'; REQUEST_MAX as usize]).expect("it reads");
    let mut said = String::new();
    client.read_to_string(&mut said).expect("an answer, and the end");
    assert_eq!(said, "{\"error\":\"a request has at most 1024 bytes\"}\n");
}

#[test]
fn clients_that_say_nothing_keep_nobody_waiting() {
    let path = place("idle");
    let _serving = serve(&path, parrot).expect("a socket");
    let silent: Vec<UnixStream> =
        (1..CLIENTS_MAX).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
    assert_eq!(ask(&path, "hello").expect("an answer"), json!({ "said": "hello" }));
    drop(silent);
}

#[test]
fn a_request_on_which_the_program_fails_ends_no_other() {
    let path = place("panic");
    let _serving = serve(&path, parrot).expect("a socket");
    // More often than there are seats: each is given back.
    for _ in 0..=CLIENTS_MAX {
        assert!(matches!(ask(&path, "fall"), Err(AskError::Broken { .. })));
    }
    assert_eq!(ask(&path, "hello").expect("an answer"), json!({ "said": "hello" }));
}

#[test]
fn so_many_are_served_at_once_and_all_in_the_end() {
    #[derive(Default)]
    struct Hall {
        inside: usize,
        most: usize,
        open: bool,
    }
    let hall = Arc::new((Mutex::new(Hall::default()), Condvar::new()));
    let path = place("crowd");
    let entered = hall.clone();
    let answer = move |_: &str| -> Result<Value, String> {
        let (hall, changed) = &*entered;
        let mut inside = hall.lock().expect("sound");
        inside.inside += 1;
        inside.most = inside.most.max(inside.inside);
        changed.notify_all();
        let mut inside = changed.wait_while(inside, |hall| !hall.open).expect("sound");
        inside.inside -= 1;
        Ok(Value::from("served"))
    };
    let _serving = serve(&path, answer).expect("a socket");
    let clients: Vec<UnixStream> = (0..CLIENTS_MAX + 8)
        .map(|_| {
            let mut client = UnixStream::connect(&path).expect("it listens");
            client.write_all(b"enter\n").expect("it reads");
            client.shutdown(std::net::Shutdown::Write).expect("all is said");
            client
        })
        .collect();
    let (counted, changed) = &*hall;
    let full = |hall: &mut Hall| hall.inside < CLIENTS_MAX;
    changed.wait_while(counted.lock().expect("sound"), full).expect("sound").open = true;
    changed.notify_all();
    for mut client in clients {
        let mut said = String::new();
        client.read_to_string(&mut said).expect("an answer");
        assert_eq!(said, "\"served\"\n");
    }
    assert_eq!(counted.lock().expect("sound").most, CLIENTS_MAX);
}

#[test]
fn the_socket_is_its_owners_alone_and_goes_with_its_server() {
    let path = place("mode");
    let serving = serve(&path, parrot).expect("a socket");
    let mode = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(serving);
    assert!(!path.exists());
    let silent = ask(&path, "hello").expect_err("nobody");
    assert!(matches!(silent, AskError::Silent { .. }), "{silent:?}");
}

#[test]
fn a_second_server_is_refused_and_the_first_goes_on() {
    let path = place("second");
    let _serving = serve(&path, parrot).expect("a socket");
    assert!(matches!(serve(&path, parrot), Err(BindError::InUse(_))));
    assert_eq!(ask(&path, "hello").expect("an answer"), json!({ "said": "hello" }));
}

#[test]
fn only_what_a_dead_process_left_is_replaced() {
    let path = place("stale");
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists(), "nobody listens, the file stays");
    drop(serve(&path, parrot).expect("it is replaced"));
    fs::write(&path, "a letter").expect("a file");
    assert!(matches!(serve(&path, parrot), Err(BindError::NotASocket(_))));
    assert_eq!(fs::read_to_string(&path).expect("still there"), "a letter");
    fs::remove_file(&path).expect("ours");
}

#[test]
fn a_socket_that_another_program_put_there_is_not_removed() {
    let path = place("replaced");
    let serving = serve(&path, parrot).expect("a socket");
    // Renamed, not removed: otherwise the other file could get the same number.
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).expect("ours");
    let other = UnixListener::bind(&path).expect("a socket");
    drop(serving);
    assert!(path.exists());
    drop(other);
    fs::remove_file(&path).expect("ours");
    fs::remove_file(&aside).expect("ours");
}

#[test]
fn metrics_are_served_over_http() {
    let page = || {
        let mut registry = Registry::with_prefix("ebb");
        gauge(&mut registry, "cores", "cores at work", 2.0);
        encoded(&registry)
    };
    let address = metrics("127.0.0.1:0".parse().expect("an address"), page).expect("a port");
    let mut client = TcpStream::connect(address).expect("it listens");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    client.write_all(request.as_bytes()).expect("it reads");
    let mut said = String::new();
    client.read_to_string(&mut said).expect("an answer");
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("\nebb_cores 2"), "{said}");
    assert!(metrics(address, page).is_err(), "the address is taken");
}
