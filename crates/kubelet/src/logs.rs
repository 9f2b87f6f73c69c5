//! Logs on their way out.

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
use muster_process::{Containers, Id, Resident, State};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::sleep;

use crate::Stop;
use crate::answer::{self, Answer, Refusal};
use crate::options::LogOptions;
use crate::path::Which;

/// Pieces are about this long.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that wait for a slow reader.
const PIECES_MAX: usize = 4;
/// The pause between two looks at a log that is followed.
pub(crate) const FOLLOW_PAUSE: Duration = Duration::from_millis(50);

/// Which run's log is meant: the newest, or the one that ended before it.
///
/// # Errors
/// 400 with a kubelet's words when there is none.
pub(crate) fn run_of(
    containers: &dyn Containers,
    resident: &Resident,
    which: &Which,
    previous: bool,
) -> Result<Id, Refusal> {
    let (container, pod) = (&which.container, &which.pod);
    let id = |attempt| Id { pod: resident.uid.clone(), container: container.clone(), attempt };
    let begun = |attempt: &u32| containers.state(&id(*attempt)).is_some();
    let newest = resident.attempts.get(container).copied().filter(begun);
    if previous {
        // While a container waits for its next run, the newest is the one that ended before.
        let waits = resident.waiting.contains_key(container);
        let before = newest.and_then(|newest| if waits { Some(newest) } else { newest.checked_sub(1) });
        return before.filter(begun).map(id).ok_or_else(|| {
            let text = format!("previous terminated container {container:?} in pod {pod:?} not found");
            Refusal::new(400, text)
        });
    }
    newest.map(id).ok_or_else(|| Refusal::new(400, not_yet(resident, which)))
}

fn not_yet(resident: &Resident, which: &Which) -> String {
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

/// The answer that carries the log of a run.
///
/// # Errors
/// 500 when the log cannot be read.
pub(crate) async fn answer(
    containers: Arc<dyn Containers>,
    id: Id,
    options: LogOptions,
    place: OwnedSemaphorePermit,
    stop: Stop,
) -> Result<Answer, Refusal> {
    let folder = containers.log(&id);
    let follow = options.follow;
    let reader = blocking(move || LogReader::open(&folder, options.part)).await;
    let reader = reader.map_err(|error| unreadable(&containers.log(&id), &error))?;
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    tokio::spawn(async move {
        send(containers, id, reader, follow, sender, stop).await;
        drop(place);
    });
    Ok(answer::stream(200, Pieces(pieces).boxed_unsync()))
}

fn unreadable(folder: &Path, error: &io::Error) -> Refusal {
    Refusal::new(500, format!("reading the log in {}: {error}", folder.display()))
}

/// Runs file work where it may wait.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Whether nothing more will be written to the log of a run.
pub(crate) fn is_over(containers: &dyn Containers, id: &Id) -> bool {
    !matches!(containers.state(id), Some(State::Starting | State::Running { .. }))
}

async fn send(
    containers: Arc<dyn Containers>,
    id: Id,
    mut reader: LogReader,
    follow: bool,
    sender: mpsc::Sender<io::Result<Bytes>>,
    mut stop: Stop,
) {
    loop {
        // Asked before reading: what was written until the end is then read for sure.
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

/// A body that comes piece by piece; an error breaks it off.
struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|bytes| bytes.map(Frame::data)))
    }
}
