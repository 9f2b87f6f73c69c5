//! `muster agent`: the part of a restart in place that runs in each pod.
//!
//! Pods of a JobSet that restarts in place wait at a barrier until all of them are in the same attempt. The agent tells
//! the attempt of its pod in an annotation, reads from the JobSet's status which attempt all have reached and which is
//! over, and starts the worker, lets a startup probe pass, or ends so that its container is started again.
//!
//! It is set up by environment variables, as manifests for other JobSet controllers have them.

mod barrier;

use std::io;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use muster_api::kinds;
use muster_api::port::{Act, Batch, Call, Change, Follow, Guard, Part, Target};
use muster_api::words::jobset::IN_PLACE_ATTEMPT;
use muster_cluster::{ConnectError, KubeApi};
use muster_operator::log;
use muster_tree::{Text, Tree, literal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::AgentFlags;
use barrier::{Barrier, Order};

/// Who owns the annotation.
const BY: Text = literal!("in-place-restart-agent");
/// How often the worker and the watch are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long after a refusal the annotation is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The longest head of a request of a probe.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Why it ended.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The environment.
    #[error(
        "{0}\n\nhint: set JOBSET_NAME and POD_NAME, and either WORKER_COMMAND or STARTUP_PROBE_PATH and STARTUP_PROBE_PORT"
    )]
    Environment(String),
    /// The server.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The system.
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// What happens when the barrier is lifted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Task {
    /// The worker runs, and the agent ends with it.
    Worker(String),
    /// A probe passes.
    Probe { path: String, port: u16 },
}

/// What the environment says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Orders {
    set: Text,
    pod: Text,
    task: Task,
    restart_code: u8,
}

impl Orders {
    fn of(get: impl Fn(&str) -> Option<String>) -> Result<Orders, AgentError> {
        let wrong = |words: String| AgentError::Environment(words);
        let required = |name: &str| {
            get(name)
                .filter(|it| !it.is_empty())
                .map(Text::from)
                .ok_or_else(|| wrong(format!("{name} is not set")))
        };
        let number = |name: &str, default: u16| match get(name) {
            None => Ok(default),
            Some(text) => {
                text.parse().map_err(|_| wrong(format!("{name} is {text:?}, and no number up to 65535")))
            }
        };
        let (path, port) = (get("STARTUP_PROBE_PATH"), get("STARTUP_PROBE_PORT"));
        let task = match get("WORKER_COMMAND") {
            Some(_) if path.is_some() || port.is_some() => {
                return Err(wrong(
                    "WORKER_COMMAND excludes STARTUP_PROBE_PATH and STARTUP_PROBE_PORT".to_owned(),
                ));
            }
            Some(command) => Task::Worker(command),
            None => Task::Probe {
                path: path.unwrap_or_else(|| "/barrier-is-down".to_owned()),
                port: number("STARTUP_PROBE_PORT", 8081)?,
            },
        };
        let code = number("IN_PLACE_RESTART_EXIT_CODE", 1)?;
        let restart_code = u8::try_from(code)
            .map_err(|_| wrong(format!("IN_PLACE_RESTART_EXIT_CODE is {code}, and exit codes end at 255")))?;
        Ok(Orders { set: required("JOBSET_NAME")?, pod: required("POD_NAME")?, task, restart_code })
    }
}

/// Runs until its pod is to restart, the worker has ended, or a signal comes.
///
/// # Errors
/// It could not start.
pub fn run(flags: &AgentFlags) -> Result<ExitCode, AgentError> {
    log::start(flags.log_level, flags.log_format);
    let orders = Orders::of(|name| std::env::var(name).ok())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        // Signals count from here on: a stop during the start is a stop as well.
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut worker = None;
        let code = tokio::select! {
            _ = interrupt.recv() => Ok(128 + 2),
            _ = terminate.recv() => Ok(128 + 15),
            code = work(&orders, &mut worker) => code,
        };
        end(worker);
        code
    })?;
    Ok(ExitCode::from(code))
}

/// Whatever ends the agent ends the worker.
fn end(worker: Option<Child>) {
    if let Some(mut worker) = worker {
        // It may have ended by itself.
        let _ = worker.kill();
        let _ = worker.wait();
    }
}

async fn work(orders: &Orders, worker: &mut Option<Child>) -> Result<u8, AgentError> {
    let api = KubeApi::connect(None).await?;
    let namespace = Text::from(api.namespace());
    let mut follow = api.follow_one(&kinds::JOBSETS, &namespace, &orders.set);
    let mut barrier = Barrier::default();
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        look.tick().await;
        for set in news(follow.as_mut(), &orders.set) {
            for order in barrier.see(&set) {
                match order {
                    Order::Announce(attempt) => announce(&api, &namespace, &orders.pod, attempt).await,
                    Order::Restart => return Ok(orders.restart_code),
                    Order::Lift => lift(&orders.task, worker)?,
                }
            }
        }
        if let Some(status) = worker.as_mut().map(Child::try_wait).transpose()?.flatten() {
            return Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
    }
}

/// The states of the JobSet that came since the last time.
fn news(follow: &mut dyn Follow, name: &Text) -> Vec<Tree> {
    let mut all = Vec::new();
    while let Some(batch) = follow.pull() {
        let objects = match batch {
            Batch::Reset(objects) => objects,
            Batch::Changes(changes) => changes
                .into_iter()
                .filter_map(|it| if let Change::Put(object) = it { Some(object) } else { None })
                .collect(),
        };
        all.extend(objects.into_iter().map(|it| it.tree).filter(|it| muster_api::meta::name(it) == *name));
    }
    all
}

/// Says which attempt the pod is in, until the server has taken it.
async fn announce(api: &KubeApi, namespace: &Text, pod: &Text, attempt: u32) {
    let notes = Tree::map([(IN_PLACE_ATTEMPT, attempt.to_string())]);
    let body = muster_tree::tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": namespace}})
        .with(&["metadata", "annotations"], notes);
    let on = Target {
        kind: kinds::PODS.clone(),
        namespace: namespace.clone(),
        name: pod.clone(),
        part: Part::Main,
    };
    let call = Call { by: BY, on, guard: Guard::default(), act: Act::Apply { body, force: true } };
    while let Err(refusal) = api.perform(&call).await {
        tracing::warn!(%pod, %refusal, "the attempt could not be told");
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

fn lift(task: &Task, worker: &mut Option<Child>) -> Result<(), AgentError> {
    match task {
        Task::Worker(command) => {
            let shell = std::env::var_os("SHELL").unwrap_or_else(|| "bash".into());
            *worker = Some(Command::new(shell).arg("-c").arg(command).spawn()?);
        }
        Task::Probe { path, port } => {
            let listener = std::net::TcpListener::bind(("0.0.0.0", *port))?;
            listener.set_nonblocking(true)?;
            tokio::spawn(probe(TcpListener::from_std(listener)?, path.clone()));
        }
    }
    Ok(())
}

/// Answers probes, one after the other.
async fn probe(listener: TcpListener, path: String) {
    while let Ok((stream, _)) = listener.accept().await {
        // A probe that hangs up early asks again.
        let _ = tokio::time::timeout(Duration::from_secs(5), answer(stream, &path)).await;
    }
}

async fn answer(mut stream: TcpStream, path: &str) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    let line = String::from_utf8_lossy(&head);
    let asked = line.split(' ').nth(1).unwrap_or_default();
    let code = if asked == path { "200 OK" } else { "404 Not Found" };
    let text = format!("HTTP/1.1 {code}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_environment_says() {
        let named = [("JOBSET_NAME", "s"), ("POD_NAME", "p")];
        let orders = |more: &[(&str, &str)]| {
            let all: Vec<(&str, &str)> = named.iter().chain(more).copied().collect();
            Orders::of(|name| all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        let plain = orders(&[]).unwrap();
        assert_eq!(
            (plain.task, plain.restart_code),
            (Task::Probe { path: "/barrier-is-down".into(), port: 8081 }, 1)
        );
        let worker = orders(&[("WORKER_COMMAND", "train"), ("IN_PLACE_RESTART_EXIT_CODE", "7")]).unwrap();
        assert_eq!((worker.task, worker.restart_code), (Task::Worker("train".into()), 7));
        for (more, words) in [
            (&[("WORKER_COMMAND", "a"), ("STARTUP_PROBE_PORT", "1")][..], "WORKER_COMMAND excludes"),
            (&[("STARTUP_PROBE_PORT", "x")], "STARTUP_PROBE_PORT is \"x\""),
            (&[("IN_PLACE_RESTART_EXIT_CODE", "256")], "exit codes end at 255"),
        ] {
            let error = orders(more).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("hint:"), "{error}");
        }
        let error = Orders::of(|name| (name == "POD_NAME").then(|| "p".to_owned())).unwrap_err().to_string();
        assert!(error.contains("JOBSET_NAME is not set"), "{error}");
    }
}
