//! `kubectl exec`: runs a command in a container and streams its stdio.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use muster_process::runtime::ExecProcess;
use muster_process::{ContainerRuntime, ExecOptions, ExecSession, RunId};
use muster_tree::Tree;
use serde::Deserialize;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::options::StreamOptions;
use crate::pipe::{AsyncPipeReader, AsyncPipeWriter};
use crate::session::{Disconnected, Outbox, Session};
use crate::status;
use crate::subprotocol::{ChannelMessage, ERROR, RESIZE, STDERR, STDIN, STDOUT};

/// Maximum bytes of an output message.
pub(crate) const PIECE_BYTES: usize = 32 << 10;
/// After the exit, a silent output is closed after this time: a background process may keep the pipe open for ever.
const QUIET_MAX: Duration = Duration::from_secs(1);

/// Runs a command until it exits or the client disconnects.
pub(crate) async fn run(
    containers: Arc<dyn ContainerRuntime>,
    id: RunId,
    argv: Vec<String>,
    streams: StreamOptions,
    session: Session,
) {
    let Session { inbox, outbox, gone } = session;
    if greet(&outbox, streams).await.is_err() {
        return;
    }
    let options = ExecOptions { argv, stdin: streams.stdin, tty: streams.tty };
    let begun = tokio::task::spawn_blocking(move || containers.exec(&id, &options)).await;
    let begun = begun.unwrap_or_else(|_| Err("the server panicked; it goes on".to_owned()));
    let work = begun.and_then(|exec| Work::of(exec).map_err(|error| error.to_string()));
    let mut work = match work {
        Ok(work) => work,
        Err(why) => {
            let why = format!("error executing command in container: {why}");
            return tell(&outbox, &status::failed(&why)).await;
        }
    };
    let stdin = work.stdin.take();
    let code = tokio::select! {
        code = work.ended(&outbox, streams) => code,
        () = feed(inbox, stdin, &work.resize) => return,
        _ = gone => return,
    };
    work.process_ended();
    let ended = match code {
        Ok(code) => status::exited(code),
        Err(error) => status::failed(&format!("error executing command in container: {error}")),
    };
    tell(&outbox, &ended).await;
}

/// An empty message confirms the connection to the client, as the kubelet does.
pub(crate) async fn greet(outbox: &Outbox, streams: StreamOptions) -> Result<(), Disconnected> {
    let channel = match streams {
        StreamOptions { stdout: true, .. } => STDOUT,
        StreamOptions { stderr: true, .. } => STDERR,
        _ => ERROR,
    };
    outbox.send(channel, b"").await
}

/// Sends the exit status; subprotocols before v4 only get an error message.
pub(crate) async fn tell(outbox: &Outbox, ended: &Tree) {
    let message = ended.str_at(&["message"]);
    let _ = match outbox.dialect().status {
        true => outbox.send(ERROR, &ended.to_json_bytes()).await,
        false if message.is_empty() => Ok(()),
        false => outbox.send(ERROR, message.as_bytes()).await,
    };
}

/// A running command; killed when dropped before [`Work::process_ended`].
struct Work {
    stdin: Option<AsyncPipeWriter>,
    stdout: Option<AsyncPipeReader>,
    stderr: Option<AsyncPipeReader>,
    process: Option<Box<dyn ExecProcess>>,
    resize: Box<dyn Fn(u16, u16) + Send + Sync>,
    kill: Option<Box<dyn Fn() + Send + Sync>>,
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(kill) = self.kill.take() {
            kill();
        }
    }
}

impl Work {
    fn of(exec: ExecSession) -> std::io::Result<Work> {
        let mut work = Work {
            stdin: None,
            stdout: None,
            stderr: None,
            resize: exec.process.resizer(),
            kill: Some(exec.process.killer()),
            process: Some(exec.process),
        };
        work.stdin = exec.stdin.map(AsyncPipeWriter::new).transpose()?;
        work.stdout = exec.stdout.map(AsyncPipeReader::new).transpose()?;
        work.stderr = exec.stderr.map(AsyncPipeReader::new).transpose()?;
        Ok(work)
    }

    /// Streams output until the command has exited and its output is sent.
    fn ended(
        &mut self,
        outbox: &Outbox,
        streams: StreamOptions,
    ) -> impl Future<Output = std::io::Result<i32>> + use<> {
        let process = self.process.take();
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let outbox = outbox.clone();
        async move {
            let (ended, is_over) = watch::channel(false);
            let waiting =
                tokio::task::spawn_blocking(move || process.expect("a command is waited for once").wait());
            let waited = async {
                let code = waiting.await;
                ended.send_replace(true);
                code
            };
            let (code, (), ()) = tokio::join!(
                waited,
                pump(stdout, streams.stdout.then_some(STDOUT), &outbox, is_over.clone()),
                pump(stderr, streams.stderr.then_some(STDERR), &outbox, is_over),
            );
            code.unwrap_or_else(|_| Err(std::io::Error::other("the server panicked; it goes on")))
        }
    }

    /// Disarms the kill on drop.
    fn process_ended(&mut self) {
        self.kill = None;
    }
}

/// Streams an output to a channel; without a channel it is discarded, so that the command does not block.
async fn pump(
    pipe: Option<AsyncPipeReader>,
    channel: Option<u8>,
    outbox: &Outbox,
    mut is_over: watch::Receiver<bool>,
) {
    let Some(mut pipe) = pipe else {
        return;
    };
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let read = tokio::select! {
            // Biased: pending output is read before the quiet period can end.
            biased;
            read = pipe.read(&mut buffer) => read,
            () = quiet(&mut is_over) => return,
        };
        let Ok(read @ 1..) = read else {
            return;
        };
        if let Some(channel) = channel
            && outbox.send(channel, &buffer[..read]).await.is_err()
        {
            return;
        }
    }
}

async fn quiet(is_over: &mut watch::Receiver<bool>) {
    let _ = is_over.wait_for(|over| *over).await;
    sleep(QUIET_MAX).await;
}

/// Forwards stdin and terminal sizes; returns when the client disconnects.
pub(crate) async fn feed(
    mut inbox: mpsc::Receiver<ChannelMessage>,
    mut stdin: Option<AsyncPipeWriter>,
    resize: &(dyn Fn(u16, u16) + Send + Sync),
) {
    while let Some(arrived) = inbox.recv().await {
        match arrived {
            ChannelMessage::Data(STDIN, bytes) => {
                if let Some(pipe) = &mut stdin
                    && pipe.write_all(&bytes).await.is_err()
                {
                    stdin = None;
                }
            }
            ChannelMessage::Close(STDIN) => stdin = None,
            ChannelMessage::Data(RESIZE, bytes) => {
                if let Some(size) = Size::of(&bytes) {
                    resize(size.width, size.height);
                }
            }
            ChannelMessage::Data(..) | ChannelMessage::Close(_) => {}
        }
    }
}

/// The size of a terminal, in characters.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Size {
    #[serde(rename = "Width")]
    width: u16,
    #[serde(rename = "Height")]
    height: u16,
}

impl Size {
    fn of(bytes: &Bytes) -> Option<Size> {
        serde_json::from_slice(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let of = |text: &'static str| Size::of(&Bytes::from_static(text.as_bytes()));
        assert_eq!(of("{\"Width\":80,\"Height\":24}\n"), Some(Size { width: 80, height: 24 }));
        assert_eq!(of("{\"Width\":-1,\"Height\":24}"), None);
        assert_eq!(of("80x24"), None);
    }
}
