//! `muster agent`: the in-place restart agent, which runs in each pod of a JobSet with `restartStrategy: InPlaceRestart`.
//!
//! The pods wait at a barrier until all of them are in the same attempt. The agent writes the attempt of its pod into an
//! annotation, and watches `status.currentInPlaceRestartAttempt` and `status.previousInPlaceRestartAttempt` of the
//! JobSet. When all pods are in the current attempt it starts the worker or lets the startup probe pass; when its own
//! attempt is outdated it exits, so that the kubelet restarts the container.
//!
//! It is configured by the environment variables of upstream's agent, so that the same manifests work.

mod barrier;

use std::io;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use muster_api::client::{
    ApiRequest, Preconditions, RequestTarget, RequestVerb, Subresource, WatchBatch, WatchChange, Watcher,
};
use muster_api::consts::jobset::IN_PLACE_ATTEMPT;
use muster_api::kinds;
use muster_cluster::{ConnectError, KubeApi};
use muster_operator::log;
use muster_tree::{Text, Tree, literal};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::AgentFlags;
use barrier::{Barrier, BarrierAction};

/// The field manager of the annotation.
const FIELD_MANAGER: Text = literal!("in-place-restart-agent");
/// The interval at which the worker and the watch are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The pause before a failed annotation write is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The longest head of a probe request.
const HEAD_BYTES_MAX: usize = 8 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(
        "{0}\n\nhint: set JOBSET_NAME and POD_NAME, and either WORKER_COMMAND or STARTUP_PROBE_PATH and STARTUP_PROBE_PORT"
    )]
    Environment(String),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// What the agent does when the barrier is lifted.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Task {
    /// Run this command in a shell, and exit with its exit code.
    Worker(String),
    /// Answer the HTTP startup probe of the worker container.
    Probe { path: String, port: u16 },
}

/// The configuration, from environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AgentConfig {
    set: Text,
    pod: Text,
    task: Task,
    restart_code: u8,
}

impl AgentConfig {
    fn of(get: impl Fn(&str) -> Option<String>) -> Result<AgentConfig, AgentError> {
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
        Ok(AgentConfig { set: required("JOBSET_NAME")?, pod: required("POD_NAME")?, task, restart_code })
    }
}

/// Runs until the pod must restart, the worker exits, or a signal arrives.
///
/// # Errors
/// The environment is incomplete, or the API server cannot be reached.
pub fn run(flags: &AgentFlags) -> Result<ExitCode, AgentError> {
    log::start(flags.log_level, flags.log_format);
    let orders = AgentConfig::of(|name| std::env::var(name).ok())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        // Signal handlers are installed before the agent connects, so that a signal during the start is not lost.
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

/// Kills the worker: it must not outlive the agent and join the next attempt of the other pods.
fn end(worker: Option<Child>) {
    if let Some(mut worker) = worker {
        // An error means that it has exited already.
        let _ = worker.kill();
        let _ = worker.wait();
    }
}

async fn work(orders: &AgentConfig, worker: &mut Option<Child>) -> Result<u8, AgentError> {
    let api = KubeApi::connect(None).await?;
    let namespace = Text::from(api.namespace());
    let mut follow = api.watch_object(&kinds::JOBSETS, &namespace, &orders.set);
    let mut barrier = Barrier::default();
    let mut look = tokio::time::interval(POLL_INTERVAL);
    loop {
        look.tick().await;
        for set in new_states(follow.as_mut(), &orders.set) {
            for order in barrier.observe(&set) {
                match order {
                    BarrierAction::Announce(attempt) => {
                        announce(&api, &namespace, &orders.pod, attempt).await;
                    }
                    BarrierAction::Restart => return Ok(orders.restart_code),
                    BarrierAction::Lift => lift(&orders.task, worker)?,
                }
            }
        }
        if let Some(status) = worker.as_mut().map(Child::try_wait).transpose()?.flatten() {
            return Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        }
    }
}

/// The states of the JobSet since the last call.
fn new_states(follow: &mut dyn Watcher, name: &Text) -> Vec<Tree> {
    let mut all = Vec::new();
    while let Some(batch) = follow.try_next() {
        let objects = match batch {
            WatchBatch::Restarted(objects) => objects,
            WatchBatch::Changes(changes) => changes
                .into_iter()
                .filter_map(|it| if let WatchChange::Applied(object) = it { Some(object) } else { None })
                .collect(),
        };
        all.extend(objects.into_iter().map(|it| it.tree).filter(|it| muster_api::meta::name(it) == *name));
    }
    all
}

/// Writes the attempt into the annotation of the pod; retries until the server accepts it, because the JobSet
/// controller waits for all pods.
async fn announce(api: &KubeApi, namespace: &Text, pod: &Text, attempt: u32) {
    let notes = Tree::map([(IN_PLACE_ATTEMPT, attempt.to_string())]);
    let body = muster_tree::tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": namespace}})
        .with(&["metadata", "annotations"], notes);
    let on = RequestTarget {
        kind: kinds::PODS.clone(),
        namespace: namespace.clone(),
        name: pod.clone(),
        subresource: Subresource::Main,
    };
    let call = ApiRequest {
        field_manager: FIELD_MANAGER,
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Apply { body, force: true },
    };
    while let Err(refusal) = api.perform(&call).await {
        tracing::warn!(%pod, %refusal, "updating the in-place restart attempt failed; retrying");
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

/// Answers probes, one at a time.
async fn probe(listener: TcpListener, path: String) {
    while let Ok((stream, _)) = listener.accept().await {
        // The kubelet repeats the probe after a broken connection.
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
            AgentConfig::of(|name| {
                all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
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
        let error =
            AgentConfig::of(|name| (name == "POD_NAME").then(|| "p".to_owned())).unwrap_err().to_string();
        assert!(error.contains("JOBSET_NAME is not set"), "{error}");
    }
}
