//! `kubectl attach`: forwards stdin, and streams output from the end of the log.

use std::io;
use std::sync::Arc;

use muster_process::logs::{LogReader, LogStream};
use muster_process::{ContainerRuntime, RunId};
use tokio::time::sleep;

use crate::exec::{PIECE_BYTES, feed, greet, tell};
use crate::logs::{FOLLOW_PAUSE, blocking, is_over};
use crate::options::StreamOptions;
use crate::pipe::AsyncPipeWriter;
use crate::session::{Disconnected, Outbox, Session};
use crate::status;
use crate::subprotocol::{STDERR, STDOUT};

/// Streams until the container exits or the client disconnects. The container keeps running in the latter case.
pub(crate) async fn run(
    containers: Arc<dyn ContainerRuntime>,
    id: RunId,
    streams: StreamOptions,
    session: Session,
) {
    let Session { inbox, outbox, gone } = session;
    let folder = containers.log_dir(&id);
    let reader = blocking(move || LogReader::at_end(&folder)).await.map_err(|error| error.to_string());
    // The log is opened before stdin is forwarded, so that the reply to the first input is not missed.
    let ends = reader.and_then(|reader| {
        let attached = containers.attach(&id, streams.stdin)?;
        let stdin = attached.stdin.map(AsyncPipeWriter::new).transpose();
        Ok((reader, stdin.map_err(|error| error.to_string())?, attached.resize))
    });
    let (reader, stdin, resize) = match ends {
        Ok(ends) => ends,
        Err(why) => {
            return tell(&outbox, &status::failed(&format!("error attaching to container: {why}"))).await;
        }
    };
    if greet(&outbox, streams).await.is_err() {
        return;
    }
    let ended = tokio::select! {
        ended = follow(containers.as_ref(), &id, reader, streams, &outbox) => ended,
        () = feed(inbox, stdin, resize.as_ref()) => return,
        _ = gone => return,
    };
    match ended {
        Ok(()) => tell(&outbox, &status::success()).await,
        Err(error) => tell(&outbox, &status::failed(&format!("error attaching to container: {error}"))).await,
    }
}

async fn follow(
    containers: &dyn ContainerRuntime,
    id: &RunId,
    mut reader: LogReader,
    streams: StreamOptions,
    outbox: &Outbox,
) -> io::Result<()> {
    loop {
        let is_last = is_over(containers, id);
        let (given_back, said) = blocking(move || said(reader)).await?;
        reader = given_back;
        if said.is_empty() && is_last {
            return Ok(());
        }
        if said.is_empty() {
            sleep(FOLLOW_PAUSE).await;
        }
        for (stream, bytes) in said {
            if send_chunk(stream, &bytes, streams, outbox).await.is_err() {
                return Ok(());
            }
        }
    }
}

async fn send_chunk(
    stream: LogStream,
    bytes: &[u8],
    streams: StreamOptions,
    outbox: &Outbox,
) -> Result<(), Disconnected> {
    match stream {
        LogStream::Stdout if streams.stdout => outbox.send(STDOUT, bytes).await,
        LogStream::Stderr if streams.stderr => outbox.send(STDERR, bytes).await,
        LogStream::Stdout | LogStream::Stderr => Ok(()),
    }
}

/// Output chunks by stream, in order.
type LogChunks = Vec<(LogStream, Vec<u8>)>;

/// Reads new output; adjacent chunks of one stream are merged.
fn said(mut reader: LogReader) -> io::Result<(LogReader, LogChunks)> {
    let mut all = LogChunks::new();
    let mut total = 0;
    while total < PIECE_BYTES {
        let Some(line) = reader.next_line()? else {
            break;
        };
        let bytes = line.bytes();
        total += bytes.len();
        match all.last_mut() {
            Some((stream, last)) if *stream == line.stream => last.extend_from_slice(&bytes),
            _ => all.push((line.stream, bytes)),
        }
    }
    Ok((reader, all))
}
