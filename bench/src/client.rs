//! The lightest HTTPS client that will do: HTTP/1.1 on kept connections, one thread each, answers counted and not read.
//!
//! It shares the machine with the servers it measures, so every cycle of its own is one they do not get.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use muster_tree::Tree;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

/// Bytes read at once; a list is megabytes.
const BUFFER_BYTES: usize = 64 << 10;
/// Requests under way at once.
pub const IN_FLIGHT: usize = 8;
/// How long a bench waits for anything before it gives up.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// A server and how to be its administrator.
#[derive(Clone)]
pub struct Target {
    address: String,
    tls: Arc<ClientConfig>,
    token: String,
}

impl Target {
    /// A server that takes this bearer token.
    pub fn of_token(base: &str, token: &str) -> Target {
        Target { address: address(base), tls: Arc::new(tls(None)), token: token.to_owned() }
    }

    /// The server of a kubeconfig whose one user shows a certificate.
    pub fn of_kubeconfig(file: &Path) -> Target {
        let text = std::fs::read_to_string(file).expect("up writes a kubeconfig");
        let config = Tree::parse_yaml(&text).expect("it is YAML");
        let first = |list: &str| config.items_at(&[list]).first().cloned().unwrap_or_default();
        let (cluster, user) = (first("clusters"), first("users"));
        let data = |key: &str| {
            BASE64_STANDARD.decode(user.str_at(&["user", key])).expect("certificates are in base64")
        };
        let chain = CertificateDer::pem_slice_iter(&data("client-certificate-data"))
            .collect::<Result<Vec<_>, _>>()
            .expect("the certificate is PEM");
        let key = PrivateKeyDer::from_pem_slice(&data("client-key-data")).expect("the key is PEM");
        let address = address(cluster.str_at(&["cluster", "server"]));
        Target { address, tls: Arc::new(tls(Some((chain, key)))), token: String::new() }
    }

    /// A request as it goes over the wire.
    pub fn request(&self, call: &str, media: &str, body: &[u8]) -> Vec<u8> {
        let mut head = format!("{call} HTTP/1.1\r\nHost: {}\r\nUser-Agent: bench/1\r\n", self.address);
        head += "Accept: application/json\r\n";
        if !self.token.is_empty() {
            head += &format!("Authorization: Bearer {}\r\n", self.token);
        }
        if !body.is_empty() {
            head += &format!("Content-Type: {media}\r\nContent-Length: {}\r\n", body.len());
        }
        let mut bytes = (head + "\r\n").into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }

    pub fn connect(&self) -> io::Result<Connection> {
        let tcp = TcpStream::connect(&self.address)?;
        tcp.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").expect("this is a name");
        let session = ClientConnection::new(self.tls.clone(), name).map_err(io::Error::other)?;
        let stream = BufReader::with_capacity(BUFFER_BYTES, StreamOwned::new(session, tcp));
        Ok(Connection { stream, line: Vec::new(), body: Vec::new() })
    }

    /// Sends one request on a connection of its own: (code, body).
    pub fn ask(&self, call: &str, body: &Tree) -> (u16, Vec<u8>) {
        let body = if body.is_null() { Vec::new() } else { body.to_json_bytes() };
        let request = self.request(call, "application/json", &body);
        let mut connection = self.connect().expect("the server listens");
        let (code, body) = connection.send(&request).expect("the server answers");
        (code, body.to_vec())
    }

    /// Returns when this many objects match the selector, counted from now.
    pub fn first_of(&self, resource: &'static str, fields: &str, count: usize) -> Receiver<()> {
        let group = if resource == "jobs" { "apis/batch" } else { "api" };
        let fields = fields.replace('=', "%3D").replace('!', "%21");
        let call = format!("GET /{group}/v1/namespaces/default/{resource}?watch=1&fieldSelector={fields}");
        let target = self.clone();
        let (tell, told) = channel();
        let (open, opened) = channel();
        std::thread::spawn(move || {
            let request = target.request(&call, "", b"");
            // A server may end a watch whose client is slow; a new one begins with all that match by then. No receiver is left
            // any more when the plane has ended.
            while let Ok(mut connection) = target.connect() {
                let mut left = count;
                let seen = |event: &[u8]| {
                    left -= usize::from(event.starts_with(br#"{"type":"ADDED""#));
                    left > 0
                };
                if connection.watch(&request, || _ = open.send(()), seen).is_ok() {
                    let _ = tell.send(());
                    return;
                }
            }
        });
        opened.recv().expect("the watch opens");
        told
    }

    /// Sends the requests of the numbers below `count`: a number's in order, many numbers at once.
    pub fn send_all(
        &self,
        count: usize,
        requests: impl Fn(usize) -> Vec<(String, &'static str, Tree)> + Sync,
    ) {
        let next = AtomicUsize::new(0);
        let lane = || {
            let mut connection = self.connect().expect("the server listens");
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= count {
                    return;
                }
                for (call, media, body) in requests(n) {
                    let request = self.request(&call, media, &body.to_json_bytes());
                    let (code, body) = connection.send(&request).expect("the server answers");
                    assert!(code < 300, "{call}: {}", String::from_utf8_lossy(body));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..IN_FLIGHT {
                scope.spawn(lane);
            }
        });
    }
}

/// Waits for the watch of [`Target::first_of`].
pub fn await_all(all: &Receiver<()>, what: &str) {
    all.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("not all {what} within {PATIENCE:?}"));
}

pub struct Connection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
    line: Vec<u8>,
    body: Vec<u8>,
}

/// What the head of an answer says.
struct Head {
    code: u16,
    /// None if it comes in chunks.
    length: Option<u64>,
}

impl Connection {
    /// Sends a request and reads its answer: (code, body).
    pub fn send(&mut self, request: &[u8]) -> io::Result<(u16, &[u8])> {
        let head = self.begin(request)?;
        self.body.clear();
        match head.length {
            Some(length) => {
                self.stream.by_ref().take(length).read_to_end(&mut self.body)?;
            }
            None => while self.chunk()? {},
        }
        Ok((head.code, &self.body))
    }

    /// Opens a watch and calls `seen` with each event, until that says no.
    pub fn watch(
        &mut self,
        request: &[u8],
        opened: impl FnOnce(),
        mut seen: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<()> {
        let head = self.begin(request)?;
        // A server says so while it gathers what there is of a kind that was just defined.
        if head.code == 429 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        assert_eq!(head.code, 200, "a watch is opened");
        opened();
        self.body.clear();
        loop {
            if !self.chunk()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            // An event may come in several chunks.
            let whole = self.body.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            for event in self.body[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                if !seen(event) {
                    return Ok(());
                }
            }
            self.body.drain(..whole);
        }
    }

    fn begin(&mut self, request: &[u8]) -> io::Result<Head> {
        self.stream.get_mut().write_all(request)?;
        self.stream.get_mut().flush()?;
        let mut head = Head { code: 0, length: None };
        loop {
            let line = self.read_line()?;
            let Some((name, value)) = line.split_once(": ") else {
                if line.is_empty() {
                    return Ok(head);
                }
                let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
                head.code = code.ok_or(io::ErrorKind::InvalidData)?;
                continue;
            };
            if name.eq_ignore_ascii_case("content-length") {
                head.length = value.parse().ok();
            }
        }
    }

    /// Appends the next chunk to the body; false after the last.
    fn chunk(&mut self) -> io::Result<bool> {
        let line = self.read_line()?;
        let length = u64::from_str_radix(line, 16).map_err(|_| io::ErrorKind::InvalidData)?;
        self.stream.by_ref().take(length).read_to_end(&mut self.body)?;
        self.read_line()?;
        Ok(length > 0)
    }

    fn read_line(&mut self) -> io::Result<&str> {
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line)?;
        let line = self.line.strip_suffix(b"\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        std::str::from_utf8(line).map_err(io::Error::other)
    }
}

fn address(base: &str) -> String {
    base.trim_start_matches("https://").to_owned()
}

fn tls(shown: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("ring knows them")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)));
    match shown {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).expect("they belong together"),
        None => config.with_no_client_auth(),
    }
}

/// Takes any certificate: the servers were started by us, on loopback.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
