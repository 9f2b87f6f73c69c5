//! An in-process server, and a client that sends exact bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_api::environment::{Clock, Entropy};
use muster_api::time::Time;
use muster_apiserver::engine::{ApiEngine, EngineOptions};
use muster_apiserver::http::health::HealthCheck;
use muster_apiserver::http::identity::{CertKeyPair, ServerIdentity};
use muster_apiserver::http::kubelet_location::KubeletHandler;
use muster_apiserver::http::limits::RequestLimits;
use muster_apiserver::http::{ApiServer, ServerOptions};
use muster_store::{Store, StoreOptions};
use muster_tree::Tree;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Read timeout of the tests.
const PATIENCE: Duration = Duration::from_secs(30);

struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Time {
        Time::parse("2026-03-01T12:00:00Z").unwrap()
    }
}

struct CountingEntropy(AtomicU64);

impl Entropy for CountingEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            let n = self.0.fetch_add(1, Ordering::Relaxed);
            *byte = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[7];
        }
    }
}

/// A server with the credentials to call it.
pub struct TestServer {
    runtime: tokio::runtime::Runtime,
    server: Option<ApiServer>,
    pub engine: ApiEngine,
    pub address: SocketAddr,
    pub token: String,
    pub ready: HealthCheck,
    pub authority: String,
    admin: CertKeyPair,
}

impl TestServer {
    pub fn new() -> Self {
        Self::bounded(RequestLimits::default())
    }

    pub fn bounded(bounds: RequestLimits) -> Self {
        Self::with(bounds, None)
    }

    /// With kubelets in this process.
    pub fn with(bounds: RequestLimits, nodes: Option<Arc<dyn KubeletHandler>>) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(FixedClock);
        let entropy: Arc<dyn Entropy> = Arc::new(CountingEntropy(AtomicU64::new(1)));
        let store = Store::in_memory(StoreOptions::default(), clock.clone());
        let identity = ServerIdentity::load_or_generate(&store, clock.as_ref(), entropy.as_ref()).unwrap();
        let options = EngineOptions { root_ca: identity.ca_certificate().into(), ..EngineOptions::default() };
        let engine = ApiEngine::new(store, clock.clone(), entropy.clone(), options);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (token, authority) = (identity.admin_token().to_owned(), identity.ca_certificate().to_owned());
        let admin = identity.admin_certificate().unwrap();
        let ready = HealthCheck::pending("controllers");
        let options = ServerOptions {
            listener,
            identity,
            static_tokens: Vec::new(),
            checks: vec![ready.clone()],
            local_kubelets: nodes,
            api_provider: None,
            extension_route: None,
            bounds,
            metrics: Arc::default(),
            clock,
            entropy,
        };
        let server = {
            let _inside = runtime.enter();
            ApiServer::start(engine.clone(), options).unwrap()
        };
        let address = server.address();
        Self { runtime, server: Some(server), engine, address, token, ready, authority, admin }
    }

    /// A TLS connection; with `certified` it shows the admin's certificate.
    pub fn connect(&self, certified: bool) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = if certified {
            let chain = vec![CertificateDer::from_pem_slice(self.admin.certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(self.admin.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        StreamOwned::new(tls, socket)
    }

    /// Sends a request as the admin and reads the whole response.
    pub fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TestResponse {
        let token = format!("Bearer {}", self.token);
        let mut all = vec![("Authorization", token.as_str())];
        all.extend_from_slice(headers);
        self.send(self.connect(false), method, path, &all, body)
    }

    pub fn get(&self, path: &str) -> TestResponse {
        self.call("GET", path, &[], b"")
    }

    pub fn json(&self, method: &str, path: &str, body: &str) -> TestResponse {
        self.call(method, path, &[("Content-Type", "application/json")], body.as_bytes())
    }

    /// Sends a request with exactly these headers.
    pub fn send(
        &self,
        mut stream: StreamOwned<ClientConnection, TcpStream>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> TestResponse {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        let has = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !has("host") {
            head += &format!("Host: {}\r\n", self.address);
        }
        if !has("content-length") {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        // The server may respond and close before it has read everything.
        let _ = stream.write_all(body).and_then(|()| stream.flush());
        TestResponse::read(stream, method == "HEAD")
    }
}

impl TestServer {
    /// Shuts the server down gracefully.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
    }
}

pub struct TestResponse {
    pub code: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl TestResponse {
    fn read(stream: impl Read, head_only: bool) -> TestResponse {
        let mut reader = BufReader::new(stream);
        let (code, headers) = read_head(&mut reader);
        let mut answer = TestResponse { code, headers, body: Vec::new() };
        if head_only {
            return answer;
        }
        if answer.header("transfer-encoding") == "chunked" {
            while let Some(chunk) = read_chunk(&mut reader) {
                answer.body.extend_from_slice(&chunk);
            }
        } else {
            let length = answer.header("content-length").parse().unwrap_or(0);
            answer.body.resize(length, 0);
            reader.read_exact(&mut answer.body).unwrap();
        }
        answer
    }

    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn tree(&self) -> Tree {
        Tree::parse(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// Asserts a `Status` with this code, reason and part of the message.
    pub fn assert_refused(&self, says: &str, code: u16, reason: &str, words: &str) {
        assert_eq!(self.code, code, "{says}: {}", String::from_utf8_lossy(&self.body));
        let status = self.tree();
        assert_eq!(status.str_at(&["kind"]), "Status", "{says}");
        assert_eq!(status.str_at(&["reason"]), reason, "{says}: {status}");
        assert_eq!(status.int_at(&["code"]), Some(i64::from(code)), "{says}");
        let message = status.str_at(&["message"]);
        assert!(message.contains(words), "{says}: {message:?} has no {words:?}");
    }
}

/// Status code and headers, names in lower case.
pub fn read_head(reader: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let code = line.split(' ').nth(1).unwrap_or_else(|| panic!("no status line: {line:?}")).parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return (code, headers);
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// The next chunk; `None` after the last.
pub fn read_chunk(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let length = usize::from_str_radix(line.trim(), 16).unwrap_or_else(|_| panic!("chunk length {line:?}"));
    let mut chunk = vec![0; length + 2];
    reader.read_exact(&mut chunk).unwrap();
    chunk.truncate(length);
    (length > 0).then_some(chunk)
}
