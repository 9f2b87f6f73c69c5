//! A kubelet server with one pod, and its clients.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use muster_api::environment::Clock;
use muster_api::time::Time;
use muster_kubelet::KubeletServer;
use muster_process::logs::{LogRotation, LogStream, LogWriter};
use muster_process::runtime::ExecProcess;
use muster_process::{
    AttachSession, ContainerConfig, ContainerRuntime, ExecOptions, ExecSession, ExitReason, ExitRecord,
    IsolationFeature, PodRegistry, RegisteredPod, RunId, RunState,
};
use muster_tree::Tree;
use tempfile::TempDir;
use tokio::io::DuplexStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};

/// Timeout of an expected event.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The clock of all tests, in seconds since 1970.
pub const NOW: i64 = 1_700_000_000;

pub const V5: &str = "v5.channel.k8s.io";
pub const V4: &str = "v4.channel.k8s.io";

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Time {
        Time(NOW * 1_000_000)
    }
}

/// A runtime with real exec'd commands and fake containers.
pub struct Fake {
    folder: TempDir,
    states: Mutex<BTreeMap<RunId, RunState>>,
    /// Reads what attached clients write to stdin.
    pub typed: Mutex<Option<File>>,
    stdin: Mutex<Option<File>>,
    pub sizes: Arc<Mutex<Vec<(u16, u16)>>>,
}

pub fn id(container: &str, attempt: u32) -> RunId {
    RunId { pod: "u".to_owned(), container: container.to_owned(), attempt }
}

impl Fake {
    pub fn set(&self, container: &str, attempt: u32, state: RunState) {
        self.states.lock().unwrap().insert(id(container, attempt), state);
    }

    pub fn writer(&self, container: &str, attempt: u32) -> LogWriter {
        LogWriter::open(&self.log_dir(&id(container, attempt)), LogRotation::DEFAULT).unwrap()
    }

    pub fn say(&self, container: &str, attempt: u32, stream: LogStream, text: &str, at_secs: i64) {
        self.writer(container, attempt).take(stream, text.as_bytes(), at_secs * 1_000_000_000);
    }
}

pub fn ended() -> RunState {
    RunState::Exited(ExitRecord {
        since_micros: Some(0),
        until_micros: 1,
        code: 0,
        signal: None,
        why: ExitReason::Exited,
        message: String::new(),
    })
}

pub fn running() -> RunState {
    RunState::Running { since: Time(0) }
}

struct Running {
    child: Child,
    sizes: Arc<Mutex<Vec<(u16, u16)>>>,
}

impl ExecProcess for Running {
    fn wait(&mut self) -> io::Result<i32> {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.wait()?;
        Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }

    fn killer(&self) -> Box<dyn Fn() + Send + Sync> {
        let pid = self.child.id().to_string();
        Box::new(move || {
            Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status().unwrap();
        })
    }

    fn resizer(&self) -> Box<dyn Fn(u16, u16) + Send + Sync> {
        let sizes = self.sizes.clone();
        Box::new(move |width, height| sizes.lock().unwrap().push((width, height)))
    }
}

fn file(end: impl Into<OwnedFd>) -> File {
    File::from(end.into())
}

impl ContainerRuntime for Fake {
    fn start(&self, _launch: &ContainerConfig) -> Result<(), String> {
        Err("nothing starts here".to_owned())
    }

    fn state(&self, id: &RunId) -> Option<RunState> {
        self.states.lock().unwrap().get(id).cloned()
    }

    fn list_runs(&self) -> Vec<RunId> {
        self.states.lock().unwrap().keys().cloned().collect()
    }

    fn signal(&self, _id: &RunId, _signal: i32) {}

    fn kill(&self, _id: &RunId) {}

    fn remove_pod(&self, _pod: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove_run(&self, _id: &RunId) -> io::Result<()> {
        Ok(())
    }

    fn exec(&self, _id: &RunId, options: &ExecOptions) -> Result<ExecSession, String> {
        let mut command = Command::new(&options.argv[0]);
        command.args(&options.argv[1..]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if options.stdin { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn().map_err(|error| format!("{:?}: {error}", options.argv[0]))?;
        Ok(ExecSession {
            stdin: child.stdin.take().map(file),
            stdout: child.stdout.take().map(file),
            stderr: child.stderr.take().map(file),
            process: Box::new(Running { child, sizes: self.sizes.clone() }),
        })
    }

    fn attach(&self, _id: &RunId, _stdin: bool) -> Result<AttachSession, String> {
        let sizes = self.sizes.clone();
        let resize = Box::new(move |width, height| sizes.lock().unwrap().push((width, height)));
        Ok(AttachSession { stdin: self.stdin.lock().unwrap().take(), resize })
    }

    fn log_dir(&self, id: &RunId) -> PathBuf {
        self.folder.path().join(&id.container).join(id.attempt.to_string())
    }

    fn isolation_features(&self) -> Vec<IsolationFeature> {
        Vec::new()
    }
}

/// A kubelet with the pod `n/p`: `main` is in its second run, `new` was never started.
pub struct World {
    pub containers: Arc<Fake>,
    pub roster: Arc<PodRegistry>,
    pub kubelet: Arc<KubeletServer>,
}

pub fn resident() -> RegisteredPod {
    RegisteredPod {
        uid: "u".to_owned(),
        address: "127.0.0.1".to_owned(),
        attempts: BTreeMap::from([("main".to_owned(), 1), ("over".to_owned(), 0)]),
        containers: ["main", "over", "new"].map(str::to_owned).to_vec(),
        waiting: BTreeMap::from([("new".to_owned(), "ContainerCreating".to_owned())]),
    }
}

impl World {
    pub fn new() -> World {
        let (typed, stdin) = io::pipe().unwrap();
        let containers = Arc::new(Fake {
            folder: TempDir::new().unwrap(),
            states: Mutex::default(),
            typed: Mutex::new(Some(file(typed))),
            stdin: Mutex::new(Some(file(stdin))),
            sizes: Arc::default(),
        });
        containers.set("main", 0, ended());
        containers.set("main", 1, running());
        containers.set("over", 0, ended());
        let roster = Arc::new(PodRegistry::default());
        roster.set("n", "p", resident());
        let kubelet = Arc::new(KubeletServer::new(containers.clone(), roster.clone(), Arc::new(Fixed)));
        World { containers, roster, kubelet }
    }

    fn connection(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let kubelet = self.kubelet.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let kubelet = kubelet.clone();
                async move { Ok::<_, std::convert::Infallible>(kubelet.serve(request).await) }
            });
            let served = hyper::server::conn::http1::Builder::new();
            let _ = served.serve_connection(TokioIo::new(theirs), service).with_upgrades().await;
        });
        ours
    }

    /// Sends a request; returns the response head and its body.
    pub async fn begin(
        &self,
        path: &str,
        headers: &[(&'static str, &str)],
    ) -> Response<hyper::body::Incoming> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.connection())).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::get(path).header("host", "n").body(Empty::<Bytes>::new()).unwrap();
        for (name, value) in headers {
            request.headers_mut().append(*name, HeaderValue::from_str(value).unwrap());
        }
        sender.send_request(request).await.unwrap()
    }

    /// Code and text of an answer.
    pub async fn get(&self, path: &str) -> (u16, String) {
        text(self.begin(path, &[]).await).await
    }

    /// Upgrades to a WebSocket, or returns the error.
    pub async fn stream(&self, path: &str, protocol: &str) -> Result<Client, (u16, String)> {
        let mut request = format!("ws://n{path}").into_client_request().unwrap();
        if !protocol.is_empty() {
            request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_str(protocol).unwrap());
        }
        match client_async(request, self.connection()).await {
            Ok((socket, _)) => Ok(Client(socket)),
            Err(tokio_tungstenite::tungstenite::Error::Http(response)) => {
                let code = response.status().as_u16();
                let text = response.into_body().unwrap_or_default();
                Err((code, String::from_utf8(text).unwrap()))
            }
            Err(error) => panic!("{error}"),
        }
    }
}

pub async fn text(response: Response<hyper::body::Incoming>) -> (u16, String) {
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(bytes.to_vec()).unwrap())
}

/// A client of the binary subprotocols.
pub struct Client(pub WebSocketStream<DuplexStream>);

impl Client {
    pub async fn send(&mut self, channel: u8, bytes: &[u8]) {
        self.0.send(Message::binary([&[channel], bytes].concat())).await.unwrap();
    }

    /// The next data message as channel and text; `None` at the end.
    pub async fn next(&mut self) -> Option<(u8, String)> {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.0.next()).await.expect("something comes");
            match message? {
                Ok(Message::Binary(bytes)) if bytes.len() > 1 => {
                    return Some((bytes[0], String::from_utf8_lossy(&bytes[1..]).into_owned()));
                }
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// Everything until the end, by channel.
    pub async fn rest(&mut self) -> BTreeMap<u8, String> {
        let mut all: BTreeMap<u8, String> = BTreeMap::new();
        while let Some((channel, text)) = self.next().await {
            all.entry(channel).or_default().push_str(&text);
        }
        all
    }

    /// Everything until the end: output, errors, and how it ended.
    pub async fn outcome(&mut self) -> (String, String, Tree) {
        let mut all = self.rest().await;
        let ended = Tree::parse(all.remove(&3).expect("it says how it ended").as_bytes()).unwrap();
        (all.remove(&1).unwrap_or_default(), all.remove(&2).unwrap_or_default(), ended)
    }
}
