//! `kubectl logs`: streams the log of a container run.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use muster_process::logs::LogReader;
use muster_process::{ContainerRuntime, RegisteredPod, RunId, RunState};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::sleep;

use crate::ShutdownSignal;
use crate::options::PodLogOptions;
use crate::response::{self, HttpError, KubeletResponse};
use crate::route::ContainerRef;

/// Approximate bytes per chunk.
const PIECE_BYTES: usize = 64 << 10;
/// Buffered chunks of a slow client.
const PIECES_MAX: usize = 4;
/// Poll interval of a followed log.
pub(crate) const FOLLOW_PAUSE: Duration = Duration::from_millis(50);

/// Selects the current or previous run of a container.
///
/// # Errors
/// 400 with the kubelet's message if there is none.
pub(crate) fn run_of(
    containers: &dyn ContainerRuntime,
    resident: &RegisteredPod,
    which: &ContainerRef,
    previous: bool,
) -> Result<RunId, HttpError> {
    let (container, pod) = (&which.container, &which.pod);
    let id = |attempt| RunId { pod: resident.uid.clone(), container: container.clone(), attempt };
    let begun = |attempt: &u32| containers.state(&id(*attempt)).is_some();
    let newest = resident.attempts.get(container).copied().filter(begun);
    if previous {
        // During restart backoff the newest run is the terminated one.
        let waits = resident.waiting.contains_key(container);
        let before = newest.and_then(|newest| if waits { Some(newest) } else { newest.checked_sub(1) });
        return before.filter(begun).map(id).ok_or_else(|| {
            let text = format!("previous terminated container {container:?} in pod {pod:?} not found");
            HttpError::new(400, text)
        });
    }
    newest.map(id).ok_or_else(|| HttpError::new(400, waiting_message(resident, which)))
}

fn waiting_message(resident: &RegisteredPod, which: &ContainerRef) -> String {
    let (container, pod) = (&which.container, &which.pod);
    let Some(reason) = resident.waiting.get(container) else {
        return format!("container {container:?} in pod {pod:?} is not available");
    };
    let why = match reason.as_str() {
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        other => other,
    };
    format!("container {container:?} in pod {pod:?} is waiting to start: {why}")
}

/// The response with the log of a run.
///
/// # Errors
/// 500 if the log cannot be read.
pub(crate) async fn answer(
    containers: Arc<dyn ContainerRuntime>,
    id: RunId,
    options: PodLogOptions,
    place: OwnedSemaphorePermit,
    stop: ShutdownSignal,
) -> Result<KubeletResponse, HttpError> {
    let folder = containers.log_dir(&id);
    let follow = options.follow;
    let reader = blocking(move || LogReader::open(&folder, options.part)).await;
    let reader = reader.map_err(|error| log_error(&containers.log_dir(&id), &error))?;
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    tokio::spawn(async move {
        send(containers, id, reader, follow, sender, stop).await;
        drop(place);
    });
    Ok(response::stream(200, LogBody(pieces).boxed_unsync()))
}

fn log_error(folder: &Path, error: &io::Error) -> HttpError {
    HttpError::new(500, format!("reading the log in {}: {error}", folder.display()))
}

/// Runs blocking file I/O off the runtime threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Whether the run has exited: its log is complete.
pub(crate) fn is_over(containers: &dyn ContainerRuntime, id: &RunId) -> bool {
    !matches!(containers.state(id), Some(RunState::Starting | RunState::Running { .. }))
}

async fn send(
    containers: Arc<dyn ContainerRuntime>,
    id: RunId,
    mut reader: LogReader,
    follow: bool,
    sender: mpsc::Sender<io::Result<Bytes>>,
    mut stop: ShutdownSignal,
) {
    loop {
        // Checked before reading: output up to the exit is then read for sure.
        let is_last = !follow || is_over(containers.as_ref(), &id);
        let piece = match blocking(move || piece(reader)).await {
            Ok((given_back, piece)) => {
                reader = given_back;
                piece
            }
            Err(error) => {
                let _ = sender.send(Err(error)).await;
                return;
            }
        };
        // More may be available: read on without a pause.
        if !piece.is_empty() {
            if sender.send(Ok(piece.into())).await.is_err() {
                return;
            }
            continue;
        }
        if is_last || reader.is_done() {
            return;
        }
        tokio::select! {
            () = sleep(FOLLOW_PAUSE) => {}
            () = sender.closed() => return,
            () = stop.stopped() => return,
        }
    }
}

fn piece(mut reader: LogReader) -> io::Result<(LogReader, Vec<u8>)> {
    let mut piece = Vec::new();
    while piece.len() < PIECE_BYTES {
        match reader.next_bytes()? {
            Some(bytes) => piece.extend_from_slice(&bytes),
            None => break,
        }
    }
    Ok((reader, piece))
}

/// A streamed body; an error aborts the response.
struct LogBody(mpsc::Receiver<io::Result<Bytes>>);

impl Body for LogBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|bytes| bytes.map(Frame::data)))
    }
}
