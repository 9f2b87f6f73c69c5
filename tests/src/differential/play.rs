//! Sends the requests of a scenario to one server and keeps the answers.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use muster_schema::proto;
use muster_tree::{Tree, tree};
use ureq::Agent;
use ureq::http::Request;
use ureq::tls::{Certificate, ClientCert, PrivateKey, TlsConfig};

use super::scenario::{Scenario, Step};
use super::socket::{self, Shown};

/// How often a step with `until` is repeated, and how long apart.
const UNTIL_TRIES: u32 = 1800;
/// The pause between two such tries.
const UNTIL_PAUSE: Duration = Duration::from_millis(100);
/// The most that is read of one answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The media type of protobuf bodies, which are compared as trees.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Changes an answer on its way, given the method and path it answers: what a broken server would have said.
pub type Fault = Box<dyn Fn(&str, &str, Answer) -> Answer + Send + Sync>;

/// A server under test.
pub struct Server {
    agent: Agent,
    base: String,
    token: String,
    shown: Option<Shown>,
    fault: Option<Fault>,
}

/// What a server said.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// HTTP code.
    pub code: u16,
    /// `Warning` headers.
    pub warnings: Vec<String>,
    /// `Content-Type` without parameters.
    pub media: String,
    /// The body; a list of events for a watch.
    pub body: Tree,
}

impl Server {
    /// A server at `https://host:port` that takes this bearer token. Its certificate is not checked: it is on loopback.
    #[must_use]
    pub fn new(base: &str, token: &str) -> Self {
        Self { agent: agent(None), base: base.to_owned(), token: token.to_owned(), shown: None, fault: None }
    }

    /// The server of a kubeconfig with one cluster and one user who shows a client certificate or a token.
    pub fn of_kubeconfig(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let config = Tree::parse_yaml(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        let first = |list: &str| config.items_at(&[list]).first().cloned().unwrap_or_default();
        let (cluster, user) = (first("clusters"), first("users"));
        let data = |key: &str| {
            BASE64_STANDARD.decode(user.str_at(&["user", key])).map_err(|e| format!("{key}: {e}"))
        };
        let (certificate, key) = (data("client-certificate-data")?, data("client-key-data")?);
        let read = Certificate::from_pem(&certificate).ok().zip(PrivateKey::from_pem(&key).ok());
        let shown = read.is_some().then_some((certificate, key));
        let read = read.map(|(certificate, key)| ClientCert::new_with_certs(&[certificate], key));
        let base = cluster.str_at(&["cluster", "server"]).to_owned();
        let token = user.str_at(&["user", "token"]).to_owned();
        Ok(Self { agent: agent(read), base, token, shown, fault: None })
    }

    /// The same server with a fault, to check that the judge sees it.
    #[must_use]
    pub fn with_fault(self, fault: Fault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    /// `https://host:port`.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Reads one path.
    pub fn get(&self, path: &str) -> Result<Answer, String> {
        self.send("GET", path, &Step::default(), Vec::new())
    }

    /// Sends one request.
    pub fn send(&self, method: &str, path: &str, step: &Step, body: Vec<u8>) -> Result<Answer, String> {
        if method == "SOCKET" {
            return socket::watch(&self.base, path, &self.headers(step), self.shown.as_ref());
        }
        let watch = method == "WATCH";
        let method = if watch { "GET" } else { method };
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in self.headers(step) {
            request = request.header(name, value);
        }
        if !body.is_empty() {
            request = request.header("Content-Type", step.content_type());
        }
        let request = request.body(body).map_err(|e| e.to_string())?;
        // A kept connection may have been closed after an earlier refusal: one more try on a fresh one.
        let again = request.clone();
        let mut response = self
            .agent
            .run(request)
            .or_else(|_| self.agent.run(again))
            .map_err(|e| format!("{method} {path}: {e}"))?;
        let text = |v: &ureq::http::HeaderValue| v.to_str().unwrap_or_default().to_owned();
        let warnings = response.headers().get_all("Warning").iter().map(text).collect();
        let media = response.headers().get("Content-Type").map(text).unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().to_owned();
        let mut bytes = Vec::new();
        let reader = response.body_mut().as_reader().take(ANSWER_BYTES_MAX);
        { reader }.read_to_end(&mut bytes).map_err(|e| format!("{method} {path}: {e}"))?;
        let code = response.status().as_u16();
        let body = match media.as_str() {
            PROTOBUF if watch && code == 200 => binary_events(&bytes)?,
            PROTOBUF => proto::decode(&bytes).map_err(|e| format!("{method} {path}: {e}"))?.tree,
            _ if watch && code == 200 => events(&bytes),
            _ => tree_of(&bytes),
        };
        let answer = Answer { code, warnings, media, body };
        Ok(match &self.fault {
            Some(fault) => fault(if watch { "WATCH" } else { method }, path, answer),
            None => answer,
        })
    }
}

impl Server {
    fn headers(&self, step: &Step) -> Vec<(String, String)> {
        let accept = if step.accept.is_empty() { "application/json" } else { &step.accept };
        let mut all = vec![("User-Agent", "judge/1".to_owned()), ("Accept", accept.to_owned())];
        if !self.token.is_empty() {
            all.push(("Authorization", format!("Bearer {}", self.token)));
        }
        let all = all.into_iter().map(|(name, value)| (name.to_owned(), value));
        all.chain(step.headers.clone()).collect()
    }
}

fn agent(shown: Option<ClientCert>) -> Agent {
    let tls = TlsConfig::builder().disable_verification(true).client_cert(shown).build();
    Agent::config_builder().tls_config(tls).http_status_as_error(false).build().new_agent()
}

/// One JSON document per line.
fn events(bytes: &[u8]) -> Tree {
    Tree::list(bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()).map(tree_of).collect::<Vec<_>>())
}

/// One protobuf event after its length, in four bytes.
fn binary_events(mut bytes: &[u8]) -> Result<Tree, String> {
    let mut events = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let (event, rest) = rest.split_at_checked(length).ok_or("an event is cut off")?;
        let (kind, object) = proto::decode_event(event).map_err(|e| e.to_string())?;
        events.push(tree!({"type": kind, "object": object.tree}));
        bytes = rest;
    }
    Ok(Tree::list(events))
}

/// The body as a tree; text that is not JSON as text.
fn tree_of(bytes: &[u8]) -> Tree {
    Tree::parse(bytes).unwrap_or_else(|_| Tree::from(String::from_utf8_lossy(bytes).into_owned()))
}

/// Plays a scenario in a namespace of its own and returns the answers, one per step.
pub fn play(server: &Server, scenario: &Scenario, namespace: &str) -> Result<Vec<Answer>, String> {
    let make = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    server.send("POST", "/api/v1/namespaces", &Step::default(), make.to_json_bytes())?;
    let mut answers: Vec<Answer> = Vec::new();
    for step in &scenario.steps {
        answers.push(perform(server, step, namespace, &answers)?);
    }
    Ok(answers)
}

fn perform(server: &Server, step: &Step, namespace: &str, so_far: &[Answer]) -> Result<Answer, String> {
    let fill = |text: &str| fill_in(text, namespace, so_far);
    let (method, path) = step.parts();
    let path = fill(path).replace(' ', "%20");
    let body = match (&step.body, &step.text, &step.file) {
        (Some(tree), _, _) => fill(&tree.to_json()),
        (None, Some(text), _) => fill(text),
        (None, None, Some(file)) => read(file)?,
        (None, None, None) => String::new(),
    };
    let mut answer = server.send(method, &path, step, body.clone().into_bytes())?;
    for _ in 0..UNTIL_TRIES {
        if step.until.is_none_or(|code| code == answer.code) {
            break;
        }
        std::thread::sleep(UNTIL_PAUSE);
        answer = server.send(method, &path, step, body.clone().into_bytes())?;
    }
    Ok(answer)
}

/// A file of the workspace.
fn read(file: &str) -> Result<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Replaces `{ns}`, `{uid:N}`, `{rv:N}` and `{continue:N}`.
fn fill_in(text: &str, namespace: &str, so_far: &[Answer]) -> String {
    let mut filled = text.replace("{ns}", namespace);
    for (i, answer) in so_far.iter().enumerate() {
        let n = i + 1;
        let meta = |key: &str| answer.body.str_at(&["metadata", key]).to_owned();
        filled = filled
            .replace(&format!("{{uid:{n}}}"), &meta("uid"))
            .replace(&format!("{{rv:{n}}}"), &meta("resourceVersion"))
            .replace(&format!("{{continue:{n}}}"), &meta("continue"));
    }
    filled
}
