//! Collectors that are gone, slow or full: each message is counted once, and nothing waits.

use std::io::Read;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebb_apps::Application;
use ebb_apps::ipfix::{Exporter, Format, Ipfix, Message, Metering, Selection, Traffic, Version};
use ebb_host::clock;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::sink::Sink;
use crate::config::{FlowExport, FlowTransport};

/// What counts messages, and its counters.
fn counting() -> (Ipfix, Exporter) {
    let second = Duration::from_secs(1);
    let metering = Metering {
        active: second,
        idle: second,
        flows: 64,
        selection: Selection::default(),
        sampling: 1,
        seed: 1,
    };
    let ipfix = Ipfix::new(1, metering, &(Arc::new(|| ()) as _));
    let format = Format {
        version: Version::Ipfix,
        domain: 1,
        message_len: 1400,
        template_every: second,
        biflow: false,
        sampling: 1,
    };
    let exporter = ipfix.exporter(format);
    (ipfix, exporter)
}

fn counted(ipfix: &Ipfix) -> (u64, u64) {
    let of = |name| ipfix.counters().into_iter().find(|(known, _)| *known == name).expect(name).1;
    (of("exported_flows"), of("unsent_flows"))
}

fn message(len: usize) -> Message {
    let carries = Traffic { flows: 1, packets: 1, bytes: 1 };
    let mut message = Message::default();
    (message.bytes, message.carries) = (vec![7; len], carries);
    message
}

fn to(collector: std::net::SocketAddr, transport: FlowTransport) -> FlowExport {
    FlowExport { collector: Some(collector), transport, ..FlowExport::default() }
}

fn until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn datagrams_that_nobody_takes_are_counted_as_unsent() {
    let (ipfix, exporter) = counting();
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut sink = Sink::open(&to(gone, FlowTransport::Udp)).unwrap();
    sink.connect(clock::monotonic());
    assert!(sink.is_ready());
    for _ in 0..10 {
        sink.push(message(100));
        sink.flush(clock::monotonic(), &exporter);
        until(|| {
            sink.flush(clock::monotonic(), &exporter);
            !sink.waits()
        });
    }
    assert_eq!(counted(&ipfix), (0, 10));
    assert!(sink.problem().is_some_and(|problem| problem.contains("refuses messages")));
}

#[test]
fn datagrams_that_are_taken_are_counted_as_sent() {
    let (ipfix, exporter) = counting();
    let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sink = Sink::open(&to(collector.local_addr().unwrap(), FlowTransport::Udp)).unwrap();
    sink.connect(clock::monotonic());
    (0..10).for_each(|_| sink.push(message(100)));
    until(|| {
        sink.flush(clock::monotonic(), &exporter);
        !sink.waits()
    });
    assert_eq!(counted(&ipfix), (10, 0));
    let mut buffer = [0; 2000];
    (0..10).for_each(|_| assert_eq!(collector.recv(&mut buffer).unwrap(), 100));
}

#[test]
fn a_slow_collector_is_not_waited_for_and_gets_everything_in_the_end() {
    let (ipfix, exporter) = counting();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sink = Sink::open(&to(listener.local_addr().unwrap(), FlowTransport::Tcp)).unwrap();
    sink.connect(clock::monotonic());
    assert!(sink.is_new() && !sink.is_new());
    let (mut stream, _) = listener.accept().unwrap();
    let mut pushed = 0;
    // Until it takes no more: the connection's own buffers are full, then what may wait.
    while sink.is_ready() {
        sink.push(message(16_000));
        pushed += 1;
        sink.flush(clock::monotonic(), &exporter);
    }
    assert!(counted(&ipfix).0 < pushed && counted(&ipfix).1 == 0);
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (mut read, mut buffer) = (0, vec![0; 1 << 16]);
    until(|| {
        sink.flush(clock::monotonic(), &exporter);
        read += stream.read(&mut buffer).unwrap_or(0) as u64;
        read == pushed * 16_000
    });
    sink.flush(clock::monotonic(), &exporter);
    assert_eq!((counted(&ipfix), sink.waits()), ((pushed, 0), false));
}

#[test]
fn a_collector_that_comes_again_gets_what_it_had_not_whole() {
    let (ipfix, exporter) = counting();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sink = Sink::open(&to(listener.local_addr().unwrap(), FlowTransport::Tcp)).unwrap();
    sink.connect(clock::monotonic());
    assert!(sink.is_new());
    drop(listener.accept().unwrap());
    until(|| {
        sink.flush(clock::monotonic(), &exporter);
        sink.problem().is_some()
    });
    assert!(!sink.is_ready());
    sink.push(message(100));
    // A second later.
    sink.connect(clock::monotonic() + Duration::from_secs(2));
    assert!(sink.is_new(), "templates go first on a new connection");
    sink.push_first(vec![message(50)]);
    sink.flush(clock::monotonic(), &exporter);
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = [0; 150];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!((counted(&ipfix), sink.problem()), ((2, 0), None));
}

#[test]
fn where_nobody_listens_nothing_is_taken() {
    let (ipfix, exporter) = counting();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut sink = Sink::open(&to(gone, FlowTransport::Tcp)).unwrap();
    sink.connect(clock::monotonic());
    assert!(!sink.is_ready() && sink.problem().is_some_and(|it| it.contains("cannot connect")));
    sink.push(message(100));
    sink.give_up(&exporter);
    assert_eq!(counted(&ipfix), (0, 1));
}

/// `/dev/full` refuses as a full disk does.
#[test]
fn a_full_disk_takes_nothing_and_is_tried_again() {
    let (ipfix, exporter) = counting();
    let of = FlowExport { file: Some(PathBuf::from("/dev/full")), ..FlowExport::default() };
    let mut sink = Sink::open(&of).unwrap();
    sink.push(message(100));
    sink.flush(clock::monotonic(), &exporter);
    assert!(!sink.is_ready() && sink.waits());
    assert!(sink.problem().is_some_and(|problem| problem.contains("/dev/full")));
    assert_eq!(counted(&ipfix), (0, 0), "it may still go");
    let nowhere = FlowExport { file: Some("/no/such/directory/f".into()), ..FlowExport::default() };
    let error = format!("{:#}", Sink::open(&nowhere).err().expect("no directory"));
    assert!(error.contains("ipfix.file") && error.contains("create its directory"), "{error}");
}

/// A collector that has this certificate, which is also the authority of both ends.
fn tls_server(
    stream: TcpStream,
    pem: &Path,
    key: &Path,
) -> StreamOwned<ServerConnection, TcpStream> {
    let chain = CertificateDer::pem_file_iter(pem).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
    StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream)
}

/// Sealed, too: what waits is counted only when it has gone, and no byte is missing or comes twice.
#[test]
fn a_slow_collector_of_tls_gets_everything_in_the_end() {
    let directory = std::env::temp_dir().join(format!("ebb-tls-sink-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let place = |name: &str| directory.join(name);
    let openssl = |arguments: &str| {
        let arguments = arguments.replace("AT", &directory.display().to_string());
        let done = Command::new("openssl").args(arguments.split(' ')).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let new = "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=one";
    openssl(&format!("{new} -x509 -keyout AT/ca.key -out AT/ca.pem"));
    let own = "-addext subjectAltName=IP:127.0.0.1 -keyout AT/own.key -out AT/own.csr";
    openssl(&format!("{new} {own}"));
    openssl(
        "x509 -req -in AT/own.csr -CA AT/ca.pem -CAkey AT/ca.key -CAcreateserial -copy_extensions copy -out AT/own.pem",
    );
    let (ipfix, exporter) = counting();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sink = Sink::open(&FlowExport {
        ca_file: Some(place("ca.pem")),
        certificate_file: Some(place("own.pem")),
        key_file: Some(place("own.key")),
        ..to(listener.local_addr().unwrap(), FlowTransport::Tls)
    })
    .unwrap();
    sink.connect(clock::monotonic());
    assert!(!sink.is_new() && !sink.is_ready() && sink.waits(), "nobody has shown a certificate");
    let stream = listener.accept().unwrap().0;
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut server = tls_server(stream, &place("own.pem"), &place("own.key"));
    let (mut read, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    let mut drink = |read: &mut Vec<u8>| {
        let count = server.read(&mut buffer).unwrap_or(0);
        read.extend(&buffer[..count]);
    };
    until(|| {
        sink.connect(clock::monotonic());
        drink(&mut read);
        sink.is_ready()
    });
    assert!(sink.is_new() && sink.problem().is_none());
    let mut pushed = 0u64;
    while sink.is_ready() {
        let mut message = message(16_000);
        message.bytes[..8].copy_from_slice(&pushed.to_be_bytes());
        sink.push(message);
        pushed += 1;
        sink.flush(clock::monotonic(), &exporter);
    }
    assert!(counted(&ipfix).0 < pushed && counted(&ipfix).1 == 0);
    until(|| {
        sink.flush(clock::monotonic(), &exporter);
        drink(&mut read);
        read.len() as u64 == pushed * 16_000
    });
    sink.flush(clock::monotonic(), &exporter);
    assert_eq!((counted(&ipfix), sink.waits()), ((pushed, 0), false));
    let numbers = read.chunks(16_000).map(|whole| whole[..8].to_vec());
    assert!(numbers.eq((0..pushed).map(|number| number.to_be_bytes().to_vec())));
    std::fs::remove_dir_all(directory).unwrap();
}
