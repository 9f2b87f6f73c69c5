//! HTTP client of one API server, and the runner that sends the requests of a scenario.

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

use super::scenario::{RequestScenario, RequestStep};
use super::socket::{self, ClientCertPem};

/// Polls of a step with `until`, and the interval between them: three minutes in total.
const UNTIL_TRIES: u32 = 1800;
const UNTIL_PAUSE: Duration = Duration::from_millis(100);
/// Maximum size of a response body.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Media type of protobuf bodies, which are decoded and compared as trees.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Modifies an answer, given the method and path of its request: simulates a broken server.
pub type AnswerFault = Box<dyn Fn(&str, &str, HttpAnswer) -> HttpAnswer + Send + Sync>;

/// A client of the server under test.
pub struct ApiClient {
    agent: Agent,
    base: String,
    token: String,
    client_cert: Option<ClientCertPem>,
    fault: Option<AnswerFault>,
}

/// A decoded HTTP response.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpAnswer {
    pub code: u16,
    pub warnings: Vec<String>,
    pub media: String,
    /// Body; the list of events for a watch.
    pub body: Tree,
}

impl ApiClient {
    /// Connects to `https://host:port` with a bearer token. The certificate is not verified: the server is on loopback.
    #[must_use]
    pub fn new(base: &str, token: &str) -> Self {
        Self {
            agent: agent(None),
            base: base.to_owned(),
            token: token.to_owned(),
            client_cert: None,
            fault: None,
        }
    }

    /// Reads a kubeconfig with one cluster and one user with a client certificate or a token.
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
        Ok(Self { agent: agent(read), base, token, client_cert: shown, fault: None })
    }

    /// Injects a fault into answers, to check that the comparison detects it.
    #[must_use]
    pub fn with_fault(self, fault: AnswerFault) -> Self {
        Self { fault: Some(fault), ..self }
    }

    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn get(&self, path: &str) -> Result<HttpAnswer, String> {
        self.send("GET", path, &RequestStep::default(), Vec::new())
    }

    pub fn send(
        &self,
        method: &str,
        path: &str,
        step: &RequestStep,
        body: Vec<u8>,
    ) -> Result<HttpAnswer, String> {
        if method == "SOCKET" {
            return socket::watch(&self.base, path, &self.headers(step), self.client_cert.as_ref());
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
        // The server may have closed a keep-alive connection after an earlier error: retry once on a new one.
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
        let answer = HttpAnswer { code, warnings, media, body };
        Ok(match &self.fault {
            Some(fault) => fault(if watch { "WATCH" } else { method }, path, answer),
            None => answer,
        })
    }
}

impl ApiClient {
    fn headers(&self, step: &RequestStep) -> Vec<(String, String)> {
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

/// Decodes a watch stream: one JSON document per line.
fn events(bytes: &[u8]) -> Tree {
    Tree::list(bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()).map(tree_of).collect::<Vec<_>>())
}

/// Decodes a protobuf watch stream: each event follows its length in four bytes.
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

/// Decodes a JSON body; other text becomes a string.
fn tree_of(bytes: &[u8]) -> Tree {
    Tree::parse(bytes).unwrap_or_else(|_| Tree::from(String::from_utf8_lossy(bytes).into_owned()))
}

/// Runs a scenario in a new namespace and returns one answer per step.
pub fn run_scenario(
    server: &ApiClient,
    scenario: &RequestScenario,
    namespace: &str,
) -> Result<Vec<HttpAnswer>, String> {
    let make = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    server.send("POST", "/api/v1/namespaces", &RequestStep::default(), make.to_json_bytes())?;
    let mut answers: Vec<HttpAnswer> = Vec::new();
    for step in &scenario.steps {
        answers.push(perform(server, step, namespace, &answers)?);
    }
    Ok(answers)
}

fn perform(
    server: &ApiClient,
    step: &RequestStep,
    namespace: &str,
    so_far: &[HttpAnswer],
) -> Result<HttpAnswer, String> {
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

/// Reads a file of the workspace.
fn read(file: &str) -> Result<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Replaces `{ns}`, `{uid:N}`, `{rv:N}` and `{continue:N}`.
fn fill_in(text: &str, namespace: &str, so_far: &[HttpAnswer]) -> String {
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
